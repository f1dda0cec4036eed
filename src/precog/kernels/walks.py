"""Kernels that count walks which two graphs have in common [Gaertner03].

    k(g, h) = Σ_t decayᵗ 1' Wᵗ 1,   W the adjacency of the product graph: W = A_g ⊗ A_h, between nodes of equal labels

A walk in the product graph is a pair of walks at once. For a fixed h the vectors Wᵗ 1 of all graphs g are the rows of
one matrix S, (nodes of all g, nodes of h), and a step is S <- A S A_h, with the entries of unequal labels put to zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.graphs import Graph, check_graphs
from precog.kernels.objects import Objects
from precog.kernels.statistics import Array

# Terms of an endless series are added until one is below this share of the sum; a sum above the largest never ends.
ROUNDING, LARGEST, MOST = 1e-14, 1e100, 2000


class RandomWalk(Objects):
    """Counts common walks, those of t steps weighted by decayᵗ; steps: the longest, None for endless ones.

    Endless walks need a decay below one over the product of the largest eigenvalues of both adjacencies, which are not
    above the largest numbers of neighbours.
    """

    decay: float = dataclasses.field(default=0.1, kw_only=True)
    steps: int | None = dataclasses.field(default=None, kw_only=True)
    labelled: bool = dataclasses.field(default=False, kw_only=True)
    normalized: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("RandomWalk: decay", self.decay, strict=True)
        if self.steps is not None:
            checks.count("RandomWalk: steps", self.steps)

    def block(self, rows: Sequence[Graph], columns: Sequence[Graph]) -> Array:
        stacked = _Stacked.of(rows, labelled=self.labelled)
        out = np.stack([self._column(stacked, graph) for graph in columns], axis=1)
        if self.normalized:
            out /= np.sqrt(np.outer(self._lengths(rows), self._lengths(columns)))
        return out

    def self_values(self, rows: Sequence[Graph]) -> Array:
        return np.ones(len(rows)) if self.normalized else self._lengths(rows)

    def _lengths(self, graphs: Sequence[Graph]) -> Array:
        """Return the walks that each graph has in common with itself; never zero, since no step is a walk too."""
        key = ("walks", self.decay, self.steps, self.labelled)
        return np.array([graph.known(key, self._own) for graph in graphs])

    def _own(self, graph: Graph) -> float:
        return float(self._column(_Stacked.of([graph], labelled=self.labelled), graph)[0])

    def _column(self, stacked: _Stacked, graph: Graph) -> Array:
        A = graph.adjacency
        S = stacked.alike(graph)
        mask, total = S.astype(bool), stacked.sums(S)
        for _ in range(MOST if self.steps is None else self.steps):
            S = self.decay * (stacked.adjacency @ (A @ S.T).T)
            S *= mask
            term = stacked.sums(S)
            total += term
            if self.steps is None and (term <= ROUNDING * total).all():
                return total
            if self.steps is None and total.max() > LARGEST:
                break
        if self.steps is None:
            raise ValueError(
                f"RandomWalk: the endless sum with decay {self.decay:g} does not converge on these graphs; take a "
                "smaller decay, or a number of steps"
            )
        return total

    def check(self, name: str, X: Any) -> None:
        check_graphs("RandomWalk", name, X, labelled=self.labelled)


@dataclasses.dataclass(frozen=True, eq=False)
class _Stacked:
    """All graphs as one that falls into parts: the adjacency, where each begins, and the labels as numbers."""

    adjacency: Any
    starts: Any
    labels: Any
    numbers: dict[Hashable, int]

    @staticmethod
    def of(graphs: Sequence[Graph], *, labelled: bool) -> _Stacked:
        from scipy import sparse

        adjacency = sparse.block_diag([graph.adjacency for graph in graphs], format="csr")
        starts = np.cumsum([0, *(graph.size for graph in graphs)])[:-1]
        numbers: dict[Hashable, int] = {}
        found = None
        if labelled:
            all_labels = [label for graph in graphs for label in graph.labelled("RandomWalk")]
            found = np.array([numbers.setdefault(label, len(numbers)) for label in all_labels])
        return _Stacked(adjacency, starts, found, numbers)

    def alike(self, graph: Graph) -> Array:
        """Return which nodes have the label of which of another graph's, (nodes, nodes), as zeros and ones."""
        if self.labels is None:
            return np.ones((self.adjacency.shape[0], graph.size))
        theirs = np.array([self.numbers.get(label, -1) for label in graph.labelled("RandomWalk")])
        return (self.labels[:, None] == theirs).astype(np.float64)

    def sums(self, S: Array) -> Array:
        """Return the sum of the entries of each graph."""
        total: Array = np.add.reduceat(S.sum(axis=1), self.starts)
        return total
