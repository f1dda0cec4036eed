"""Dense or iterative: the choice behind solver="auto", from a crossover that was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.solvers.cholesky import Cholesky
from precog.solvers.pcg import PCG, Preconditioner, check_settings
from precog.solvers.result import Solution

# Up to here a dense factor is ready before conjugate gradients are, on systems of middling condition; measured by
# `python benchmarks/solvers.py --only crossover`.
DENSE_ROWS = 3000


@dataclass(frozen=True)
class Auto:
    """A dense factor for small systems, preconditioned conjugate gradients for the rest; settings as in `PCG`."""

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int | None = None
    precision: str = "auto"

    def __post_init__(self) -> None:
        check_settings(self)

    def choose(self, A: Operator) -> tuple[Cholesky | PCG, str]:
        """Return the solver for A, and why."""
        n = A.shape[0]
        if n <= DENSE_ROWS:
            return Cholesky(self.rtol, self.atol), f"{n} rows: up to {DENSE_ROWS} a dense factor is faster"
        settings = PCG(self.rtol, self.atol, self.max_iter, self.precision)
        return settings, f"{n} rows: above {DENSE_ROWS} conjugate gradients are faster"

    def solve(
        self,
        A: Operator,
        B: Any,
        *,
        precond: Preconditioner | None = None,
        x0: Any = None,
        callback: Callable[[int, Array], None] | None = None,
    ) -> Solution:
        """Return X with A X = B; `Solution.solver` says who solved it and why."""
        solver, why = self.choose(A)
        solution = solver.solve(A, B, precond=precond, x0=x0, callback=callback)
        return replace(solution, solver=f"{solution.solver} ({why})")
