"""Block conjugate gradients: all columns search one common space [Dubrulle01].

    R = Q C with Q'P⁻¹Q = I,  S = P⁻¹Q
    repeat  W = A S,  Ξ = (S'W)⁻¹,  X += S Ξ C,  Q̂ = Q - W Ξ,  Q̂ = Q ζ with Q'P⁻¹Q = I,  C = ζ C,  S = P⁻¹Q + S ζ'

The largest eigenvalues of P⁻¹A, about as many as there are columns, are found at once, so every column takes fewer
steps than alone. Residuals are never inverted, only the well-conditioned Gram matrices of one step; directions that
have become dependent on others are dropped from Q, and C stays rectangular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array, Mask
from precog.operators import Operator
from precog.solvers.pcg import Preconditioner, check_settings, largest, precondition
from precog.solvers.products import Products, start
from precog.solvers.residuals import Residuals
from precog.solvers.result import Solution, Status

# Directions whose squared size is below this share of the largest are noise.
DEPENDENT = 1e-14
# Rounding in a preconditioner stored in float32 stays below this share; what is more negative is none.
NEGATIVE = 1e-4


@dataclass(frozen=True)
class BlockCG:
    """Block conjugate gradients: every column stops at |r| <= max(rtol |b|, atol); settings as in `PCG`.

    Has no Lanczos coefficients of single columns; use `PCG` where a log-determinant is wanted from the same solve.
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None
    precision: str = "auto"

    def __post_init__(self) -> None:
        check_settings(self)

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
        products = Products(A, self.precision)
        right, X = start(A, B, x0)
        run = _Run(Residuals(products, right, X, self), X, precond)
        status = run.iterate(largest(self, A), callback)
        return Solution(
            X[:, 0] if np.ndim(B) == 1 else X,
            status,
            run.step,
            run.residuals.relative,
            products.count,
            run.column_steps,
            solver="block conjugate gradients",
            precision=products.precision,
        )


class _Run:
    """The state of one solve: Q, S and P⁻¹Q span the common space, C leads from Q to the residuals."""

    def __init__(self, residuals: Residuals, X: Array, precond: Preconditioner | None) -> None:
        self.residuals, self.X, self.precond = residuals, X, precond
        self.step, self.column_steps = 0, np.zeros(X.shape[1], np.int64)
        self.active = residuals.open
        self.x, self.r = X[:, self.active], residuals.start[:, self.active]
        self.q, self.s, self.c = self.r, self.r, np.eye(0)

    def _begin(self) -> Status | None:
        """Make the common space from the present residuals, brought to one size."""
        size = np.linalg.norm(self.r, axis=0)
        if not np.isfinite(size).all():
            return Status.NOT_FINITE
        self.q = self.r / size
        self.s = precondition(self.precond, self.q)
        found = _factor(self.q.T @ self.s)
        if isinstance(found, Status):
            return found
        zeta, inverse = found
        self.q, self.s, self.c = self.q @ inverse, self.s @ inverse, zeta * size
        return None

    def iterate(self, max_iter: int, callback: Callable[[int, Array], None] | None) -> Status:
        trouble = self._begin() if self.active.size else None
        while self.active.size and trouble is None:
            trouble = Status.MAX_ITER if self.step >= max_iter else self._step(callback)
        if trouble is not None:
            self.residuals.measure(self.active, self.x, self.r)
            self.X[:, self.active] = self.x
        return trouble or self.residuals.status

    def _step(self, callback: Callable[[int, Array], None] | None) -> Status | None:
        products = self.residuals.products
        w = products.multiply(self.s)
        finite = bool(np.isfinite(w).all())
        xi = _cholesky(self.s.T @ w) if finite else None
        if xi is None:
            if products.be_exact():
                self.residuals.measure(self.active, self.x, self.r)
                return self._begin()
            return Status.INDEFINITE if finite else Status.NOT_FINITE
        self.step += 1
        self.column_steps[self.active] += 1
        self.x += self.s @ scipy.linalg.cho_solve(xi, self.c)
        q = self.q - scipy.linalg.cho_solve(xi, w.T).T
        change = self.r
        self.r = q @ self.c
        change -= self.r
        leave = self.residuals.follow(self.active, self.x, self.r, change)
        if callback:
            callback(self.step, self.residuals.relative)
        return self._turn(q, leave)

    def _turn(self, q: Array, leave: Mask) -> Status | None:
        """Take the next common space from what is left of the old one."""
        if leave.any():
            self.X[:, self.active[leave]] = self.x[:, leave]
            keep = ~leave
            self.active, self.x, self.r, self.c = self.active[keep], self.x[:, keep], self.r[:, keep], self.c[:, keep]
            if not self.active.size:
                return None
        # A residual that was replaced is not Q C any more. To keep the directions conjugate to the last ones anyway
        # took up to four times as many steps as to begin anew, and led nowhere where P was nearly A.
        if self.residuals.switched or self.residuals.replaced.any():
            return self._begin()
        z = precondition(self.precond, q)
        found = _factor(q.T @ z)
        if isinstance(found, Status):
            return self._begin()
        zeta, inverse = found
        self.q, self.c = q @ inverse, zeta @ self.c
        self.s = z @ inverse + self.s @ zeta.T
        return None


def _cholesky(M: Array) -> Any:
    """Return the factor of a symmetric matrix for `cho_solve`, or None where it is not positive definite."""
    try:
        return scipy.linalg.cho_factor(0.5 * (M + M.T))
    except scipy.linalg.LinAlgError:
        return None


def _factor(M: Array) -> tuple[Array, Array] | Status:
    """Return ζ with ζ'ζ = M and its inverse, without the directions in which M = Q'P⁻¹Q is zero but for rounding."""
    M = 0.5 * (M + M.T)
    if not np.isfinite(M).all():
        return Status.NOT_FINITE
    values, vectors = np.linalg.eigh(M)
    if values[-1] <= 0.0 or values[0] < -NEGATIVE * values[-1]:
        return Status.INDEFINITE_PRECONDITIONER
    kept = values > DEPENDENT * values[-1]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return roots[:, None] * vectors.T, vectors / roots
