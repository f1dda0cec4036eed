"""The likelihood of several classes: p(y = c | f) = exp f_c / Σ exp f, with a latent value for every class.

Values of all classes of a row are next to each other in vectors of length n · C. With q = √π,

    W = D - ππ' = S S',   S = D^½ (I - q q'),   D = diag(π)

since I - q q' is a projection. S'ΣS = I - B⁻¹ for B = I + S'K S, and as S'1 = 0 its diagonal h is all that
tr(Σ ∂W/∂f_c) = h_c - π_c Σ h needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special

from precog.kernels.statistics import Array, Index
from precog.likelihoods.local import Local
from precog.likelihoods.observations import Observations


@dataclass(frozen=True, eq=False)
class Projected:
    """S = D^½ (I - q q') for the probabilities of every row, (n, C), and weights (n,)."""

    P: Array
    weights: Array | None

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        q = np.sqrt(self.P)
        return q, q if self.weights is None else q * np.sqrt(self.weights)[:, None]

    @property
    def scale(self) -> Array:
        return self._parts[1].ravel()

    @property
    def copies(self) -> int:
        return int(self.P.shape[1])

    def columns(self, which: Index) -> Array:
        row, own = np.divmod(which, self.copies)
        q, scale = self._parts
        return scale[row] * (np.eye(self.copies)[own] - q[row] * q[row, own][:, None])

    def project(self, V: Array) -> Array:
        """Return (I - q q') V."""
        q, blocks = self._parts[0], self._blocks(V)
        out = blocks - q[:, :, None] * np.einsum("nc,ncp->np", q, blocks)[:, None, :]
        return out.reshape(V.shape)

    def apply(self, V: Array) -> Array:
        return self.project(V) * self.scale[:, None]

    def transposed(self, V: Array) -> Array:
        return self.project(V * self.scale[:, None])

    def pull(self, h: Array, slope: Array) -> Array:
        blocks = self._blocks(h)
        out: Array = -0.5 * (blocks - self.P[:, :, None] * blocks.sum(axis=1, keepdims=True))
        return out.reshape(h.shape)

    def _blocks(self, V: Array) -> Array:
        return V.reshape(*self.P.shape, -1)


@dataclass(frozen=True)
class Softmax:
    """p(y = c | f) = exp f_c / Σ exp f; y holds numbers of classes from 0 on. It has no hyperparameters."""

    classes: int

    concave = True
    names: tuple[str, ...] = ()

    @property
    def theta(self) -> Array:
        return np.zeros(0)

    @property
    def bounds(self) -> Array:
        return np.zeros((0, 2))

    def with_theta(self, theta: Array) -> Softmax:
        return self

    def local(self, observed: Observations, g: Array) -> Local:
        """Return log p and its derivatives at f = g, (n · C,)."""
        F = g.reshape(-1, self.classes)
        logs = F - scipy.special.logsumexp(F, axis=1, keepdims=True)
        P, rows = np.exp(logs), np.arange(len(F))
        y = observed.y.astype(np.intp)
        own, slope = logs[rows, y], -P
        slope[rows, y] += 1.0
        weights = observed.weights
        if weights is not None:
            own, slope = weights * own, weights[:, None] * slope
        root = Projected(P, weights)
        return Local(float(own.sum()), slope.ravel(), root, None, np.zeros(g.shape), root)

    def local_slopes(self, observed: Observations, g: Array) -> Array:
        return np.zeros((0, 3, len(g)))
