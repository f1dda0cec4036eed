"""Graphs as the objects of kernels: nodes with or without labels, and edges between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from precog.kernels.statistics import Array, Index


class Graph:
    """An undirected graph without loops or repeated edges.

    edges: pairs of nodes, (e, 2), counted from 0. labels: one for each node, anything hashable. size: how many nodes
    there are; None takes the number of labels, or the largest node of an edge. A single node without edges is a graph.
    """

    def __init__(self, edges: Any, labels: Sequence[Hashable] | None = None, size: int | None = None) -> None:
        pairs = np.asarray(edges, dtype=np.intp) if len(edges) else np.zeros((0, 2), dtype=np.intp)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"Graph: edges are pairs of nodes, (e, 2); got shape {pairs.shape}")
        self.labels = None if labels is None else tuple(v.item() if hasattr(v, "item") else v for v in labels)
        if size is None:
            size = len(self.labels) if self.labels is not None else int(pairs.max(initial=-1)) + 1
        self.size = int(size)
        self._check(pairs)
        self.edges = np.sort(pairs, axis=1)
        self.edges.flags.writeable = False
        self._known: dict[Hashable, Any] = {}

    def _check(self, pairs: Index) -> None:
        if self.size < 1:
            raise ValueError("Graph: there is no node; give labels or size for a graph without edges")
        if self.labels is not None and len(self.labels) != self.size:
            raise ValueError(f"Graph: {len(self.labels)} labels for {self.size} nodes")
        wrong = ((pairs < 0) | (pairs >= self.size)).any(axis=1)
        if wrong.any():
            edge = int(wrong.argmax())
            raise ValueError(f"Graph: edge {edge} is {tuple(pairs[edge].tolist())}, nodes are 0 to {self.size - 1}")
        loops = pairs[:, 0] == pairs[:, 1]
        if loops.any():
            raise ValueError(f"Graph: edge {int(loops.argmax())} joins node {pairs[loops.argmax(), 0]} with itself")
        if len(np.unique(np.sort(pairs, axis=1), axis=0)) < len(pairs):
            raise ValueError("Graph: an edge is named twice; edges have no direction, so (0, 1) is (1, 0)")

    def known(self, key: Hashable, find: Callable[[Graph], Any]) -> Any:
        """Return what `find` says of this graph, asked for once for each key."""
        if key not in self._known:
            self._known[key] = find(self)
        return self._known[key]

    def labelled(self, owner: str) -> tuple[Hashable, ...]:
        """Return the labels, or say that they are missing."""
        if self.labels is None:
            raise ValueError(f"{owner} needs labels on the nodes: Graph(edges, labels=[...])")
        return self.labels

    @property
    def adjacency(self) -> Any:
        """The adjacency matrix, sparse and symmetric."""
        from scipy import sparse

        i, j = self.edges.T
        ones = np.ones(2 * len(i))
        ends = (np.concatenate([i, j]), np.concatenate([j, i]))
        return sparse.csr_array((ones, ends), shape=(self.size, self.size))

    @property
    def neighbours(self) -> list[list[int]]:
        """The neighbours of each node."""
        lists: list[list[int]] = [[] for _ in range(self.size)]
        for i, j in self.edges.tolist():
            lists[i].append(j)
            lists[j].append(i)
        return lists

    def distances(self) -> Array:
        """Return the number of edges between all pairs of nodes, infinite between parts that are not joined."""
        found: Array = self.known("distances", _distances)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def __repr__(self) -> str:
        return f"Graph(<{self.size} nodes, {len(self.edges)} edges>)"


def _distances(graph: Graph) -> Array:
    from scipy.sparse import csgraph

    found: Array = csgraph.shortest_path(graph.adjacency, unweighted=True, directed=False)
    return found


def check_graphs(owner: str, name: str, X: Any, *, labelled: bool) -> None:
    """Raise an error for objects that are no graphs, or whose labels are missing."""
    for i, x in enumerate(X):
        if not isinstance(x, Graph):
            raise TypeError(f"{owner} takes precog.Graph objects; object {i} of {name} is {type(x).__name__}")
        if labelled and x.labels is None:
            raise ValueError(
                f"{owner} needs labels on the nodes; graph {i} of {name} has none: Graph(edges, labels=[...])"
            )
