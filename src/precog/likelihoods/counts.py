"""Likelihoods of counts, with the logarithm of the rate as the latent value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from precog.kernels.parameters import Bounds, parameter
from precog.kernels.statistics import Array
from precog.likelihoods.base import Likelihood

# Means of exp(f) beyond are infinite for all that counts are good for.
LARGEST_LOG = 700.0
# Zeros alone have no logarithm of a mean.
LEAST_MEAN = 1e-3


def _exp(f: Any) -> Any:
    return np.exp(np.minimum(f, LARGEST_LOG))


def _rate(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and variance of exp(f) for f ~ N(mean, variance)."""
    centre = _exp(mean + 0.5 * variance)
    with np.errstate(over="ignore"):
        return centre, np.minimum(centre**2 * np.expm1(np.minimum(variance, LARGEST_LOG)), np.finfo(float).max)


class Poisson(Likelihood):
    """p(y | f) = μ^y exp(-μ) / y! with μ = exposure · exp(f); rows bring their `exposure`, one by default."""

    support = "counts"
    known: ClassVar[Mapping[str, float]] = {"exposure": 1.0}

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        return y * (f + np.log(p.exposure)) - p.exposure * np.exp(f) - gammaln(y + 1.0)

    def mean(self, f: Any, p: Any) -> Any:
        return p.exposure * _exp(f)

    def variance(self, f: Any, p: Any) -> Any:
        return p.exposure * _exp(f)

    def latent(self, mean: float) -> float:
        return float(np.log(max(mean, LEAST_MEAN)))

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        return rng.poisson(self.mean(f, p)).astype(np.float64)

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        centre, spread = _rate(mean, variance)
        return p.exposure * centre, p.exposure * centre + p.exposure**2 * spread


class NegativeBinomial(Likelihood):
    """Counts with mean μ = exposure · exp(f) and variance μ + α μ², α the dispersion; 0 would be Poisson."""

    dispersion: float = parameter(default=0.5)
    dispersion_bounds: Bounds = (1e-4, 1e3)

    support = "counts"
    known: ClassVar[Mapping[str, float]] = {"exposure": 1.0}

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        r = 1.0 / p.dispersion
        z = f + np.log(p.exposure) + np.log(p.dispersion)
        return gammaln(y + r) - gammaln(r) - gammaln(y + 1.0) + y * z - (y + r) * np.logaddexp(0.0, z)

    def mean(self, f: Any, p: Any) -> Any:
        return p.exposure * _exp(f)

    def variance(self, f: Any, p: Any) -> Any:
        rate = self.mean(f, p)
        return rate + p.dispersion * rate**2

    def latent(self, mean: float) -> float:
        return float(np.log(max(mean, LEAST_MEAN)))

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        r = 1.0 / p.dispersion
        return rng.negative_binomial(r, r / (r + self.mean(f, p))).astype(np.float64)

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        centre, spread = _rate(mean, variance)
        centre, spread = p.exposure * centre, p.exposure**2 * spread
        return centre, centre + p.dispersion * (spread + centre**2) + spread
