"""What a solver hands back: the solution, how good it is, and what to do if it is not good enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from precog.kernels.statistics import Array


class Status(Enum):
    """How a solve ended; the value is the remedy in words."""

    CONVERGED = "every column reached its tolerance"
    MAX_ITER = "raise max_iter, loosen rtol, add noise to the diagonal, or use a preconditioner"
    INDEFINITE = (
        "the operator is not positive definite as computed: add noise to the diagonal, use dtype float64, or check "
        "that the kernel is positive definite on these inputs"
    )
    INDEFINITE_PRECONDITIONER = (
        "the preconditioner is not positive definite as computed: store its factors in float64, lower its rank, or "
        "use FlexiblePCG if it solves by iteration"
    )
    NOT_FINITE = "a product returned NaN or infinity: check the scale of the inputs and of the right-hand sides"
    STAGNATED = "rounding keeps the residual from falling: use dtype float64, add noise to the diagonal, or loosen rtol"


class NotConverged(ArithmeticError):
    """A solve ended before its tolerance was reached."""


@dataclass(frozen=True, eq=False)
class Lanczos:
    """The coefficients of conjugate gradients, which hold the Lanczos matrix T of P⁻¹A for every column.

    alpha, beta: (steps, p), NaN where a column had left. start: r'P⁻¹r of each column before the first step. They
    belong to the first residual: to the right-hand side itself only in columns that started from zero (`cold`).
    """

    alpha: Array
    beta: Array
    start: Array
    cold: NDArray[np.bool_]

    def tridiagonal(self, column: int) -> tuple[Array, Array]:
        """Return the diagonal and the off-diagonal of T for one column."""
        steps = int(np.isfinite(self.alpha[:, column]).sum())
        alpha, beta = self.alpha[:steps, column], self.beta[: max(steps - 1, 0), column]
        diagonal = 1.0 / alpha
        diagonal[1:] += beta / alpha[:-1]
        return diagonal, np.sqrt(beta) / alpha[:-1]

    def ritz(self, column: int) -> Array:
        """Return the eigenvalues of T, in ascending order."""
        return self.quadrature(column)[0]

    def quadrature(self, column: int) -> tuple[Array, Array]:
        """Return nodes and weights with v' f(P^-½ A P^-½) v ≈ start · Σ weights · f(nodes) for the column's start v."""
        diagonal, beside = self.tridiagonal(column)
        if not diagonal.size:
            return np.zeros(0), np.zeros(0)
        # stemr, the default, does not converge on every T; stev of old versions takes no T of one row.
        driver: Any = "stev" if len(beside) else "auto"
        nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside, lapack_driver=driver)
        return nodes, vectors[0] ** 2


NOTHING = Lanczos(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=bool))


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to A X = B.

    x: (n, p) or (n,), as B was. status: how it ended. iterations: steps, each one product. residuals: the true
    relative residuals |b - A x| / |b| of every column, from a product in float64 at the end. products: columns
    multiplied in all. column_iterations: steps of each column. lanczos: the coefficients of conjugate gradients, where
    the solver has them. solver: who solved it and why, in words. precision: of the products inside.
    """

    x: Array
    status: Status
    iterations: int
    residuals: Array
    products: int
    column_iterations: NDArray[np.int64]
    lanczos: Lanczos = NOTHING
    solver: str = ""
    precision: str = "float64"

    @property
    def ok(self) -> bool:
        return self.status is Status.CONVERGED

    def __bool__(self) -> Any:
        raise TypeError("ask for solution.ok")

    def describe(self) -> str:
        """Return the outcome and its remedy in one sentence."""
        worst = float(self.residuals.max(initial=0.0))
        outcome = self.status.name.lower().replace("_", " ")
        return (
            f"{outcome} after {self.iterations} iterations, largest relative residual {worst:.1e}: {self.status.value}"
        )

    def raise_if_failed(self) -> Solution:
        """Return self, or raise `NotConverged` with the remedy."""
        if not self.ok:
            raise NotConverged(self.describe())
        return self
