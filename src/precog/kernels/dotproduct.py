"""Kernels of the scaled dot product s = Σₖ xₖ zₖ / ℓₖ², of the sum of minima, and of nothing."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from precog.kernels.additive import Additive
from precog.kernels.base import Leaf
from precog.kernels.parameters import Bounds, parameter
from precog.kernels.statistics import DOT, MINIMUM, Statistic


class DotProduct(Additive):
    """A kernel that depends on x and z through their scaled dot product s alone.

    Its length scales are fixed unless bounds are given, because a variance in front usually plays their part.
    """

    statistic: ClassVar[Statistic] = DOT
    length_scale_bounds: Bounds = dataclasses.field(default="fixed", kw_only=True)


class Linear(DotProduct):
    """k = Σₖ xₖ zₖ / ℓₖ². An offset is a constant: `Linear() + 0.5`."""

    def formula(self, s: Any, p: Any) -> Any:
        return s


class Polynomial(DotProduct):
    """k = (s + offset)^degree, for a whole degree."""

    offset: float = parameter(default=1.0)
    degree: int = dataclasses.field(default=2, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.degree, int | np.integer) or isinstance(self.degree, bool) or self.degree < 1:
            raise ValueError(f"Polynomial: degree must be a whole number from 1 on, got {self.degree!r}")
        object.__setattr__(self, "degree", int(self.degree))

    def formula(self, s: Any, p: Any) -> Any:
        return (s + p.offset) ** self.degree


class HistogramIntersection(Additive):
    """k = Σₖ min(xₖ, zₖ) / ℓₖ for inputs that are counts or shares, none negative."""

    statistic: ClassVar[Statistic] = MINIMUM
    length_scale_bounds: Bounds = dataclasses.field(default="fixed", kw_only=True)

    def formula(self, s: Any, p: Any) -> Any:
        return s

    def check(self, name: str, X: Any) -> None:
        super().check(name, X)
        U = self.take(X)
        if U.size and U.min() < 0:
            row, column = np.argwhere(U < 0)[0]
            raise ValueError(
                f"HistogramIntersection needs inputs that are not negative; row {row} of {name} has "
                f"{U[row, column]:g}; shift or clip the columns, or name the histogram's columns with columns="
            )


class Constant(Leaf):
    """k = variance for every pair. Written as a number in expressions: `1.7 * RBF()`."""

    variance: float = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return p.variance
