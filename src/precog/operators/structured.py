"""Operators with structure: Kronecker products over the axes of a grid, and interpolation from the grid to points.

    K = K₁ ⊗ K₂ ⊗ ...   on the grid g₁ × g₂ × ...,   last axis fastest
    A = W K W'          at points, every row of W sparse

A product with K takes one axis at a time, O(M Σ mₖ) for M = Π mₖ grid points. Rows of W are tensor products of
one-dimensional weights, so they have qᵈ entries in d dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse

from precog import checks
from precog.kernels.statistics import Array
from precog.operators.base import Operator, indices, right_hand_side
from precog.operators.schedule import Progress, share

# Points per axis that carry weights.
ORDERS = {"nearest": 1, "linear": 2, "cubic": 4}
# Limits of memory: points of a grid, weights of one row, and weights of all rows.
GRID_POINTS, ROW_WEIGHTS, ALL_WEIGHTS = 5_000_000, 4096, 50_000_000
# Numbers in a block of columns over the grid, and entries of K that one block of a diagonal may look at on one side.
COLUMN_BLOCK, DIAGONAL_BLOCK = 1 << 22, 512
# Differences of rounding size between an entry and its mirror image are let pass.
ASYMMETRY = 1e-8
# How far outside its axis, in steps of the grid, rounding may put a point.
OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class Kronecker(Operator):
    """K = K₁ ⊗ K₂ ⊗ ... of symmetric matrices."""

    factors: Any

    def __post_init__(self) -> None:
        kept = tuple(_symmetric(f"factors[{k}]", A) for k, A in enumerate(self.factors))
        if not kept:
            raise ValueError("factors is empty; a Kronecker product needs at least one matrix")
        object.__setattr__(self, "factors", kept)

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(self.sizes)
        return n, n

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(len(A) for A in self.factors)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*self.factors)

    def astype(self, dtype: Any) -> Kronecker:
        if all(A.dtype == dtype for A in self.factors):
            return self
        return Kronecker(tuple(A.astype(dtype) for A in self.factors))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        columns, out = V.shape[1], np.ascontiguousarray(V)
        for A in self.factors:
            # The axis in front is multiplied and goes to the back, so that every product is one of two matrices; after
            # the last one the columns of V are in front.
            out = out.reshape(len(A), -1).T @ A
        return np.ascontiguousarray(out.reshape(columns, len(self)).T)

    def diag(self) -> Array:
        return np.array(reduce(np.kron, [np.diagonal(A) for A in self.factors]))

    def block(self, rows: Any, columns: Any) -> Array:
        i, j = indices("rows", rows, len(self)), indices("columns", columns, len(self))
        out = np.ones((i.size, j.size), self.dtype)
        for A, a, b in zip(self.factors, self._unravelled(i), self._unravelled(j), strict=True):
            out *= A[np.ix_(a, b)]
        return out

    def _unravelled(self, i: Any) -> list[Any]:
        """Return the place on every axis; NumPy's own function ends at 64 axes."""
        places = []
        for size in reversed(self.sizes):
            i, place = np.divmod(i, size)
            places.append(place)
        return places[::-1]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Kronecker)
            and self.sizes == other.sizes
            and self.dtype == other.dtype
            and all(np.array_equal(A, B) for A, B in zip(self.factors, other.factors, strict=True))
        )

    def __hash__(self) -> int:
        return hash((Kronecker, *(A.tobytes() for A in self.factors)))

    def __repr__(self) -> str:
        return f"Kronecker({', '.join(f'<{m} x {m}>' for m in self.sizes)})"


def _symmetric(name: str, A: Any) -> Array:
    A = np.array(checks.matrix(name, A))
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"{name} must be square, it is {A.shape[0]} x {A.shape[1]}")
    gap = np.abs(A - A.T)
    if gap.max() > ASYMMETRY * np.abs(A).max():
        i, j = np.unravel_index(int(gap.argmax()), A.shape)
        raise ValueError(f"{name} must be symmetric; its entries ({i}, {j}) and ({j}, {i}) differ")
    A.flags.writeable = False
    return A


@dataclass(frozen=True, eq=False)
class Interpolated(Operator):
    """A = W K W' with sparse W (n, m) and a square K."""

    W: Any
    K: Operator

    def __post_init__(self) -> None:
        W = _kept(self.W)
        m = W.shape[1]
        if self.K.shape != (m, m):
            raise ValueError(f"W has {m} columns, so K must be {m} x {m}; it is {self.K.shape[0]} x {self.K.shape[1]}")
        object.__setattr__(self, "W", W)

    @property
    def shape(self) -> tuple[int, int]:
        n = int(self.W.shape[0])
        return n, n

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(self.W.dtype, self.K.dtype)

    def astype(self, dtype: Any) -> Interpolated:
        if self.W.dtype == dtype and self.K.dtype == dtype:
            return self
        return Interpolated(self.W.astype(dtype), self.K.astype(dtype))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self._multiply(self.K.matmat, V, callback)

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self._multiply(self.K.rmatmat, V, callback)

    def _multiply(self, multiply: Callable[..., Array], V: Any, callback: Progress | None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        out = np.empty(V.shape, np.result_type(self.dtype, V))
        parts = [*self._column_blocks(V.shape[1])]
        for k, part in enumerate(parts):
            out[:, part] = self.W @ multiply(self.W.T @ V[:, part], callback=share(callback, k, len(parts)))
        return out

    def _column_blocks(self, columns: int) -> Iterator[slice]:
        # A vector over the grid is often far longer than one over the points.
        step = max(COLUMN_BLOCK // self.K.shape[0], 1)
        for start in range(0, columns, step):
            yield slice(start, min(start + step, columns))

    def diag(self) -> Array:
        out = np.empty(len(self), self.dtype)
        for start, stop in self._row_blocks():
            part = self.W[start:stop]
            points, places = np.unique(part.indices, return_inverse=True)
            weights = scipy.sparse.csr_array(
                (part.data, places.ravel(), part.indptr), shape=(stop - start, len(points))
            )
            out[start:stop] = weights.multiply(weights @ self.K.block(points, points).T).sum(axis=1)
        return out

    def _row_blocks(self) -> Iterator[tuple[int, int]]:
        """Yield rows that together look at few points of the grid."""
        start, ends = 0, self.W.indptr
        while start < len(self):
            stop = int(np.searchsorted(ends, ends[start] + DIAGONAL_BLOCK, side="right")) - 1
            stop = max(stop, start + 1)
            yield start, stop
            start = stop

    def block(self, rows: Any, columns: Any) -> Array:
        i, j = indices("rows", rows, len(self)), indices("columns", columns, len(self))
        # The shorter side makes the dense columns over the grid.
        if i.size < j.size:
            return np.ascontiguousarray(self._block(self.K.rmatmat, j, i).T)
        return self._block(self.K.matmat, i, j)

    def _block(self, multiply: Callable[..., Array], i: Any, j: Any) -> Array:
        out = np.empty((i.size, j.size), self.dtype)
        left, right = self.W[i], self.W[j]
        for part in self._column_blocks(j.size):
            out[:, part] = left @ multiply(right[part].T.toarray())
        return out

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Interpolated)
            and self.K == other.K
            and (self.W.shape, self.W.dtype) == (other.W.shape, other.W.dtype)
            and all(np.array_equal(a, b) for a, b in zip(_stored(self.W), _stored(other.W), strict=True))
        )

    def __hash__(self) -> int:
        return hash((Interpolated, self.K, self.W.shape, self.W.data.tobytes(), self.W.indices.tobytes()))

    def __repr__(self) -> str:
        n, m = self.W.shape
        return f"Interpolated(W=<{n} x {m}>, K={self.K!r})"


def _stored(W: Any) -> tuple[Any, Any, Any]:
    return W.data, W.indices, W.indptr


def _kept(W: Any) -> Any:
    """Return sparse weights in their one canonical form, read-only."""
    W = scipy.sparse.csr_array(W)
    if W.dtype.kind not in "fiub":
        raise TypeError(f"W must hold real numbers, got dtype {W.dtype}")
    if W.dtype not in (np.float32, np.float64):
        W = W.astype(np.float64)
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    wrong = ~np.isfinite(W.data)
    if wrong.any():
        row = int(np.searchsorted(W.indptr, int(np.argmax(wrong)), side="right")) - 1
        raise ValueError(f"W must be finite; row {row} has {W.data[wrong][0]}")
    views = tuple(part.view() for part in _stored(W))
    for view in views:
        view.flags.writeable = False
    return scipy.sparse.csr_array(views, shape=W.shape)


def grid_for(X: Array, points: int | Sequence[int], *, order: str = "linear") -> tuple[Array, ...]:
    """Return a regular axis over the range of each column of X, with so many points, or so many for each column.

    For cubic weights the axis goes one step further on both sides, so that every point has two neighbours on each. A
    column that is constant gets one point, and so does one for which one is asked.
    """
    checks.choice("order", order, tuple(ORDERS))
    counts = [points] * X.shape[1] if isinstance(points, int | np.integer) else list(points)
    if len(counts) != X.shape[1]:
        raise ValueError(f"points has {len(counts)} entries, X {X.shape[1]} columns; give one for each, or one number")
    return tuple(_axis(x, checks.count("points", m), order) for x, m in zip(X.T, counts, strict=True))


def _axis(x: Array, points: int, order: str) -> Array:
    low, high = float(x.min()), float(x.max())
    if low == high or points == 1:
        return np.array([0.5 * low + 0.5 * high])
    if order != "cubic":
        return np.linspace(low, high, points)
    if points < ORDERS["cubic"]:
        raise ValueError(f'cubic weights need at least 4 points on an axis, got {points}; use order="linear"')
    step = (high - low) / (points - 3)
    return np.linspace(low - step, high + step, points)


def interpolation(X: Array, grid: Sequence[Array], order: str = "linear") -> Any:
    """Return W (n, m) in CSR form, with f(X) ≈ W f(grid) for the m points of a regular grid, last axis fastest.

    order: "nearest" takes the nearest point; "linear" two on each axis; "cubic" four, with the convolution weights of
    [Keys81] (a = -1/2), which are exact for quadratics, at the ends of an axis too. Weights of a row add up to one. An
    axis of one point takes any x.
    """
    _refuse_what_is_too_large(X, grid, order)
    n = len(X)
    places, weights = np.zeros((n, 1), np.int64), np.ones((n, 1))
    for k, axis in enumerate(grid):
        at, w = _axis_weights(X[:, k].astype(np.float64, copy=False), axis, order, k)
        places = (places[:, :, None] * len(axis) + at[:, None, :]).reshape(n, -1)
        weights = (weights[:, :, None] * w[:, None, :]).reshape(n, -1)
    ends = np.arange(n + 1) * places.shape[1]
    return scipy.sparse.csr_array((weights.ravel(), places.ravel(), ends), shape=(n, math.prod(map(len, grid))))


def _refuse_what_is_too_large(X: Array, grid: Sequence[Array], order: str) -> None:
    width = ORDERS[checks.choice("order", order, tuple(ORDERS))]
    if len(grid) != X.shape[1]:
        raise ValueError(f"the grid has {len(grid)} axes, X {X.shape[1]} columns; one is needed for each")
    points = math.prod(map(len, grid))
    if points > GRID_POINTS:
        sizes = " x ".join(str(len(axis)) for axis in grid)
        raise ValueError(f"a grid of {sizes} has {points} points, more than {GRID_POINTS}; take fewer on each axis")
    per_row = math.prod(min(width, len(axis)) for axis in grid)
    if per_row > ROW_WEIGHTS or per_row * len(X) > ALL_WEIGHTS:
        lower = {"cubic": 'order="linear" or order="nearest"', "linear": 'order="nearest"'}.get(order, "fewer rows")
        raise ValueError(
            f"{order} interpolation in {sum(len(axis) > 1 for axis in grid)} columns has {per_row} weights in "
            f"each of {len(X)} rows; at most {ROW_WEIGHTS} in a row and {ALL_WEIGHTS} in all are kept. Use {lower}, or "
            "a kernel on fewer columns"
        )


def _axis_weights(x: Array, axis: Array, order: str, column: int) -> tuple[Any, Array]:
    """Return the places (n, q) of the points on one axis that carry weights, in ascending order, and the weights."""
    last = len(axis) - 1
    if not last:
        return np.zeros((len(x), 1), np.int64), np.ones((len(x), 1))
    t = (x - axis[0]) / ((axis[-1] - axis[0]) / last)
    wrong = ~((t >= -OUTSIDE) & (t <= last + OUTSIDE))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"row {row} of X has {x[row]:g} in column {column}, outside the grid from {axis[0]:g} to {axis[-1]:g}; "
            "make the grid for all rows"
        )
    t = np.clip(t, 0.0, last)
    if order == "nearest":
        return np.rint(t).astype(np.int64)[:, None], np.ones((len(x), 1))
    cell = np.minimum(np.floor(t), last - 1).astype(np.int64)
    f = t - cell
    if order == "linear":
        return cell[:, None] + np.arange(2), np.stack([1.0 - f, f], axis=1)
    if last < 3:
        raise ValueError(f'cubic weights need at least 4 points on an axis, got {last + 1}; use order="linear"')
    return np.clip(cell - 1, 0, last - 3)[:, None] + np.arange(4), _cubic(f, cell == 0, cell == last - 1)


def _cubic(f: Array, first: Any, final: Any) -> Array:
    """Return the weights of four points for the share f of a step behind the second; cells at an end have only three.

    There the value beyond the end is extrapolated, f₋₁ = 3 f₀ - 3 f₁ + f₂ [Keys81], which keeps quadratics exact.
    """
    before, after = ((-0.5 * f + 1.0) * f - 0.5) * f, (0.5 * f - 0.5) * f * f
    w = np.stack([before, (1.5 * f - 2.5) * f * f + 1.0, ((-1.5 * f + 2.0) * f + 0.5) * f, after], axis=1)
    w[first] = np.roll(w[first], -1, axis=1) * [1.0, 1.0, 1.0, 0.0] + before[first, None] * [3.0, -3.0, 1.0, 0.0]
    w[final] = np.roll(w[final], 1, axis=1) * [0.0, 1.0, 1.0, 1.0] + after[final, None] * [0.0, 1.0, -3.0, 3.0]
    return w
