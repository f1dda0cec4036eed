"""P = A + δ I, solved by an inner run of conjugate gradients: cheaper than A because it is better conditioned."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.precond.base import Problem, Report
from precog.precond.condition import condition
from precog.solvers import PCG, matrix_function

# Up to so many rows a log-determinant is taken from a dense factor.
DENSE_ROWS = 3000


class Regularized:
    """P = A + δ I; `inner_iterations` counts the steps of all solves so far."""

    exact = False
    rank = 0

    def __init__(self, A: Operator, shifted: Operator, solver: PCG, built: Report) -> None:
        self.A, self.shifted, self.solver, self.built = A, shifted, solver, built
        self.inner_iterations = 0

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V to the inner tolerance."""
        solution = self.solver.solve(self.shifted, V)
        self.inner_iterations += int(solution.column_iterations.sum())
        return solution.x

    def matmat(self, V: Array) -> Array:
        return np.asarray(self.shifted @ V, dtype=np.float64)

    def logdet(self) -> float:
        n = self.A.shape[0]
        if n > DENSE_ROWS:
            raise NotImplementedError(
                f"log|A + δI| of {n} rows would take a dense factor; estimate it with precog.solvers.logdet"
            )
        factor = scipy.linalg.cholesky(self.shifted.astype("float64").dense(), lower=True)
        return 2.0 * float(np.log(np.diagonal(factor)).sum())

    def sample(self, rng: np.random.Generator, k: int) -> Array:
        """Return P^½ times Gaussian columns, by Lanczos."""
        return matrix_function(self.shifted, rng.standard_normal((self.A.shape[0], k)), "sqrt").raise_if_failed().x

    def report(self) -> Report:
        return dataclasses.replace(self.built, condition=condition(self, self.A))


def regularized(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    delta: float | None = None,
    rtol: float = 1e-6,
    max_iter: int | None = None,
    precision: str = "auto",
) -> Regularized:
    """Return P = A + δ I, δ ten times the mean noise by default. `rank` and `rng` are not used."""
    started = time.perf_counter()
    shift = 10.0 * float(problem.noise.mean()) if delta is None else checks.number("delta", delta, strict=True)
    solver = PCG(rtol=rtol, max_iter=max_iter, precision=precision)
    made = Report("regularized", 0, seconds=time.perf_counter() - started, why=f"δ = {shift:.2g}")
    return Regularized(problem.A, problem.A + shift, solver, made)


class Identity:
    """P = I."""

    exact = True
    rank = 0

    def __init__(self, A: Operator) -> None:
        self.A = A

    def solve(self, V: Array) -> Array:
        return np.array(V, dtype=np.float64)

    matmat = solve

    def logdet(self) -> float:
        return 0.0

    def inverse_diagonal(self) -> Array:
        return np.ones(self.A.shape[0])

    def sample(self, rng: np.random.Generator, k: int) -> Array:
        return rng.standard_normal((self.A.shape[0], k))

    def report(self) -> Report:
        return Report("identity", 0, condition=condition(self, self.A))


def identity(problem: Problem, *, rank: int | None, rng: Any) -> Identity:
    """Return P = I, so that a preconditioner can be left out without another code path."""
    return Identity(problem.A)
