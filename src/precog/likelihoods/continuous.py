"""Likelihoods of real numbers around f: with normal noise, and with noise that has heavy tails."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from precog import checks
from precog.kernels.parameters import Bounds, parameter
from precog.kernels.statistics import Array
from precog.likelihoods import quadrature
from precog.likelihoods.base import Likelihood, known_at

LOG_2PI = float(np.log(2.0 * np.pi))
CURVATURES = ("observed", "expected")


class Gaussian(Likelihood):
    """p(y | f) = N(y; f, noise): Laplace's approximation is exact."""

    noise: float = parameter(default=0.1)
    noise_bounds: Bounds = (1e-6, 1e2)

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        return -0.5 * (y - f) ** 2 / p.noise - 0.5 * (np.log(p.noise) + LOG_2PI)

    def mean(self, f: Any, p: Any) -> Any:
        return f

    def variance(self, f: Any, p: Any) -> Any:
        return np.full(np.shape(f), p.noise)

    def latent(self, mean: float) -> float:
        return mean

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        return f + np.sqrt(p.noise) * rng.standard_normal(np.shape(f))

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        return mean, variance + p.noise

    def log_predictive(self, y: Array, mean: Array, variance: Array, p: Any) -> Array:
        total = variance + p.noise
        out: Array = -0.5 * ((y - mean) ** 2 / total + np.log(total) + LOG_2PI)
        return out


class StudentT(Likelihood):
    """p(y | f) of y = f + scale · t, t of Student's distribution with `dof` degrees of freedom: outliers count little.

    Its logarithm is not concave: an outlier, more than √dof scales from f, has negative curvature. curvature="observed"
    takes it as it is, exactly, at the price of a solve for every outlier; "expected" takes the mean of -l'' over y,
    (dof + 1) / ((dof + 3) scale²), in its place [Hartmann19], for data with many outliers.
    """

    scale: float = parameter(default=0.3)
    dof: float = parameter(default=4.0)
    curvature: str = "observed"
    scale_bounds: Bounds = (1e-3, 1e2)
    dof_bounds: Bounds = (1.0, 1e3)

    concave = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("curvature", self.curvature, CURVATURES)

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        u = (y - f) ** 2 / (p.dof * p.scale**2)
        constant = gammaln(0.5 * (p.dof + 1.0)) - gammaln(0.5 * p.dof) - 0.5 * np.log(np.pi * p.dof) - np.log(p.scale)
        return constant - 0.5 * (p.dof + 1.0) * np.log1p(u)

    def mean(self, f: Any, p: Any) -> Any:
        return f

    def variance(self, f: Any, p: Any) -> Any:
        return np.full(np.shape(f), p.scale**2 * p.dof / (p.dof - 2.0) if p.dof > 2.0 else np.inf)

    def latent(self, mean: float) -> float:
        return mean

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        return f + p.scale * rng.standard_t(p.dof, np.shape(f))

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        return mean, variance + self.variance(mean, p)

    def log_predictive(self, y: Array, mean: Array, variance: Array, p: Any) -> Array:
        width = p.scale * min(1.0, np.sqrt(p.dof)) / np.pi

        def derivatives(f: Array, rows: Any) -> tuple[Array, Array, Array, Array]:
            return self.derivatives(y[rows, None], f, known_at(p, rows))

        return quadrature.log_expectation(derivatives, mean, variance, concave=False, width=width)

    def stand_in(self, y: Array, f: Array, p: Any) -> tuple[Array, Array] | None:
        if self.curvature == "observed":
            return None
        return np.full(np.shape(f), (p.dof + 1.0) / ((p.dof + 3.0) * p.scale**2)), np.zeros(np.shape(f))

    def slopes(self, y: Array, f: Array, p: Any) -> Array:
        out = super().slopes(y, f, p)
        if self.curvature == "expected":
            w = (p.dof + 1.0) / ((p.dof + 3.0) * p.scale**2)
            by = {"scale": -2.0 * w, "dof": w * p.dof * (1.0 / (p.dof + 1.0) - 1.0 / (p.dof + 3.0))}
            out[:, 2] = -np.array([[by[name]] for name, free in self.elements() if free]).reshape(-1, 1)
        return out
