"""Conjugate gradients for many right-hand sides at once.

    R = B - A X,  S = Z = P⁻¹ R,  γ = diag(R' Z)
    repeat   W = A S,  α = γ / diag(S' W),  X += S α,  R -= W α,  Z = P⁻¹ R,  γ' = diag(R' Z),  S = Z + S (γ'/γ)

Every column has its own α and its own end; columns that are done leave the product. Before a column counts as done its
residual is computed anew from A X, so the residuals that are reported are true ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.solvers.result import Solution, Status


class Preconditioner(Protocol):
    """What conjugate gradients ask of a preconditioner."""

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V."""
        ...


@dataclass(frozen=True)
class PCG:
    """Preconditioned conjugate gradients: stops a column at |r| <= max(rtol |b|, atol).

    max_iter=None allows ten times as many steps as there are rows, which only rounding can use up.
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None

    def __post_init__(self) -> None:
        checks.number("rtol", self.rtol)
        checks.number("atol", self.atol)
        if self.rtol == 0 and self.atol == 0:
            raise ValueError("rtol and atol are both 0; give one of them a positive value")
        if self.max_iter is not None:
            checks.count("max_iter", self.max_iter, low=0)

    def solve(
        self,
        A: Operator,
        B: Any,
        *,
        precond: Preconditioner | None = None,
        x0: Any = None,
        callback: Callable[[int, Array], None] | None = None,
    ) -> Solution:
        """Return X with A X = B; `callback` hears the step and the relative residuals of all columns."""
        n, m = A.shape
        if n != m:
            raise ValueError(f"conjugate gradients need a square operator, this one is {n} x {m}")
        right = checks.columns_for("B", B, n).astype(np.float64, copy=False)
        start = np.zeros_like(right) if x0 is None else checks.columns_for("x0", x0, n).astype(np.float64)
        if start.shape != right.shape:
            raise ValueError(f"x0 has {start.shape[1]} columns, B {right.shape[1]}")
        run = _Run(A, right, start, precond, self)
        status = run.iterate(10 * n + 10 if self.max_iter is None else self.max_iter, callback)
        x = run.X[:, 0] if np.ndim(B) == 1 else run.X
        return Solution(x, status, run.steps, run.relative(), run.products, run.column_steps)


class _Run:
    """The state of one solve: all columns in X and R, the active ones in S."""

    def __init__(self, A: Operator, B: Array, X: Array, precond: Preconditioner | None, settings: PCG) -> None:
        self.A, self.B, self.X, self.precond = A, B, X, precond
        self.size = np.linalg.norm(B, axis=0)
        # No relative tolerance can be met by a column of zeros from another start than its answer.
        X[:, self.size == 0] = 0.0
        self.goal = np.maximum(settings.rtol * self.size, settings.atol)
        self.products, self.steps = 0, 0
        self.column_steps = np.zeros(B.shape[1], np.int64)
        self.R = B - self._multiply(X) if X.any() else B.copy()
        self.true = np.linalg.norm(self.R, axis=0)
        self.active = np.flatnonzero(self.true > self.goal)
        self._restart()

    def _multiply(self, V: Array) -> Array:
        self.products += V.shape[1]
        return np.asarray(self.A @ V, dtype=np.float64)

    def _precondition(self, R: Array) -> Array:
        return R.copy() if self.precond is None else self.precond.solve(R)

    def _restart(self) -> None:
        """Take the steepest direction for the active columns, forgetting the earlier ones."""
        self.S = self._precondition(self.R[:, self.active])
        self.gamma = np.einsum("ij,ij->j", self.R[:, self.active], self.S)

    def relative(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.size > 0, np.linalg.norm(self.R, axis=0) / self.size, 0.0)

    def iterate(self, max_iter: int, callback: Callable[[int, Array], None] | None) -> Status:
        while self.active.size:
            if self.steps >= max_iter:
                self.R = self.B - self._multiply(self.X)
                return Status.MAX_ITER
            trouble = self._step()
            if callback:
                callback(self.steps, self.relative())
            if trouble is None:
                trouble = self._retire()
            if trouble is not None:
                return trouble
        return Status.CONVERGED

    def _step(self) -> Status | None:
        W = self._multiply(self.S)
        curvature = np.einsum("ij,ij->j", self.S, W)
        if not np.isfinite(curvature).all():
            return Status.NOT_FINITE
        if (curvature <= 0).any():
            return Status.INDEFINITE
        alpha = self.gamma / curvature
        self.steps += 1
        self.column_steps[self.active] += 1
        self.X[:, self.active] += self.S * alpha
        R = self.R[:, self.active] - W * alpha
        self.R[:, self.active] = R
        Z = self._precondition(R)
        gamma = np.einsum("ij,ij->j", R, Z)
        self.S = Z + self.S * (gamma / np.where(self.gamma > 0, self.gamma, 1.0))
        self.gamma = gamma
        return None

    def _retire(self) -> Status | None:
        """Let columns go whose true residual is small enough; restart those that only looked so."""
        done = np.linalg.norm(self.R[:, self.active], axis=0) <= self.goal[self.active]
        if not done.any():
            return None
        columns = self.active[done]
        self.R[:, columns] = self.B[:, columns] - self._multiply(self.X[:, columns])
        true = np.linalg.norm(self.R[:, columns], axis=0)
        late = true > self.goal[columns]
        # The recurrence claims what the product denies: a restart regains digits until there are none left to regain.
        stuck = (late & (true > 0.5 * self.true[columns])).any()
        self.true[columns] = true
        if stuck:
            self.R = self.B - self._multiply(self.X)
            return Status.STAGNATED
        if late.any():
            self.active = np.setdiff1d(self.active, columns[~late])
            self._restart()
        else:
            self.active, self.S, self.gamma = self.active[~done], self.S[:, ~done], self.gamma[~done]
        return None
