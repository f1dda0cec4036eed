"""Kernels of the scaled squared distance s = Σₖ (xₖ - zₖ)² / ℓₖ²."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from precog.kernels.additive import Additive
from precog.kernels.parameters import Value, parameter
from precog.kernels.statistics import SQUARED_DISTANCE, Array, Statistic

# Rows whose medians make the common centre.
CENTRED_ON = 1000


class Stationary(Additive):
    """A kernel that depends on x - z through the scaled squared distance s alone.

    A new one is its formula; a length scale, its derivatives and the compiled loops come with it:

        class Cauchy(Stationary):
            alpha: float = parameter(default=1.0)

            def formula(self, s, p):
                return 1 / (1 + s / p.alpha)

    `decreasing = True` says that the formula is positive, falls with s, and falls ever more slowly, as every one does
    that is positive semidefinite in any number of columns. Products may then leave out pairs of rows for which it
    vanishes.
    """

    statistic: ClassVar[Statistic] = SQUARED_DISTANCE
    decreasing: ClassVar[bool] = False

    def centred(self, X: Array, Z: Array) -> tuple[Array, Array]:
        X, Z = super().centred(X, Z)
        if not len(X) or not len(Z):
            return X, Z
        # Medians, so that an outlier does not move all others far from the origin; of some rows, which is enough.
        origin = np.median(X[:: max(len(X) // CENTRED_ON, 1)], axis=0)
        return X - origin, X - origin if Z is X else Z - origin


class RBF(Stationary):
    """k = exp(-s / 2)."""

    decreasing = True

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-0.5 * s)


class Matern12(Stationary):
    """k = exp(-r) with r = √s."""

    decreasing = True

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-np.sqrt(s))


class Matern32(Stationary):
    """k = (1 + r) exp(-r) with r = √(3 s)."""

    decreasing = True

    def formula(self, s: Any, p: Any) -> Any:
        r = np.sqrt(3.0 * s)
        return (1.0 + r) * np.exp(-r)


class Matern52(Stationary):
    """k = (1 + r + r²/3) exp(-r) with r = √(5 s)."""

    decreasing = True

    def formula(self, s: Any, p: Any) -> Any:
        r = np.sqrt(5.0 * s)
        return (1.0 + r + r * r / 3.0) * np.exp(-r)


class RationalQuadratic(Stationary):
    """k = (1 + s / (2 α))^(-α): a scale mixture of RBF kernels."""

    decreasing = True
    alpha: float = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-p.alpha * np.log1p(s / (2.0 * p.alpha)))


class Periodic(Stationary):
    """k = exp(-2 Σₖ sin²(π (xₖ - zₖ) / pₖ) / ℓₖ²).

    The inputs are wound round circles, u = (cos φ, sin φ) / ℓ with φ = 2π x / p, where the formula is the RBF kernel;
    so it is positive definite in any number of columns, which the sine of a Euclidean distance is not.
    """

    decreasing = True
    period: Value = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-0.5 * s)

    def map_parameters(self) -> tuple[str, ...]:
        return ("length_scale", "period")

    def check(self, name: str, X: Any) -> None:
        super().check(name, X)
        width = self.take(X[:1]).shape[1]
        if isinstance(self.period, tuple) and len(self.period) != width:
            raise ValueError(f"Periodic: {len(self.period)} periods for {width} columns of {name}; give one for each")

    def features(self, X: Array) -> Array:
        # Whole turns are taken off first: the angle of an input far from the origin keeps its digits.
        angle = 2.0 * np.pi * np.remainder(self.take(X) / np.asarray(self.period), 1.0)
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1) / np.asarray(self.length_scale)[..., None]
        return circle.reshape(len(X), -1)

    def tangents(self, X: Array) -> Array:
        phase = 2.0 * np.pi * self.take(X) / np.asarray(self.period)
        return (self._quarter_turn(self.features(X)) * -phase[..., None]).reshape(len(X), -1)

    def _quarter_turn(self, U: Array) -> Array:
        """Return ∂u/∂φ, (n, width / 2, 2)."""
        pairs = U.reshape(len(U), -1, 2)
        return np.stack([-pairs[..., 1], pairs[..., 0]], axis=-1)

    def map_gradient(self, scaling: Array, tangent: Array | None) -> dict[str, Array]:
        assert tangent is not None
        return super().map_gradient(scaling, None) | {"period": self._sum_groups(tangent, self.period)}

    def pull_back(self, Z: Array, G: Array) -> Array:
        slope = (self._quarter_turn(self.features(Z)) * G.reshape(len(Z), -1, 2)).sum(axis=-1)
        out = np.zeros(Z.shape)
        out[:, slice(None) if self.columns is None else list(self.columns)] = (
            slope * 2.0 * np.pi / np.asarray(self.period)
        )
        return out
