"""What is known of f after the data: mean, variance, covariance, and every row's prediction from the others.

    mean(z) = h(z)'B + k(z, X) α
    var(z)  = k(z, z) - k(z, X) A⁻¹ k(X, z) + g'(H'A⁻¹H)⁻¹g,   g = h(z) - H'A⁻¹k(X, z)

The quadratic form is taken as x'k + x'r from an approximate x = A⁻¹k with residual r: it is too small by r'A⁻¹r only,
the square of the solve's error, so a variance is too large if anything and never negative. Solves go on until
r'P⁻¹r, which estimates that error, is a small share of each variance. Where few rows decide a variance no solve is
needed (`nearest.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from precog.inference import nearest
from precog.inference.model import Merged, Model, Targets
from precog.inference.nearest import Nearest
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array, Index
from precog.operators import Gram, Noisy
from precog.operators.blockwise import take
from precog.precond import Preconditioner
from precog.solvers import PCG

# Rows whose mean is taken at a time: what is held for them stays at some tens of megabytes.
MEAN_ROWS = 65_536
# Columns that are solved at a time.
COLUMNS = 64
# The error of a variance over itself at which its solve may end, and the residuals at which to look.
SHARE, RESIDUALS = 0.01, (1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
# Residual of solves whose answers are used as they are: in covariances and samples.
SHARP = 1e-5


class System(Protocol):
    """A = K + D with a way to solve."""

    def solve(self, C: Array) -> Array:
        """Return A⁻¹C."""
        ...

    def quadratic(self, C: Array, left: Array) -> tuple[Array, Array]:
        """Return c'A⁻¹c for every column, and its error.

        left: what each quadratic form is going to be taken from, so that its error can be seen in proportion.
        """
        ...

    def inverse_diagonal(self, rows: Index) -> Array:
        """Return the entries of the diagonal of A⁻¹."""
        ...


@dataclass(frozen=True, eq=False)
class Factorised:
    """A through its dense Cholesky factor, lower."""

    L: Array

    def solve(self, C: Array) -> Array:
        X: Array = scipy.linalg.cho_solve((self.L, True), C, check_finite=False)
        return X

    def quadratic(self, C: Array, left: Array) -> tuple[Array, Array]:
        W = scipy.linalg.solve_triangular(self.L, C, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", W, W), np.zeros(C.shape[1])

    def inverse_diagonal(self, rows: Index) -> Array:
        return self.quadratic(_units(len(self.L), rows), np.zeros(len(rows)))[0]


@dataclass(frozen=True, eq=False)
class Iterated:
    """A by preconditioned conjugate gradients; errors are of one side, the quadratic form is too small by them.

    seed: for the points on which `nearest` is measured; None solves for every form.
    """

    A: Noisy
    precond: Preconditioner | None
    max_iter: int | None = None
    seed: int | None = None

    @cached_property
    def nearest(self) -> Nearest | None:
        """Quadratic forms from few rows, where they are good enough for points between the rows."""
        gram = self.A.K
        if self.seed is None or not isinstance(gram, Gram) or on_objects(gram.kernel):
            return None
        Z = nearest.points_between(self.A, nearest.POINTS, np.random.default_rng(self.seed))
        C = np.ascontiguousarray(Gram(gram.kernel, gram.X, Z, threads=gram.threads).dense(), dtype=np.float64)
        prior = np.asarray(gram.kernel.diag(Z), dtype=np.float64)
        return nearest.calibrated(self.A, C, prior, replace(self, seed=None).quadratic(C, prior)[0])

    def solve(self, C: Array) -> Array:
        return PCG(rtol=SHARP, max_iter=self.max_iter).solve(self.A, C, precond=self.precond).x

    def quadratic(self, C: Array, left: Array) -> tuple[Array, Array]:
        X, exact = np.zeros_like(C), self.A.astype("float64")
        if self.nearest is not None:
            values, errors = self.nearest.forms(C, left)
            todo = np.flatnonzero(np.isnan(errors))
        else:
            values, errors = np.zeros(C.shape[1]), np.zeros(C.shape[1])
            todo = np.flatnonzero(C.any(axis=0))
        for rtol in RESIDUALS:
            if not todo.size:
                break
            solver = PCG(rtol=rtol, max_iter=self.max_iter)
            X[:, todo] = some = solver.solve(self.A, C[:, todo], precond=self.precond, x0=X[:, todo]).x
            R = C[:, todo] - exact @ some
            values[todo] = np.einsum("ij,ij->j", some, C[:, todo] + R)
            Z = R / np.min(self.A.noise) if self.precond is None else self.precond.solve(R)
            errors[todo] = np.einsum("ij,ij->j", R, Z)
            todo = todo[errors[todo] > SHARE * np.maximum(left[todo] - values[todo], 0.0)]
        return values, errors

    def inverse_diagonal(self, rows: Index) -> Array:
        full = np.asarray(self.A.diag(), dtype=np.float64)[rows]
        out: Array = np.empty(len(rows))
        left = np.arange(len(rows))
        if self.nearest is not None:
            # What a row's value has to do with all others, as if it were new.
            C = np.asarray(self.nearest.A.block(slice(None), rows))
            values, errors = self.nearest.forms(C, full, rows)
            out = 1.0 / (full - values)
            left = np.flatnonzero(np.isnan(errors))
        if left.size:
            # e'A⁻¹e is at least 1 / A_ii, which its error has to be small against.
            solving = replace(self, seed=None)
            out[left] = solving.quadratic(_units(len(self.A), rows[left]), 2.0 / full[left])[0]
        return out


def _units(n: int, rows: Index) -> Array:
    """Return columns of the identity."""
    E = np.zeros((n, len(rows)))
    E[rows, np.arange(len(rows))] = 1.0
    return E


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian process given data.

    alpha: A⁻¹(Y - H B), (n, p). coefficients: B, (b, p). solved_H: A⁻¹H, (n, b). max_memory: bytes that
    blocks of a call may take beyond its answer.
    """

    model: Model
    targets: Targets
    alpha: Array
    coefficients: Array
    solved_H: Array
    system: System
    max_memory: float = 2e9
    threads: int | None = None
    spread: Array = field(init=False)

    def __post_init__(self) -> None:
        spread = np.linalg.pinv(self.targets.H.T @ self.solved_H, hermitian=True)
        object.__setattr__(self, "spread", spread)

    def mean(self, Z: Any, H: Array) -> Array:
        """Return the mean at new rows with basis H, (m, p), some thousand rows at a time."""
        out = np.empty((len(H), self.alpha.shape[1]))
        for start in range(0, len(H), MEAN_ROWS):
            rows = slice(start, start + MEAN_ROWS)
            out[rows] = self._gram(take(Z, rows)) @ self.alpha
        return out + H @ self.coefficients if H.shape[1] else out

    def _gram(self, Z: Any) -> Gram:
        return Gram(self.model.kernel, Z, self.targets.X, threads=self.threads)

    def variance(self, Z: Any, H: Array) -> tuple[Array, Array]:
        """Return the variance of f at new rows, and how much too large each may be, (m,) both."""
        out, errors = np.empty(len(H)), np.empty(len(H))
        for rows in self._batches(len(H)):
            part = take(Z, rows)
            prior = np.asarray(self.model.kernel.diag(part), dtype=np.float64)
            C = np.ascontiguousarray(self._gram(part).dense().T, dtype=np.float64)
            values, errors[rows] = self.system.quadratic(C, prior)
            G = H[rows].T - self.solved_H.T @ C
            out[rows] = np.maximum(prior - values, nearest.TINY * prior) + np.einsum("ij,ij->j", G, self.spread @ G)
        return out, errors

    def _batches(self, m: int) -> Iterator[slice]:
        """Yield rows whose columns of length n, six times over, fit into the memory allowed."""
        size = max(min(COLUMNS, int(self.max_memory / (6 * 8 * self.targets.n))), 1)
        for start in range(0, m, size):
            yield slice(start, min(start + size, m))

    def covariance(self, Z: Any, H: Array) -> Array:
        """Return the covariance of f between new rows, (m, m); refuses what does not fit into the memory allowed."""
        m, n = len(H), self.targets.n
        needed = 8.0 * m * (3 * m + 2 * n)
        if needed > self.max_memory:
            raise MemoryError(
                f"the covariance of {m} rows takes {needed / 1e9:.1f} GB, max_memory allows "
                f"{self.max_memory / 1e9:.1f}; ask for fewer rows, for return_std, or for samples (sample_y), or raise "
                "max_memory"
            )
        C = np.ascontiguousarray(self._gram(Z).dense().T, dtype=np.float64)
        prior = np.asarray(self.model.kernel.diag(Z), dtype=np.float64)
        X = np.hstack([self.system.solve(C[:, rows]) for rows in self._batches(m)])
        cross = C.T @ X
        G = H.T - self.solved_H.T @ C
        out: Array = self.model.kernel(Z) - 0.5 * (cross + cross.T) + G.T @ self.spread @ G
        out[np.diag_indices(m)] = np.maximum(np.diagonal(out), nearest.TINY * prior)
        return out

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return α (n, p) and the diagonal of A⁻¹ - A⁻¹H(H'A⁻¹H)⁻¹H'A⁻¹, (n,): what every row's prediction needs.

        From all other rows, the mean is y_i - α_i / C_ii and the variance with noise 1 / C_ii.
        """
        diagonal = np.empty(self.targets.n)
        for rows in self._batches(self.targets.n):
            diagonal[rows] = self.system.inverse_diagonal(np.arange(rows.start, rows.stop))
        return self.alpha, diagonal - np.einsum("ij,ij->i", self.solved_H @ self.spread, self.solved_H)


def alone(posterior: Posterior, original: Merged) -> tuple[Array, Array]:
    """Return the mean (N, p) and variance (N,) of every row from all others, for rows that were merged.

    Within a group of weight W the inverse is that of the merged rows times (w / W)² and, apart from their mean, w / σ².
    """
    alpha, diagonal = posterior.leave_one_out()
    sigma2, group, weights = posterior.model.noise, original.group, original.weights
    total = np.bincount(group, weights)
    share = weights / total[group]
    own = share**2 * diagonal[group] + weights / sigma2 * (1.0 - share)
    apart = original.Y - posterior.targets.Y[group]
    pulled = share[:, None] * alpha[group] + (weights / sigma2)[:, None] * apart
    return original.Y - pulled / own[:, None], 1.0 / own
