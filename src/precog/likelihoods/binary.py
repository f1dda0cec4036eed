"""Likelihoods of two outcomes: a label, or the number of successes in some trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.special

from precog import checks
from precog.kernels.statistics import Array
from precog.likelihoods import links, quadrature
from precog.likelihoods.base import Likelihood


def _log(link: str, z: Any) -> Any:
    return scipy.special.log_ndtr(z) if link == "probit" else scipy.special.log_expit(z)


def _inverse(link: str, probability: float) -> float:
    """Return f with π(f) = probability, kept off 0 and 1."""
    p = float(np.clip(probability, 1e-6, 1.0 - 1e-6))
    return float(scipy.special.ndtri(p) if link == "probit" else scipy.special.logit(p))


class Bernoulli(Likelihood):
    """p(y | f) = π(y f) for y = ±1, π the probit Φ or the logit 1 / (1 + exp(-f))."""

    link: str = "probit"

    support = "signs"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("link", self.link, links.LINKS)

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        return _log(self.link, y * f)

    def derivatives(self, y: Array, f: Array, p: Any) -> tuple[Array, Array, Array, Array]:
        l0, l1, l2, l3 = links.log_probability(self.link, y * f)
        return l0, y * l1, l2, y * l3

    def mean(self, f: Any, p: Any) -> Any:
        return 2.0 * links.probability(self.link, f) - 1.0

    def variance(self, f: Any, p: Any) -> Any:
        return 4.0 * links.probability(self.link, f) * links.probability(self.link, -f)

    def latent(self, mean: float) -> float:
        return _inverse(self.link, 0.5 * (1.0 + mean))

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        drawn: Array = np.where(rng.random(np.shape(f)) < links.probability(self.link, f), 1.0, -1.0)
        return drawn

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        up, down = (links.averaged(self.link, s * mean, variance) for s in (1.0, -1.0))
        return up - down, 4.0 * up * down


class Binomial(Likelihood):
    """p(y | f) = C(trials, y) π(f)^y π(-f)^(trials - y); rows bring their `trials`, one by default."""

    link: str = "logit"

    support = "trials"
    known: ClassVar[Mapping[str, float]] = {"trials": 1.0}

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("link", self.link, links.LINKS)

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        return _choose(p.trials, y) + y * _log(self.link, f) + (p.trials - y) * _log(self.link, -f)

    def derivatives(self, y: Array, f: Array, p: Any) -> tuple[Array, Array, Array, Array]:
        up, down = links.log_probability(self.link, f), links.log_probability(self.link, -f)
        signs = (1.0, -1.0, 1.0, -1.0)
        l0, l1, l2, l3 = (y * u + s * (p.trials - y) * d for u, s, d in zip(up, signs, down, strict=True))
        return l0 + _choose(p.trials, y), l1, l2, l3

    def mean(self, f: Any, p: Any) -> Any:
        return p.trials * links.probability(self.link, f)

    def variance(self, f: Any, p: Any) -> Any:
        return p.trials * links.probability(self.link, f) * links.probability(self.link, -f)

    def latent(self, mean: float) -> float:
        return _inverse(self.link, mean)

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        trials = np.broadcast_to(p.trials, np.shape(f)).astype(np.int64)
        return rng.binomial(trials, links.probability(self.link, f)).astype(np.float64)

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        up = links.averaged(self.link, mean, variance)
        square = quadrature.expectation(
            lambda f, rows: (links.probability(self.link, f) - up[rows, None]) ** 2, mean, variance
        )
        # Trials share one f: what they vary together is counted as often as there are pairs of them.
        return p.trials * up, p.trials * (up * (1.0 - up) + (p.trials - 1.0) * square)


def _choose(n: Any, k: Any) -> Any:
    """Return log C(n, k)."""
    ln = scipy.special.gammaln
    return ln(n + 1.0) - ln(k + 1.0) - ln(n - k + 1.0)
