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

from precog.kernels.statistics import Array, Index, Mask
from precog.operators import Operator
from precog.solvers.pcg import Preconditioner, check_settings, largest, positive, precondition
from precog.solvers.products import Products, dots, start
from precog.solvers.residuals import Residuals
from precog.solvers.result import Solution, Status

# A new direction, or a pivot, of this share of the largest projection is rounding.
EXHAUSTED = 1e-14


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
            status or residuals.status,
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
    status = space.trouble
    while status is None:
        if int(steps.max(initial=0)) >= max_iter:
            status = Status.MAX_ITER
            break
        status = space.extend(residuals.products.multiply(space.P[-1]), precond)
        if status is not None:
            break
        steps[active] += 1
        residuals.norms[active] = space.claimed
        if callback:
            callback(int(steps.max()), residuals.relative)
        if (space.claimed <= residuals.goal[active]).all() or not space.grows.any():
            break
    x += space.combine()
    residuals.measure(active, x, r)
    X[:, active], residuals.start[:, active] = x, r
    if status is Status.MAX_ITER:
        return status
    # What float32 ended may go on in float64.
    if status is not None and residuals.products.be_exact():
        residuals.last_true[active] = residuals.norms[active]
        return None
    residuals.judge(active)
    return status


class _Space:
    """The Krylov space of every column: Q orthonormal in P⁻¹, P = P⁻¹Q, and the projection H = LU of A.

    H is upper Hessenberg, so L has ones and one diagonal l below; g = L⁻¹ e₁ β. Pivots of a positive definite H are
    positive, and with g / u they give the last coefficient, hence the residual, without solving for the others.
    """

    def __init__(self, R: Array, precond: Preconditioner | None) -> None:
        z = precondition(precond, R)
        square = dots(R, z)
        self.trouble: Status | None = None
        if not positive(square):
            self.trouble = Status.INDEFINITE_PRECONDITIONER if np.isfinite(square).all() else Status.NOT_FINITE
            square = np.ones_like(square)
        self.g = [np.sqrt(square)]
        self.Q, self.P = [R / self.g[0]], [z / self.g[0]]
        self.U: list[Array] = []
        self.l: list[Array] = []
        self.largest = np.zeros(R.shape[1])
        self.grows: Mask = np.ones(R.shape[1], dtype=bool)
        self.claimed = np.linalg.norm(R, axis=0)

    def extend(self, w: Array, precond: Preconditioner | None) -> Status | None:
        """Add A P⁻¹ Qₖ to the space; return a status where A or P does not allow it."""
        if not np.isfinite(w).all():
            return Status.NOT_FINITE
        h = np.zeros((len(self.Q), w.shape[1]))
        for _ in range(2):
            for i, (q, p) in enumerate(zip(self.Q, self.P, strict=True)):
                part = dots(p, w)
                h[i] += part
                w = w - q * part
        u = h.copy()
        for i, below in enumerate(self.l):
            u[i + 1] -= below * u[i]
        self.largest = np.maximum(self.largest, np.abs(h).max(axis=0))
        # A column whose space is exhausted goes on with zeros.
        if (self.grows & (u[-1] <= EXHAUSTED * self.largest)).any():
            return Status.INDEFINITE
        z = precondition(precond, w)
        square, floor = dots(w, z), (EXHAUSTED * self.largest) ** 2
        if not np.isfinite(square).all():
            return Status.NOT_FINITE
        if (square < -floor).any():
            return Status.INDEFINITE_PRECONDITIONER
        pivot = np.where(self.grows, u[-1], 1.0)
        last = self.g[-1] / pivot
        self.grows = self.grows & (square > floor)
        below = np.where(self.grows, np.sqrt(np.maximum(square, 0.0)), 0.0)
        size = np.where(self.grows, below, np.inf)
        self.Q.append(w / size)
        self.P.append(z / size)
        self.U.append(np.vstack([u[:-1], pivot]))
        self.l.append(below / pivot)
        self.g.append(-self.l[-1] * self.g[-1])
        self.claimed = np.abs(below * last) * np.linalg.norm(self.Q[-1], axis=0)
        return None

    def combine(self) -> Array:
        """Return P⁻¹ Q U⁻¹ g."""
        out, rest = np.zeros_like(self.P[0]), np.array(self.g)
        for k in reversed(range(len(self.U))):
            weight = rest[k] / self.U[k][-1]
            rest[:k] -= self.U[k][:-1] * weight
            out += self.P[k] * weight
        return out
