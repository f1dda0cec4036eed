"""What is learnt and what it is learnt from, where observations are not the latent function plus normal noise.

    y_i ~ p(y | f_i),   f = m + g,   g ~ GP(0, k)

Several latent values may belong to a row, one for each class: vectors then have length N = n · C, the values of a row
next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from precog.kernels import Kernel
from precog.kernels.statistics import Array
from precog.likelihoods import Observations
from precog.operators import Gram


@dataclass(frozen=True)
class LatentModel:
    """A kernel and a likelihood; `theta` holds the logarithms of all that is free, the likelihood's last."""

    kernel: Kernel
    likelihood: Any

    @property
    def theta(self) -> Array:
        return np.append(self.kernel.theta, self.likelihood.theta)

    @property
    def names(self) -> tuple[str, ...]:
        return self.kernel.names + tuple(self.likelihood.names)

    @property
    def bounds(self) -> Array:
        return np.concatenate([self.kernel.bounds, self.likelihood.bounds])

    def with_theta(self, theta: Any) -> Self:
        theta, q = np.asarray(theta, dtype=np.float64), len(self.kernel.theta)
        return replace(self, kernel=self.kernel.with_theta(theta[:q]), likelihood=self.likelihood.with_theta(theta[q:]))

    def clipped(self, theta: Any) -> Array:
        """Return theta moved into the bounds."""
        low, high = self.bounds.T
        return np.clip(theta, low, high)


@dataclass(frozen=True, eq=False)
class Observed:
    """X (n, d) with what was observed at its rows; copies: latent values of a row."""

    X: Any
    seen: Observations
    copies: int = 1

    @property
    def n(self) -> int:
        return len(self.seen.y)

    def take(self, rows: Any) -> Observed:
        """Return some of the rows."""
        X = self.X[rows] if hasattr(self.X, "shape") else [self.X[int(i)] for i in rows]
        return Observed(X, self.seen.take(rows), self.copies)

    def gram(self, model: LatentModel, dtype: str = "float64", threads: int | None = None) -> Gram:
        """Return K of the rows."""
        return Gram(model.kernel, self.X, dtype=dtype, threads=threads)
