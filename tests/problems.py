"""Deterministic inputs. The larger sizes are just above where compiled loops take over, and no multiples of a tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.kernels import HistogramIntersection, Kernel

# n and m for the NumPy path, and for the compiled one; most compiled laws share a number of columns in X and in V.
SMALL = (40, 33)
LARGE = (350, 307)
FEATURES, COLUMNS = 3, 2

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def inputs(kernel: Kernel, n: int, d: int = FEATURES, *, seed: int = 0) -> Array:
    """Return rows that the kernel accepts: normal, without signs for histograms."""
    X = normal(n, d, seed=seed)
    return np.abs(X) if any(isinstance(leaf, HistogramIntersection) for leaf in kernel.leaves()) else X


def sides(kernel: Kernel, sizes: tuple[int, int]) -> tuple[Array, Array]:
    """Return X and Z."""
    return inputs(kernel, sizes[0], seed=1), inputs(kernel, sizes[1], seed=2)


def sides_apart(kernel: Kernel, sizes: tuple[int, int]) -> tuple[Array, Array]:
    """Return X and Z on two grids that share no coordinate: no difference quotient in Z steps over a kink."""
    X, Z = sides(kernel, sizes)
    return np.round(X * 256) / 256, np.round(Z * 256) / 256 + 1 / 512


def right_hand_sides(n: int, columns: int = COLUMNS, *, seed: int = 3) -> Array:
    return normal(n, columns, seed=seed)


def noisy_values(X: Array, seed: int = 4) -> Array:
    """Return a smooth function of the rows with a little noise."""
    return np.sin(2.0 * X).sum(axis=1) + 0.1 * normal(len(X), seed=seed)
