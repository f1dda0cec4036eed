"""Conjugate gradients for many right-hand sides at once.

    R = B - A X,  S = Z = P⁻¹ R,  γ = diag(R' Z)
    repeat   W = A S,  α = γ / diag(S' W),  X += S α,  R -= W α,  Z = P⁻¹ R,  γ' = diag(R' Z),  S = Z + S (γ'/γ)

Every column has its own α and its own end; columns that are done leave the product. Products may be in float32: what
their rounding adds to R is estimated step by step, and when it comes near |R| itself, R is replaced by B - A X from a
product in float64 and the recurrence goes on from there. Before a column counts as done its residual is replaced as
well, so the residuals that are reported are true ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from precog import checks
from precog.kernels.statistics import Array, Index, Mask
from precog.operators import Operator
from precog.solvers.products import PRECISIONS, Products, dots, start
from precog.solvers.residuals import Residuals
from precog.solvers.result import Lanczos, Solution, Status


class Preconditioner(Protocol):
    """What conjugate gradients ask of a preconditioner."""

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V."""
        ...


@dataclass(frozen=True)
class PCG:
    """Preconditioned conjugate gradients: stops a column at |r| <= max(rtol |b|, atol).

    rtol=0 with atol=√(n · 1e-10) is the absolute stop of [Cutajar16]. max_iter=None allows ten times as many steps as
    there are rows, which only rounding can use up. precision: "float64", "mixed" for float32 products inside and true
    residuals in float64, or "auto". reorthogonalize: keep every residual orthogonal to all before it, which costs their
    memory (one vector a step and column) and undoes what rounding does to the number of steps.
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None
    precision: str = "auto"
    reorthogonalize: bool = False

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
        run = _Run(products, *start(A, B, x0), precond, self)
        status = run.iterate(largest(self, A), callback)
        x = run.X[:, 0] if np.ndim(B) == 1 else run.X
        return Solution(
            x,
            status,
            run.steps,
            run.residuals.relative,
            products.count,
            run.column_steps,
            run.lanczos(),
            "conjugate gradients",
            products.precision,
        )


def precondition(precond: Preconditioner | None, R: Array) -> Array:
    """Return P⁻¹ R as a new array."""
    return R.copy() if precond is None else np.array(precond.solve(R), dtype=np.float64)


def check_tolerances(solver: Any) -> None:
    checks.number("rtol", solver.rtol)
    checks.number("atol", solver.atol)
    if solver.rtol == 0 and solver.atol == 0:
        raise ValueError("rtol and atol are both 0; give one of them a positive value")


def check_settings(solver: Any) -> None:
    """Raise an error for settings that all iterative solvers share."""
    check_tolerances(solver)
    if solver.max_iter is not None:
        checks.count("max_iter", solver.max_iter, low=0)
    checks.choice("precision", solver.precision, PRECISIONS)


def positive(values: Array) -> bool:
    """Return whether all are finite and above zero."""
    return bool((np.isfinite(values) & (values > 0)).all())


def largest(solver: Any, A: Operator) -> int:
    """Return how many steps a solver may take."""
    return 10 * A.shape[0] + 10 if solver.max_iter is None else int(solver.max_iter)


class _Run:
    """The state of one solve: results of all columns in X, those of the active ones in x, r and s."""

    def __init__(self, products: Products, B: Array, X: Array, precond: Preconditioner | None, settings: PCG) -> None:
        self.products, self.X, self.precond = products, X, precond
        self.cold: Mask = np.logical_not(X.any(axis=0))
        self.residuals = Residuals(products, B, X, settings)
        self.steps, self.column_steps = 0, np.zeros(B.shape[1], np.int64)
        self.active = self.residuals.open
        self.x, self.r = X[:, self.active], self.residuals.start[:, self.active]
        self.basis: list[tuple[Array, Array, Array]] | None = [] if settings.reorthogonalize else None
        self.history: list[tuple[Index, Array, Array]] = []
        self.first = np.zeros(B.shape[1])
        self._begin()

    def _begin(self) -> None:
        """Take the steepest directions; residuals before these count no more."""
        if self.basis is not None:
            self.basis = []
        self.z = precondition(self.precond, self.r)
        self.s, self.gamma = self.z, dots(self.r, self.z)
        self.first[self.active] = self.gamma

    def iterate(self, max_iter: int, callback: Callable[[int, Array], None] | None) -> Status:
        trouble: Status | None = None
        while self.active.size and trouble is None:
            if not positive(self.gamma):
                trouble = Status.INDEFINITE_PRECONDITIONER if np.isfinite(self.gamma).all() else Status.NOT_FINITE
            elif self.steps >= max_iter:
                trouble = Status.MAX_ITER
            else:
                trouble = self._step(callback)
        if trouble is not None:
            self.residuals.measure(self.active, self.x, self.r)
            self.X[:, self.active] = self.x
        return trouble or self.residuals.status

    def _step(self, callback: Callable[[int, Array], None] | None) -> Status | None:
        w = self.products.multiply(self.s)
        curvature = dots(self.s, w)
        if not positive(curvature):
            if self.products.be_exact():
                self.residuals.measure(self.active, self.x, self.r)
                self._restart()
                return None
            return Status.INDEFINITE if np.isfinite(curvature).all() else Status.NOT_FINITE
        if self.basis is not None:
            self.basis.append((self.r.copy(), self.z, self.gamma))
        alpha = self.gamma / curvature
        self.steps += 1
        self.column_steps[self.active] += 1
        self.x += self.s * alpha
        w *= alpha
        self.r -= w
        for r, z, gamma in self.basis or ():
            self.r -= r * (dots(z, self.r) / gamma)
        leave = self.residuals.follow(self.active, self.x, self.r, w)
        if callback:
            callback(self.steps, self.residuals.relative)
        self._turn(alpha, leave)
        if self.residuals.switched:
            self._restart()
        return None

    def _turn(self, alpha: Array, leave: Mask) -> None:
        """Let columns go that are done or given up, and take the next directions."""
        if leave.any():
            self.X[:, self.active[leave]] = self.x[:, leave]
            self.history.append((self.active[leave], alpha[leave], np.full(leave.sum(), np.nan)))
            keep = ~leave
            alpha, self.active, self.gamma = alpha[keep], self.active[keep], self.gamma[keep]
            self.x, self.r, self.s = self.x[:, keep], self.r[:, keep], self.s[:, keep]
            if self.basis is not None:
                self.basis = [(r[:, keep], z[:, keep], g[keep]) for r, z, g in self.basis]
        self.z = precondition(self.precond, self.r)
        gamma = dots(self.r, self.z)
        # A true residual is not orthogonal to those before it. To keep its direction conjugate to the last one took up
        # to twice as many steps as to begin anew. T falls into two parts there, of which quadrature sees the first.
        fresh = self.residuals.replaced[self.active]
        beta = np.where(fresh, 0.0, gamma / self.gamma)
        if self.basis is not None and fresh.any():
            self.basis = []
        self.history.append((self.active, alpha, beta))
        self.s = self.s * beta
        self.s += self.z
        self.gamma = gamma

    def _restart(self) -> None:
        """Forget the directions so far; the coefficients start anew with the present residual."""
        self.cold[self.active] = False
        gone = [(columns, ~np.isin(columns, self.active), a, b) for columns, a, b in self.history]
        self.history = [(columns[kept], a[kept], b[kept]) for columns, kept, a, b in gone]
        self._begin()

    def lanczos(self) -> Lanczos:
        shape = (int(self.column_steps.max(initial=0)), len(self.first))
        alpha, beta = np.full(shape, np.nan), np.full(shape, np.nan)
        taken = np.zeros(shape[1], np.intp)
        for columns, a, b in self.history:
            alpha[taken[columns], columns], beta[taken[columns], columns] = a, b
            taken[columns] += 1
        return Lanczos(alpha, beta, self.first, self.cold)
