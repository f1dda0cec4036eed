"""Full orthogonalisation: Arnoldi's method, which trusts no recurrence [Saad03 section 6.4].

    Q₁ = B / β,  βᵢ² = B'P⁻¹B
    repeat  W = A P⁻¹ Qₖ,  H·ₖ = Q'P⁻¹W,  Qₖ₊₁ Hₖ₊₁,ₖ = W - Q H·ₖ,      X = P⁻¹ Q H⁻¹ e₁ β

In exact arithmetic the iterates are those of conjugate gradients. Every new vector is made orthogonal to all before it,
twice, so rounding does not slow it down; memory is two vectors a step and column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog.kernels.statistics import Array, Index
from precog.operators import Operator
from precog.solvers.pcg import Preconditioner, check_settings, largest, precondition
from precog.solvers.products import Products, dots, start
from precog.solvers.residuals import Residuals
from precog.solvers.result import Solution, Status


@dataclass(frozen=True)
class FOM:
    """Full orthogonalisation: stops a column at |r| <= max(rtol |b|, atol); settings as in `PCG`."""

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None
    precision: str = "float64"

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
        residuals = Residuals(products, right, X, self)
        steps = np.zeros(right.shape[1], np.int64)
        status: Status | None = None
        # What rounding leaves after a whole pass is the right-hand side of the next one.
        while status is None and residuals.open.size:
            status = _pass(residuals, X, steps, precond, largest(self, A), callback)
        return Solution(
            X[:, 0] if np.ndim(B) == 1 else X,
            status or Status.CONVERGED,
            int(steps.max(initial=0)),
            residuals.relative,
            products.count,
            steps,
            solver="full orthogonalisation",
            precision=products.precision,
        )


def _pass(
    residuals: Residuals,
    X: Array,
    steps: Index,
    precond: Preconditioner | None,
    max_iter: int,
    callback: Callable[[int, Array], None] | None,
) -> Status | None:
    """Extend one Krylov space until every open column claims to be done; return a status where that cannot be."""
    active = residuals.open
    x, r = X[:, active].copy(), residuals.start[:, active]
    space = _Space(r, precond)
    status = Status.INDEFINITE_PRECONDITIONER if not (space.beta > 0).all() else None
    while status is None:
        if int(steps.max(initial=0)) >= max_iter:
            status = Status.MAX_ITER
            break
        w = residuals.products.multiply(space.P[-1])
        if not np.isfinite(w).all():
            status = Status.NOT_FINITE
            break
        space.extend(w, precond)
        steps[active] += 1
        y = space.coefficients()
        if y is None:
            status = Status.INDEFINITE
            break
        claimed = space.residual(y)
        residuals.norms[active] = claimed
        if callback:
            callback(int(steps.max()), residuals.relative)
        if (claimed <= residuals.goal[active]).all() or not space.grows:
            break
    y = space.coefficients()
    if y is not None and len(space.P) > 1:
        x += space.combine(y)
    before = residuals.last_true[active]
    residuals.measure(active, x, r)
    X[:, active], residuals.start[:, active] = x, r
    residuals.last_true[active] = residuals.norms[active]
    late = residuals.norms[active] > residuals.goal[active]
    if status is None and (late & (residuals.norms[active] > 0.5 * before)).any():
        return Status.STAGNATED
    return status


class _Space:
    """The Krylov space of every column: Q orthonormal in P⁻¹, P = P⁻¹Q, and the projections H."""

    def __init__(self, R: Array, precond: Preconditioner | None) -> None:
        z = precondition(precond, R)
        self.beta = np.sqrt(np.maximum(dots(R, z), 0.0))
        safe = np.where(self.beta > 0, self.beta, 1.0)
        self.Q, self.P = [R / safe], [z / safe]
        self.H: list[Array] = []
        self.grows = True

    def extend(self, w: Array, precond: Preconditioner | None) -> None:
        """Add A P⁻¹ Qₖ to the space."""
        h = np.zeros((len(self.Q) + 1, w.shape[1]))
        for _ in range(2):
            for i, (q, p) in enumerate(zip(self.Q, self.P, strict=True)):
                part = dots(p, w)
                h[i] += part
                w = w - q * part
        z = precondition(precond, w)
        h[-1] = np.sqrt(np.maximum(dots(w, z), 0.0))
        # A column whose space is exhausted goes on with zeros.
        alive = h[-1] > 1e-14 * np.abs(h).max(axis=0)
        h[-1] = np.where(alive, h[-1], 0.0)
        self.grows = bool(alive.any())
        size = np.where(alive, h[-1], np.inf)
        self.Q.append(w / size)
        self.P.append(z / size)
        self.H.append(h)

    def coefficients(self) -> Array | None:
        """Return H⁻¹ e₁ β for every column, (steps, p), or None where a projection of A is not positive definite."""
        k = len(self.H)
        out = np.zeros((k, len(self.beta)))
        for j in range(len(self.beta)):
            H = np.zeros((k, k))
            for i, h in enumerate(self.H):
                H[: min(i + 2, k), i] = h[: min(i + 2, k), j]
            rank = next((i + 1 for i, h in enumerate(self.H) if h[i + 1, j] == 0.0), k)
            symmetric = 0.5 * (H[:rank, :rank] + H[:rank, :rank].T)
            if np.linalg.eigvalsh(symmetric)[0] <= 0:
                return None
            right = np.zeros(rank)
            right[0] = self.beta[j]
            out[:rank, j] = np.linalg.solve(H[:rank, :rank], right)
        return out

    def residual(self, y: Array) -> Array:
        """Return the norm of the residual of every column, Hₖ₊₁,ₖ yₖ times the last vector."""
        claimed: Array = np.abs(self.H[-1][-1] * y[-1]) * np.linalg.norm(self.Q[-1], axis=0)
        return claimed

    def combine(self, y: Array) -> Array:
        out = np.zeros_like(self.P[0])
        for p, weight in zip(self.P, y, strict=False):
            out += p * weight
        return out
