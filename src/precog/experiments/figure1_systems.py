"""The systems of Figure 1: (K + σ² I) z = y for each data set and cell.

Where the length scale is long, nearly all entries of K are near one, and products with directions that conjugate
gradients have made orthogonal to the vector of ones lose their digits to cancellation. So

    K V = (K - 11') V + 1 (1'V)

with the entries exp(-s/2) - 1 in the loop, and the sums 1'V in extended precision where the machine has it. On the
concrete data at ℓ = 100, σ² = 1e-6 plain products take 132 to 153 iterations, depending on the order of the rows, these
106 to 116, and products summed in extended precision 106; published are 112.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog import RBF, Gram, Stationary
from precog.datasets import load
from precog.experiments.figure1_rows import Cell
from precog.kernels.statistics import Array
from precog.operators import Noisy, Operator
from precog.operators.base import right_hand_side
from precog.operators.schedule import Progress

# The published code adds it to every noise.
JITTER = 1e-9


class BelowOne(Stationary):
    """k = exp(-s / 2) - 1: what the RBF kernel is below one."""

    def formula(self, s: Any, p: Any) -> Any:
        return np.expm1(-0.5 * s)


@dataclass(frozen=True, eq=False)
class FromOne(Operator):
    """A = K + σ² I by its distance from the matrix of ones; `below` is K - 11'."""

    A: Noisy
    below: Operator

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.A.dtype

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        product = self.below.matmat(V, callback=callback)
        product += self.A.noise * V
        product += V.sum(axis=0, dtype=np.longdouble).astype(np.float64)
        return product

    def diag(self) -> Array:
        return self.A.diag()

    def block(self, rows: Any, columns: Any) -> Array:
        return self.A.block(rows, columns)

    def __repr__(self) -> str:
        return repr(self.A)


@dataclass(frozen=True)
class System:
    """A z = y: A for the preconditioners, which look at its parts, and `products` for the solvers, the same matrix."""

    A: Noisy
    products: Operator
    y: Array

    @classmethod
    def of(cls, X: Array, y: Array, cell: Cell) -> System:
        length_scale, noise = 10.0**cell.log10_length_scale, 10.0**cell.log10_noise + JITTER
        A = Noisy(Gram(RBF(length_scale), X), noise)
        # Rows of variance one are at a squared distance of 2d from each other, on average.
        near_one = math.exp(-X.shape[1] / length_scale**2) > 0.5
        return cls(A, FromOne(A, Gram(BelowOne(length_scale), X)) if near_one else A, y)


def standardized(dataset: str) -> tuple[Array, Array]:
    """Return inputs and targets of mean 0 and variance 1."""
    data = load(dataset)
    return (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), (data.y - data.y.mean()) / data.y.std()
