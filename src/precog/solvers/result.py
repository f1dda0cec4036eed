"""What a solver hands back: the solution, how good it is, and what to do if it is not good enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
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
    NOT_FINITE = "a product returned NaN or infinity: check the scale of the inputs and of the right-hand sides"
    STAGNATED = "rounding keeps the residual from falling: use dtype float64, add noise to the diagonal, or loosen rtol"


class NotConverged(ArithmeticError):
    """A solve ended before its tolerance was reached."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to A X = B.

    x: (n, p) or (n,), as B was. status: how it ended. iterations: steps, each one product. residuals: the true relative
    residuals |b - A x| / |b| of every column, from a product at the end. products: columns multiplied in all.
    """

    x: Array
    status: Status
    iterations: int
    residuals: Array
    products: int
    column_iterations: NDArray[np.int64]

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
