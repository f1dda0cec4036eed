"""Flexible conjugate gradients, for preconditioners that are themselves solved by iteration [Notay00].

    Z = P⁻¹ R (inexact),  S = Z - Σₖ Sₖ (Sₖ' A Z) / (Sₖ' A Sₖ) over the last directions Sₖ,  α = S'R / S'AS

Where P changes from step to step, the two-term recurrence of conjugate gradients loses its conjugacy; this one enforces
it against `memory` directions, and starts over after so many steps, as published for truncated-restarted versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array, Index
from precog.operators import Operator
from precog.solvers.pcg import Preconditioner, check_settings, largest, positive, precondition
from precog.solvers.products import Products, dots, start
from precog.solvers.residuals import Residuals
from precog.solvers.result import Solution, Status


@dataclass(frozen=True)
class FlexiblePCG:
    """Flexible conjugate gradients: stops a column at |r| <= max(rtol |b|, atol); settings as in `PCG`.

    memory: how many directions are kept, two vectors each for every column.
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None
    precision: str = "auto"
    memory: int = 15

    def __post_init__(self) -> None:
        check_settings(self)
        checks.count("memory", self.memory)

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
        status = self._iterate(residuals, X, steps, precond, largest(self, A), callback)
        return Solution(
            X[:, 0] if np.ndim(B) == 1 else X,
            status,
            int(steps.max(initial=0)),
            residuals.relative,
            products.count,
            steps,
            solver="flexible conjugate gradients",
            precision=products.precision,
        )

    def _iterate(
        self,
        residuals: Residuals,
        X: Array,
        steps: Index,
        precond: Preconditioner | None,
        max_iter: int,
        callback: Callable[[int, Array], None] | None,
    ) -> Status:
        active, products = residuals.open, residuals.products
        x, r = X[:, active], residuals.start[:, active]
        kept: list[tuple[Array, Array, Array]] = []
        trouble: Status | None = None
        step = 0
        while active.size and trouble is None:
            if step >= max_iter:
                trouble = Status.MAX_ITER
                break
            s = precondition(precond, r)
            for old, product, curvature in kept:
                s -= old * (dots(product, s) / curvature)
            slope = dots(s, r)
            if not np.isfinite(slope).all():
                trouble = Status.NOT_FINITE
                break
            w = products.multiply(s)
            curvature = dots(s, w)
            if not positive(curvature):
                if products.be_exact():
                    residuals.measure(active, x, r)
                    kept = []
                    continue
                trouble = Status.INDEFINITE if np.isfinite(curvature).all() else Status.NOT_FINITE
                break
            step += 1
            steps[active] += 1
            alpha = slope / curvature
            x += s * alpha
            r -= w * alpha
            leave = residuals.follow(active, x, r, w * alpha)
            if callback:
                callback(step, residuals.relative)
            # One direction after every restart, then one more with each step.
            length = max(1, step % (self.memory + 1))
            kept = [*kept, (s, w, curvature)][-length:]
            # A residual that was replaced owes nothing to the directions so far.
            fresh = residuals.replaced[active]
            if fresh.any():
                kept = [(np.where(fresh, 0.0, s), w, c) for s, w, c in kept]
            if leave.any():
                X[:, active[leave]] = x[:, leave]
                keep = ~leave
                active, x, r = active[keep], x[:, keep], r[:, keep]
                kept = [(s[:, keep], w[:, keep], c[keep]) for s, w, c in kept]
        if trouble is not None:
            residuals.measure(active, x, r)
            X[:, active] = x
        return trouble or residuals.status
