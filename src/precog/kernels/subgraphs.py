"""Kernels that count parts of graphs: shortest paths, graphlets, and neighbourhoods of Weisfeiler and Lehman.

Each is a dot product of counts. Where a graph has none of the parts, such as the graphlets of a single node, it is like
other such graphs and like no others.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from precog.kernels.counted import Counted
from precog.kernels.graphs import Graph, check_graphs

BASES = ("subtree", "edge", "shortest_path")


class ShortestPath(Counted):
    """Counts the shortest paths of each length [Borgwardt05]; labelled: of each length between each pair of labels."""

    labelled: bool = dataclasses.field(default=False, kw_only=True)

    def counts(self, x: Graph) -> Mapping[Hashable, float]:
        found: Counter[Hashable] = x.known(("paths", self.labelled), self._count)
        return found

    def _count(self, graph: Graph) -> Counter[Hashable]:
        if self.labelled:
            return labelled_paths(graph, graph.labelled("ShortestPath"))
        lengths, counts = np.unique(graph.distances(), return_counts=True)
        kept = np.isfinite(lengths) & (lengths > 0)
        return Counter(dict(zip(lengths[kept].tolist(), counts[kept].tolist(), strict=True)))

    def check(self, name: str, X: Any) -> None:
        check_graphs("ShortestPath", name, X, labelled=self.labelled)


def labelled_paths(graph: Graph, labels: tuple[Hashable, ...]) -> Counter[Hashable]:
    """Return how many ordered pairs of nodes have each pair of labels at each distance."""
    D = graph.distances()
    i, j = np.nonzero(np.isfinite(D) & (D > 0))
    pairs = zip(i.tolist(), j.tolist(), D[i, j].tolist(), strict=True)
    return Counter((labels[a], labels[b], length) for a, b, length in pairs)


class Graphlets(Counted):
    """Counts connected induced subgraphs of 3, 4 or 5 nodes by their shape [Shervashidze09]; labelled: and labels."""

    size: int = dataclasses.field(default=3, kw_only=True)
    labelled: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size not in (3, 4, 5):
            raise ValueError(f"Graphlets: size must be 3, 4 or 5, got {self.size!r}")

    def counts(self, x: Graph) -> Mapping[Hashable, float]:
        found: Counter[Hashable] = x.known(("graphlets", self.size, self.labelled), self._count)
        return found

    def _count(self, graph: Graph) -> Counter[Hashable]:
        joined = {frozenset(edge) for edge in graph.edges.tolist()}
        labels = graph.labelled("Graphlets") if self.labelled else None
        found: Counter[Hashable] = Counter()
        for nodes in connected_sets(graph.neighbours, self.size):
            edges = tuple(frozenset(pair) in joined for pair in itertools.combinations(nodes, 2))
            found[shape(edges, None if labels is None else tuple(labels[node] for node in nodes))] += 1
        return found

    def check(self, name: str, X: Any) -> None:
        check_graphs("Graphlets", name, X, labelled=self.labelled)


def connected_sets(neighbours: list[list[int]], size: int) -> Iterator[tuple[int, ...]]:
    """Yield every connected set of so many nodes once, by growing each from its smallest node [Wernicke06]."""

    def grown(chosen: tuple[int, ...], ahead: set[int], seen: set[int]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == size:
            yield chosen
            return
        ahead = set(ahead)
        while ahead:
            node = ahead.pop()
            new = {other for other in neighbours[node] if other > chosen[0] and other not in seen}
            yield from grown((*chosen, node), ahead | new, seen | new)

    for root, around in enumerate(neighbours):
        ahead = {other for other in around if other > root}
        yield from grown((root,), ahead, ahead | {root})


@functools.lru_cache(maxsize=1 << 16)
def shape(edges: tuple[bool, ...], labels: tuple[Hashable, ...] | None) -> Hashable:
    """Return what all numberings of the same small graph have in common: the first of them in order."""
    size = next(k for k in range(1, 6) if k * (k - 1) // 2 == len(edges) and (labels is None or len(labels) == k))
    places = {pair: i for i, pair in enumerate(itertools.combinations(range(size), 2))}
    forms = []
    for order in itertools.permutations(range(size)):
        moved = tuple(edges[places[min(order[a], order[b]), max(order[a], order[b])]] for a, b in places)
        names = () if labels is None else tuple(labels[node] for node in order)
        forms.append((tuple(map(repr, names)), moved))
    return min(forms)


class WeisfeilerLehman(Counted):
    """Counts neighbourhoods: labels of nodes, made finer by those of their neighbours so many times [Shervashidze11].

    base: "subtree" counts nodes by label, "edge" the edges by the labels at both ends, "shortest_path" paths by length
    and the labels at both ends; all for the labels given and after each of the steps. Graphs without labels begin with
    the same label everywhere.
    """

    steps: int = dataclasses.field(default=2, kw_only=True)
    base: str = dataclasses.field(default="subtree", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.steps, int | np.integer) or isinstance(self.steps, bool) or self.steps < 0:
            raise ValueError(f"WeisfeilerLehman: steps must be a whole number from 0 on, got {self.steps!r}")
        if self.base not in BASES:
            raise ValueError(f"WeisfeilerLehman: base must be one of {', '.join(BASES)}; got {self.base!r}")

    def counts(self, x: Graph) -> Mapping[Hashable, float]:
        found: Counter[Hashable] = x.known(("neighbourhoods", self.steps, self.base), self._count)
        return found

    def _count(self, graph: Graph) -> Counter[Hashable]:
        found: Counter[Hashable] = Counter()
        for step, labels in enumerate(refined(graph, self.steps)):
            for feature, count in self._of(graph, labels).items():
                found[step, feature] += count
        return found

    def _of(self, graph: Graph, labels: tuple[Hashable, ...]) -> Counter[Hashable]:
        if self.base == "subtree":
            return Counter(labels)
        if self.base == "shortest_path":
            return labelled_paths(graph, labels)
        ends = graph.edges.tolist()
        return Counter(pair for a, b in ends for pair in ((labels[a], labels[b]), (labels[b], labels[a])))

    def check(self, name: str, X: Any) -> None:
        check_graphs("WeisfeilerLehman", name, X, labelled=False)


def refined(graph: Graph, steps: int) -> Iterator[tuple[Hashable, ...]]:
    """Yield the labels, and after each step those made of a node's own and its neighbours', in a digest."""
    labels: tuple[Hashable, ...] = graph.labels if graph.labels is not None else (0,) * graph.size
    yield labels
    for _ in range(steps):
        around = graph.neighbours
        labels = tuple(
            _digest(f"{labels[node]!r}: {sorted(repr(labels[other]) for other in around[node])}")
            for node in range(graph.size)
        )
        yield labels


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
