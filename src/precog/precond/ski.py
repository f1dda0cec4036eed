"""Structured kernel interpolation as a preconditioner: K ≈ W K_U W' with K_U a Kronecker product over a grid.

    P = S W K_U W' S + D,   K_U = K₁ ⊗ K₂ ⊗ ...

P has structure but no factor to solve with, so P⁻¹ V comes from conjugate gradients on P [Cutajar16]: an inner
solve, never twice the same linear map, inside the outer one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from precog import checks
from precog.kernels import RBF, Constant, Kernel, Periodic, Power, Product
from precog.kernels.additive import Additive
from precog.kernels.statistics import Array
from precog.operators import Dense
from precog.operators.structured import GRID_POINTS, ORDERS, Interpolated, Kronecker, grid_for, interpolation
from precog.precond.base import Problem, Report
from precog.precond.parts import Diagonal, cholesky
from precog.solvers import PCG, NotConverged

# The factor of one axis is stored and its eigenvectors are taken; the second limit is for grids that nobody asked for.
AXIS_POINTS, DEFAULT_AXIS_POINTS = 5000, 1000
# Determinants are taken of dense matrices of this size, over the rows or over the grid.
DETERMINANT_ROWS, DETERMINANT_POINTS = 2000, 3000
# Numbers in a block of columns over the grid.
BLOCK = 1 << 22


class Ski:
    """P = W K_U W' + D with S inside W, solved with by conjugate gradients.

    inner_iterations: steps of all columns of all solves so far. unfinished: solves that ended before the tolerance, but
    with a residual that serves a preconditioner; others raise `NotConverged`.
    """

    exact = False

    def __init__(self, W: Any, K: Kronecker, noise: Array, diagonal: Array, *, solver: PCG, built: Report) -> None:
        interpolated = Interpolated(W, K)
        self.W, self.K, self.noise, self.built = interpolated.W, K, noise, built
        self.operator = interpolated + noise
        self.solver = solver
        self.jacobi = Diagonal(diagonal + noise)
        self.inner_iterations = self.unfinished = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def rank(self) -> int:
        """The number of grid points."""
        return len(self.K)

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V up to the tolerance."""
        solution = self.solver.solve(self.operator, V, precond=self.jacobi)
        self.inner_iterations += int(solution.column_iterations.sum())
        if not solution.ok:
            # At a noise of 1e-6 rounding can end a solve a little above its goal. A flexible outer solver is not misled
            # by that, so it is reported and not raised; but it would be by a residual that has hardly fallen.
            sizes = np.linalg.norm(V, axis=0)
            goals = np.maximum(self.solver.rtol * sizes, self.solver.atol) / np.where(sizes > 0, sizes, 1.0)
            if not (solution.residuals <= np.sqrt(goals)).all():
                raise NotConverged(f"the inner solve of the preconditioner 'ski': {solution.describe()}")
            self.unfinished += 1
        return solution.x

    def matmat(self, V: Array) -> Array:
        """Return P V."""
        return self.operator.matmat(V)

    def logdet(self) -> float:
        """Return log det P, by log|D| + log|I + K_U^½ W' D⁻¹ W K_U^½| where the grid is smaller than the data."""
        n, m = self.W.shape
        if n <= min(m, DETERMINANT_ROWS):
            L = cholesky(self.operator.dense(), name="the preconditioner 'ski'")
            return 2.0 * float(np.log(np.diagonal(L)).sum())
        if m > DETERMINANT_POINTS:
            raise NotImplementedError(
                f"log det P of 'ski' needs at most {DETERMINANT_ROWS} rows or {DETERMINANT_POINTS} grid points, here "
                f"are {n} and {m}; estimate it with precog.solvers.logdet, take a coarser grid=, or use another "
                "preconditioner"
            )
        R = self._root.dense()
        scaled = scipy.sparse.diags_array(1.0 / np.sqrt(self.noise)) @ self.W
        inner = R @ ((scaled.T @ scaled) @ R)
        L = cholesky(0.5 * (inner + inner.T) + np.eye(m), name="the preconditioner 'ski'")
        return float(np.log(self.noise).sum() + 2.0 * np.log(np.diagonal(L)).sum())

    def sample(self, rng: np.random.Generator, k: int) -> Array:
        """Return k columns W K_U^½ g₁ + D^½ g₂ from N(0, P)."""
        n, m = self.W.shape
        out = np.sqrt(self.noise)[:, None] * rng.standard_normal((n, k))
        step = max(BLOCK // m, 1)
        for start in range(0, k, step):
            part = slice(start, min(start + step, k))
            out[:, part] += self.W @ self._root.matmat(rng.standard_normal((m, part.stop - start)))
        return out

    @cached_property
    def _root(self) -> Kronecker:
        """The symmetric root of K_U, one axis at a time."""
        return Kronecker(tuple(_square_root(A) for A in self.K.factors))

    def report(self) -> Report:
        """Return how P was built, and how the solves with it went."""
        short = f"; {self.unfinished} inner solves ended before rtol" if self.unfinished else ""
        why = f"{self.built.why}; {self.inner_iterations} inner iterations{short}"
        return dataclasses.replace(self.built, why=why)

    def __repr__(self) -> str:
        return f"<ski preconditioner: {self.operator!r}>"


def ski(
    problem: Problem,
    *,
    rank: int | None = None,
    rng: np.random.Generator | None = None,
    order: str = "linear",
    grid: int | Sequence[int] | None = None,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_iter: int = 10_000,
) -> Ski:
    """Return P for a kernel that is a product over columns; nothing is random in it, so `rng` is not used.

    order: "linear" (2ᵈ weights in a row), "cubic" (4ᵈ), or "nearest" (one: rows are rounded to the nearest point of the
    grid, as in the published code of [Cutajar16]). grid: points on the axis of each column that the kernel looks at, or
    one number for all. Without it, as many as make `rank` points in all; without that n^(3 / 2d), as in [Cutajar16],
    within what can be stored: 1000 on an axis and five million in all. rtol, atol, max_iter: of the inner solves, which
    end at |r| <= max(rtol |v|, atol).
    """
    began = time.perf_counter()
    gram = problem.gram("ski")
    checks.choice("order", order, tuple(ORDERS))
    X = gram.X.astype(np.float64, copy=False)
    columns = _columns(gram.kernel, X.shape[1])
    seen = [k in columns for k in range(X.shape[1])]
    axes = grid_for(X, _points(X, seen, rank, grid, order), order=order)
    # The kernel is looked at first: that it is no product says more than that its grid would be too large.
    K = Kronecker(kronecker_factors(gram.kernel, axes))
    W = interpolation(X, axes, order)
    diagonal = _diagonal(X, axes, K, order)
    if problem.scale is not None:
        W = scipy.sparse.diags_array(problem.scale) @ W
        diagonal *= problem.scale**2
    sizes = " x ".join(str(len(axis)) for axis, s in zip(axes, seen, strict=True) if s) or "1"
    built = Report(
        name="ski",
        rank=len(K),
        entries=sum(m * m for m in K.sizes),
        seconds=time.perf_counter() - began,
        trace=float(problem.K.diag().sum() - diagonal.sum()),
        why=f"{order} interpolation from a grid of {sizes} points",
    )
    # float64 throughout: sparse products gain little from float32, and a preconditioner should not stagnate early.
    solver = PCG(rtol=rtol, atol=atol, max_iter=max_iter, precision="float64")
    return Ski(W, K, problem.noise, diagonal, solver=solver, built=built)


def kronecker_factors(kernel: Kernel, grid: Sequence[Array]) -> list[Array]:
    """Return K₁, K₂, ... with k(grid) = K₁ ⊗ K₂ ⊗ ... for a kernel that is a product over columns.

    RBF and Periodic are such products, with any length scales; so are constants, all kernels of one column, and what is
    made of these by `*` and `**`. grid: an axis for each column of the inputs; it may have one point where the kernel
    does not look.
    """
    d = len(grid)
    for k, axis in enumerate(grid):
        if len(axis) > AXIS_POINTS:
            raise ValueError(
                f"axis {k} of the grid has {len(axis)} points; at most {AXIS_POINTS} can be stored densely"
            )
    factors: list[Array] = [np.ones((len(axis), len(axis))) for axis in grid]
    for part, exponent in _parts(kernel):
        columns = _columns(part, d)
        if len(columns) > 1 and type(part) not in (RBF, Periodic):
            raise ValueError(
                f"the preconditioner 'ski' needs a kernel that is a product over columns, and {part!s} looks at "
                f"{len(columns)} of them together. Possible are RBF and Periodic on any columns, every kernel on one "
                "column, constants, and products and powers of these; or take another preconditioner, such as "
                "'rpcholesky'"
            )
        for k in columns or [0]:
            # All other columns are equal, and then RBF and Periodic are what they are on this one alone.
            places = np.zeros((len(grid[k]), d))
            places[:, k] = grid[k]
            factors[k] *= part.dense(places, places) ** exponent
    return factors


def _parts(kernel: Kernel, exponent: float = 1.0) -> Iterator[tuple[Kernel, float]]:
    """Yield k₁, e₁, k₂, e₂, ... with k = k₁^e₁ k₂^e₂ ..."""
    if isinstance(kernel, Product):
        for factor in kernel.factors:
            yield from _parts(factor, exponent)
    elif isinstance(kernel, Power):
        yield from _parts(kernel.base, exponent * kernel.exponent)
    else:
        yield kernel, exponent


def _columns(kernel: Kernel, d: int) -> list[int]:
    """Return the columns that a kernel looks at."""
    found: set[int] = set()
    for leaf in kernel.leaves():
        if isinstance(leaf, Additive):
            found.update(range(d) if leaf.columns is None else leaf.columns)
        elif not isinstance(leaf, Constant):
            raise ValueError(
                f"the preconditioner 'ski' interpolates kernels of columns; {leaf!s} has no values between rows. Add "
                "White as a term of the whole kernel, or use another preconditioner, such as 'rpcholesky'"
            )
    return sorted(found)


def _points(
    X: Array, seen: Sequence[bool], rank: int | None, grid: int | Sequence[int] | None, order: str
) -> list[int]:
    """Return the number of points on the axis of each column."""
    low = 4 if order == "cubic" else 2
    if grid is not None and not isinstance(grid, int | np.integer):
        if len(grid) != sum(seen):
            raise ValueError(
                f"grid has {len(grid)} entries; the kernel looks at {sum(seen)} columns, give one for each"
            )
        given = iter(grid)
        return [checks.count("grid", next(given), low=low) if s else 1 for s in seen]
    varying = max(int((np.ptp(X, axis=0)[np.array(seen)] > 0).sum()), 1)
    if grid is not None:
        each = checks.count("grid", grid, low=low)
    elif rank is not None:
        each = max(round(checks.count("rank", rank) ** (1 / varying)), low)
    else:
        most = min(DEFAULT_AXIS_POINTS, int(GRID_POINTS ** (1 / varying)))
        each = max(min(round(len(X) ** (1.5 / varying)), most), low)
    return [each if s else 1 for s in seen]


def _diagonal(X: Array, axes: Sequence[Array], K: Kronecker, order: str) -> Array:
    """Return diag(W K_U W'): weights are products over the axes, so it is one too, without the qᵈ weights of a row."""
    out = np.ones(len(X))
    for k, (axis, A) in enumerate(zip(axes, K.factors, strict=True)):
        out *= Interpolated(interpolation(X[:, [k]], [axis], order), Dense(A)).diag()
    return out


def _square_root(A: Array) -> Array:
    values, vectors = scipy.linalg.eigh(A)
    # Rounding leaves eigenvalues of a smooth kernel a little below zero.
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return 0.5 * (root + root.T)
