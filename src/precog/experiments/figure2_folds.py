"""The held-out rule of [Cutajar16]: rows in random order, ⌊√n⌋ of them held out in each fold, all standardised.

Means and standard deviations are those of the training rows, for X and for y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from precog.datasets import Dataset
from precog.kernels.statistics import Array

SEED = 0


@dataclass(frozen=True, eq=False)
class Fold:
    """Training rows X, y and held-out rows Z, t, standardised."""

    X: Array
    y: Array
    Z: Array
    t: Array

    def part(self, rows: int) -> Fold:
        """Return the fold with its first training rows only."""
        return Fold(self.X[:rows], self.y[:rows], self.Z, self.t)


def held_out(data: Dataset, number: int) -> Fold:
    """Return fold `number`, counted from one; it is the same however many folds are asked for."""
    n = len(data.y)
    m = math.isqrt(n)
    if not 1 <= number <= n // m:
        raise ValueError(f"folds of {data.name} are numbered from 1 to {n // m}, got {number}")
    order = np.random.default_rng(SEED).permutation(n)
    left = np.arange((number - 1) * m, number * m)
    test, train = order[left], np.delete(order, left)
    X, Z = _standardised(data.X[train], data.X[test])
    y, t = _standardised(data.y[train], data.y[test])
    return Fold(X, y, Z, t)


def _standardised(train: Array, test: Array) -> tuple[Array, Array]:
    mean, scale = train.mean(axis=0), train.std(axis=0)
    # A column that is constant on the training rows says nothing there.
    scale = np.where(scale > 0, scale, 1.0)
    return (train - mean) / scale, (test - mean) / scale
