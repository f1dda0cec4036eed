"""Expectations over f ~ N(mean, variance), row by row, by the trapezoidal rule.

Equal steps over the whole line converge as fast as Gauss-Hermite's rule on what is smooth, and they go on converging
where its nodes are too few: a function whose nearest singularity lies π · width off the real line is integrated by
steps h with an error of exp(-2π² width / h), whatever the variance.

Functions are called with values of f (r, nodes) and the indices of the rows that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from precog.kernels.statistics import Array, Index

Function: TypeAlias = Callable[[Array, Index], Array]
Derivatives: TypeAlias = Callable[[Array, Index], tuple[Array, Array, Array, Array]]

# The normal density beyond is under 1e-15 of its peak; steps in standard deviations, and in widths of the function.
REACH, STEP, WIDTHS = 8.5, 0.6, 0.9
# Largest number of nodes, for standard deviations of thousands of widths, and numbers held at a time.
MOST_NODES, HELD = 1 << 16, 1 << 21
# The integrand of a log-concave likelihood, in its own width at its mode: reach, steps, and Newton's steps to the mode.
# A normal density narrower than this cannot be told from a point.
LEAST_VARIANCE = 1e-14
LOCAL_REACH, LOCAL_STEP, LOCAL_ITERATIONS, HALVINGS = 14.0, 0.25, 100, 40


def expectation(function: Function, mean: Array, variance: Array, width: float = 1.0) -> Array:
    """Return E function(f) for every row, (m,); width: over which the function changes.

    Each row takes as many nodes as it needs, a power of two, so that its result does not depend on other rows.
    """
    out = np.empty(len(mean))
    for rows, f, weights in _grids(mean, variance, width):
        out[rows] = function(f, rows) @ weights
    return out


def _grids(mean: Array, variance: Array, width: float) -> Iterator[tuple[Index, Array, Array]]:
    """Yield rows with their nodes (r, nodes) and the weights, which add up to one."""
    deviation = np.sqrt(variance)
    with np.errstate(divide="ignore"):
        steps = np.minimum(STEP, WIDTHS * width / deviation)
    counts = np.minimum(2.0 ** np.ceil(np.log2(2.0 * REACH / steps)), MOST_NODES).astype(int)
    for count in np.unique(counts):
        x = np.linspace(-REACH, REACH, count + 1)
        weights = np.exp(-0.5 * x * x)
        weights /= weights.sum()
        every = np.flatnonzero(counts == count)
        for rows in np.array_split(every, -(-len(every) * count // HELD)):
            yield rows, mean[rows, None] + deviation[rows, None] * x, weights


def moments(first: Function, second: Function, mean: Array, variance: Array, width: float = 1.0) -> tuple[Array, Array]:
    """Return mean and variance of y from E[y | f] and Var[y | f]."""
    centre = expectation(first, mean, variance, width)

    def around(f: Array, rows: Index) -> Array:
        return second(f, rows) + (first(f, rows) - centre[rows, None]) ** 2

    return centre, expectation(around, mean, variance, width)


def log_expectation(
    derivatives: Derivatives, mean: Array, variance: Array, *, concave: bool, width: float = 1.0
) -> Array:
    """Return log E exp(l(f)) for every row, from l and its derivatives.

    Where l is concave the nodes lie around the mode of the integrand, so that a likelihood much narrower than the
    normal density is seen; where it is not, all over the normal density, in steps of its width.
    """
    out = np.empty(len(mean))
    if not concave:
        for rows, f, weights in _grids(mean, variance, width):
            out[rows] = _log_sum(derivatives(f, rows)[0] + np.log(weights))
        return out
    x = np.arange(-LOCAL_REACH, LOCAL_REACH + 0.5 * LOCAL_STEP, LOCAL_STEP)
    v = np.maximum(variance, LEAST_VARIANCE)
    for rows in np.array_split(np.arange(len(mean)), -(-len(mean) * len(x) // HELD)):
        m, s2 = mean[rows, None], v[rows, None]
        centre, spread = _mode(derivatives, m, s2, rows)
        f = centre + spread * x
        inside = derivatives(f, rows)[0] - 0.5 * (f - m) ** 2 / s2
        out[rows] = _log_sum(inside) + np.log(LOCAL_STEP * spread[:, 0]) - 0.5 * np.log(2.0 * np.pi * s2[:, 0])
    return out


def _mode(derivatives: Derivatives, mean: Array, variance: Array, rows: Index) -> tuple[Array, Array]:
    """Return where l(f) - (f - mean)² / (2 variance) is largest, and its width there, by Newton's steps, halved."""
    f = mean.copy()
    l0, l1, l2, _ = derivatives(f, rows)
    value = l0
    for _ in range(LOCAL_ITERATIONS):
        gradient = l1 - (f - mean) / variance
        step = gradient / (1.0 / variance + np.maximum(-l2, 0.0))
        for _ in range(HALVINGS):
            l0, l1, l2, _ = derivatives(f + step, rows)
            new = l0 - 0.5 * (f + step - mean) ** 2 / variance
            falls = ~(new >= value - 1e-12 * np.abs(value))
            if not falls.any():
                break
            step = np.where(falls, 0.5 * step, step)
        f, value = f + step, new
        if (np.abs(step) < 1e-8 * np.sqrt(variance) + 1e-12 * np.abs(f)).all():
            break
    return f, 1.0 / np.sqrt(1.0 / variance + np.maximum(-l2, 0.0))


def _log_sum(values: Array) -> Array:
    """Return log Σ exp over the last axis."""
    top = values.max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(values - top[:, None]).sum(axis=1))
    return total + top
