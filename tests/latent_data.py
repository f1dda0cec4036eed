"""Data for tests of Laplace's approximation: one smooth function, seen through every likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

import problems
from laws.likelihoods import Weibull
from precog import RBF, Bernoulli, Binomial, Gaussian, NegativeBinomial, Poisson, StudentT
from precog.inference.latent import LatentModel, Observed
from precog.likelihoods import Observations, Softmax

Array = np.ndarray[Any, Any]

KERNEL = 1.3 * RBF([0.5, 1.0, 2.0])
CONCAVE: list[Any] = [
    Bernoulli(),
    Bernoulli("logit"),
    Binomial(),
    Poisson(),
    NegativeBinomial(),
    Gaussian(noise=0.1),
    Weibull(),
]
HEAVY: list[Any] = [StudentT(), StudentT(scale=0.1, dof=2.0), StudentT(curvature="expected")]
CLASSES = 3


def observed(likelihood: Any, n: int, *, weights: Array | None = None, seed: int = 1) -> Observed:
    """Return n rows and what the likelihood saw of them."""
    X = problems.normal(n, 3, seed=seed)
    rng = np.random.default_rng([seed, n])
    f = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
    if isinstance(likelihood, Softmax):
        y = (np.digitize(f + 0.5 * rng.standard_normal(n), [-1.0, 1.0]) % likelihood.classes).astype(float)
        return Observed(X, Observations(y, {}, weights), likelihood.classes)
    known = {name: rng.integers(1, 6, n).astype(float) for name in likelihood.known}
    y = {
        "signs": np.sign(f + 0.5 * rng.standard_normal(n)),
        "trials": rng.binomial(known.get("trials", np.ones(n)).astype(int), 1 / (1 + np.exp(-f))).astype(float),
        "counts": rng.poisson(np.exp(f)).astype(float),
        "real": f + 0.1 * rng.standard_normal(n),
        "positive": np.exp(f) * rng.weibull(1.5, n),
    }[likelihood.support]
    if likelihood in HEAVY:
        y[::9] += 5.0 * rng.standard_normal(len(y[::9]))
    return Observed(X, Observations(y, known, weights, 0.2))


def model(likelihood: Any, kernel: Any = KERNEL) -> LatentModel:
    return LatentModel(kernel, likelihood)
