"""Kernels of the library GraKeL, for those that are not here; it comes with `pip install precog[graphs]`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from precog.kernels.graphs import Graph, check_graphs
from precog.kernels.objects import Objects
from precog.kernels.statistics import Array


class GraKeL(Objects):
    """A kernel object of GraKeL on `Graph` objects: `GraKeL(grakel.NeighborhoodHash())`.

    It is fitted to the columns that are asked for and applied to the rows, so it must not change with what it is fitted
    to. Graphs without labels get the same label everywhere.
    """

    kernel: Any = dataclasses.field(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.kernel, "fit") or not hasattr(self.kernel, "transform"):
            raise TypeError(
                f"GraKeL: expected a kernel of GraKeL, such as grakel.NeighborhoodHash(), got {self.kernel!r}"
            )

    def block(self, rows: Sequence[Graph], columns: Sequence[Graph]) -> Array:
        from sklearn.base import clone

        fitted = clone(self.kernel).fit([theirs(graph) for graph in columns])
        return np.asarray(fitted.transform([theirs(graph) for graph in rows]), dtype=np.float64)

    def self_values(self, rows: Sequence[Graph]) -> Array:
        return np.array([self.block([graph], [graph])[0, 0] for graph in rows])

    def check(self, name: str, X: Any) -> None:
        check_graphs("GraKeL", name, X, labelled=False)


def theirs(graph: Graph) -> Any:
    """Return a graph as GraKeL takes it."""
    import grakel

    edges = {node: dict.fromkeys(around, 1.0) for node, around in enumerate(graph.neighbours)}
    labels = dict(enumerate(graph.labels if graph.labels is not None else (0,) * graph.size))
    between = {(a, b): 0 for a, around in edges.items() for b in around}
    return grakel.Graph(edges, node_labels=labels, edge_labels=between)
