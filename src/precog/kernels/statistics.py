"""Pair statistics: the one number per pair of rows that a kernel formula looks at.

Each is a sum over features, s(u, w) = Σₖ t(uₖ, wₖ), of a term that is homogeneous: t(c u, c w) = cʰ t(u, w). The sum is
what the compiled loops accumulate in registers; homogeneity makes the derivative in a length scale the statistic's own
term again: ∂t / ∂ log ℓ = -h t for features x / ℓ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Index = NDArray[np.signedinteger[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Statistic:
    """s(u, w) = Σₖ term(uₖ, wₖ), with `term` in plain NumPy and homogeneous of the given degree.

    `dense` is a faster way to all pairs where one is known; `nonnegative` says that s never falls below zero, so that a
    formula may take its root.
    """

    name: str
    term: Callable[[Any, Any], Any]
    degree: float
    nonnegative: bool = False
    dense: Callable[[Array, Array], Array] | None = None

    def pairs(self, U: Array, W: Array) -> Array:
        """Return s for all pairs of rows: (n, k) and (m, k) give (n, m)."""
        if self.dense is not None and U.shape[1]:
            return self.dense(U, W)
        total = np.zeros((len(U), len(W)), dtype=np.result_type(U, W))
        for k in range(U.shape[1]):
            total += self.term(U[:, k, None], W[None, :, k])
        return total

    def diag(self, U: Array) -> Array:
        """Return s(u, u) for every row."""
        total: Array = np.sum(self.term(U, U), axis=1)
        return total


def _squared_distances(U: Array, W: Array) -> Array:
    # Differences, not |u|² + |w|² - 2 u·w: the reference keeps its digits for close points far from the origin.
    from scipy.spatial.distance import cdist

    distances: Array = cdist(U, W, "sqeuclidean")
    return distances


SQUARED_DISTANCE = Statistic(
    "squared_distance", lambda u, w: (u - w) ** 2, degree=2.0, nonnegative=True, dense=_squared_distances
)
DOT = Statistic("dot", lambda u, w: u * w, degree=2.0, dense=lambda U, W: U @ W.T)
MINIMUM = Statistic("minimum", np.minimum, degree=1.0)
