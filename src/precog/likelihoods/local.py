"""What Newton's method and Laplace's approximation see of log p(y | f) at one f.

    W = -∂² log p / ∂f∂f' = S S' - diag(excess)

S acts on every row of K alone: a number for each latent value, or for several classes a block of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from precog.kernels.statistics import Array


class Root(Protocol):
    """S with S S' = W (+ excess), acting on columns of latent values (N, p)."""

    @property
    def scale(self) -> Array:
        """The diagonal matrix that stands for S in preconditioners, (N,)."""
        ...

    def apply(self, V: Array) -> Array:
        """Return S V."""
        ...

    def transposed(self, V: Array) -> Array:
        """Return S'V."""
        ...

    def pull(self, h: Array, slope: Array) -> Array:
        """Return -½ tr(Σ ∂W/∂fᵢ) for every i, from h = diag(S'ΣS), (N, p)."""
        ...


@dataclass(frozen=True, eq=False)
class Diagonal:
    """S = diag(scale): observations that depend on one latent value each."""

    scale: Array

    def apply(self, V: Array) -> Array:
        return V * self.scale[:, None]

    transposed = apply

    def pull(self, h: Array, slope: Array) -> Array:
        # Where there is no curvature left, in the far tails, its slope is gone too.
        w = self.scale**2
        per = np.divide(slope, w, out=np.zeros_like(w), where=w > 0)
        return -0.5 * h * per[:, None]


@dataclass(frozen=True, eq=False)
class Local:
    """log p in all, its first derivative, S, the excess of S S' over W, ∂W/∂f, and the root that Newton's steps take.

    steps: S itself where log p is concave; else of a curvature that is safe to step by.
    """

    value: float
    slope: Array
    root: Root
    excess: Array | None
    bend: Array
    steps: Root
