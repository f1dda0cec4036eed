"""Rows and the rows near them: an order, for each row its nearest among those before it, and kernel values within sets.

In a random order the rows before a given one are a uniform sample, so its neighbours among them are far apart at first
and close at the end: together they see every scale.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from precog.kernels import Kernel
from precog.kernels.additive import Additive
from precog.kernels.statistics import DOT, SQUARED_DISTANCE, Array, Index, Statistic

# A k-d tree of more features visits nearly all rows for each query; neighbours are then those in principal components.
TREE_WIDTH = 10
# Queries ask for so many times the neighbours that are wanted, since on average a quarter of the rows come later.
SPARE = 3
NOBODY = -1


def neighbours(U: Array, count: int, rng: np.random.Generator, threads: int) -> tuple[Index, Index]:
    """Return a random order of the rows, and for each place in it those of the nearest before it, (n, count).

    Missing ones are `NOBODY`. Rows are looked up in doubling batches, so that every tree holds few that come later.
    """
    n = len(U)
    order = rng.permutation(n)
    places = _principal(U)[order]
    near = np.full((n, count), NOBODY, dtype=np.int64)
    edges = [0, min(2 * count, n)]
    while edges[-1] < n:
        edges.append(min(2 * edges[-1], n))
    for start, stop in itertools.pairwise(edges):
        asked = min(SPARE * count, stop)
        _, found = cKDTree(places[:stop]).query(places[start:stop], k=[*range(1, asked + 1)], workers=threads)
        before = found < np.arange(start, stop)[:, None]
        first = np.argsort(~before, axis=1, kind="stable")[:, :count]
        taken = np.where(np.take_along_axis(before, first, axis=1), np.take_along_axis(found, first, axis=1), NOBODY)
        near[start:stop, : taken.shape[1]] = taken
    return order, near


def _principal(U: Array) -> Array:
    """Return the features, or their first principal components where there are too many for a tree."""
    if U.shape[1] <= TREE_WIDTH:
        return U
    centred = U - U.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    components: Array = centred @ vectors[:, -TREE_WIDTH:]
    return components


class Sets:
    """The values of a kernel within sets of rows, many sets at once."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel = kernel
        self.features: Sequence[Any] = [
            leaf.features(X.astype(np.float64, copy=False)) if isinstance(leaf, Additive) else None
            for leaf in kernel.leaves()
        ]

    def values(self, rows: Index) -> Array:
        """Return k within each set, for `rows` (sets, q): (sets, q, q). Distances are centred at a set's last row."""
        values = []
        for leaf, features in zip(self.kernel.leaves(), self.features, strict=True):
            s = _within(leaf.statistic, features[rows]) if isinstance(leaf, Additive) else None
            values.append(leaf.formula(s, leaf.values()))
        size = (*rows.shape, rows.shape[1])
        return np.array(np.broadcast_to(np.asarray(self.kernel.combine(iter(values)), dtype=np.float64), size))


def _within(statistic: Statistic, U: Array) -> Array:
    """Return the statistic for all pairs of rows of each set, (sets, q, width) to (sets, q, q)."""
    if statistic is DOT:
        products: Array = U @ U.transpose(0, 2, 1)
        return products
    if statistic is SQUARED_DISTANCE:
        U = U - U[:, -1:]
        norms = np.einsum("bik,bik->bi", U, U)
        distances = norms[:, :, None] + norms[:, None, :] - 2.0 * (U @ U.transpose(0, 2, 1))
        return np.maximum(distances, 0.0, out=distances)
    total = np.zeros((*U.shape[:2], U.shape[1]))
    for k in range(U.shape[2]):
        total += statistic.term(U[:, :, None, k], U[:, None, :, k])
    return total
