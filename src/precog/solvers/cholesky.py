"""The dense solver, with the contract of the others: A is stored and factorised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.solvers.pcg import Preconditioner, check_tolerances
from precog.solvers.products import start
from precog.solvers.result import Solution, Status


@dataclass(frozen=True)
class Cholesky:
    """A dense Cholesky factor: n²/2 numbers twice, n³/3 multiplications, whatever the condition number.

    rtol, atol: what a column has to reach to count as solved, as in `PCG`. max_memory: bytes that A and its factor may
    take; beyond it the solver refuses before it starts.
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_memory: float = 8e9

    def __post_init__(self) -> None:
        check_tolerances(self)
        checks.number("max_memory", self.max_memory, strict=True)

    def solve(
        self,
        A: Operator,
        B: Any,
        *,
        precond: Preconditioner | None = None,
        x0: Any = None,
        callback: Callable[[int, Array], None] | None = None,
    ) -> Solution:
        """Return X with A X = B. `precond` and `x0` make no difference; `callback` hears of one step."""
        n, m = A.shape
        if n != m:
            raise ValueError(f"a solver needs a square operator, this one is {n} x {m}")
        right, _ = start(A, B, x0)
        K, factor, status = self._factor(A)
        X, residual = np.zeros_like(right), right
        if factor is not None:
            X = scipy.linalg.cho_solve(factor, right, check_finite=False)
            X += scipy.linalg.cho_solve(factor, right - K @ X, check_finite=False)
            residual = right - K @ X
        size, norms = (np.linalg.norm(M, axis=0) for M in (right, residual))
        if status is Status.CONVERGED and not (norms <= np.maximum(self.rtol * size, self.atol)).all():
            status = Status.STAGNATED
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(size > 0, norms / size, 0.0)
        steps = np.full(right.shape[1], int(factor is not None))
        if callback and factor is not None:
            callback(1, relative)
        x = X[:, 0] if np.ndim(B) == 1 else X
        return Solution(x, status, int(steps.max(initial=0)), relative, 0, steps, solver="Cholesky")

    def _factor(self, A: Operator) -> tuple[Array, Any, Status]:
        """Return A and its factor, or None where there is none, and why."""
        needed = 2 * 8.0 * A.shape[0] ** 2
        if needed > self.max_memory:
            raise MemoryError(
                f"a dense factor of {A.shape[0]} rows takes {needed / 1e9:.1f} GB, max_memory allows "
                f"{self.max_memory / 1e9:.1f}; use PCG, or raise max_memory"
            )
        K = A.astype("float64").dense()
        if not np.isfinite(K).all():
            return K, None, Status.NOT_FINITE
        try:
            return K, scipy.linalg.cho_factor(K, lower=True, check_finite=False), Status.CONVERGED
        except scipy.linalg.LinAlgError:
            return K, None, Status.INDEFINITE
