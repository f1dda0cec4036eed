"""Likelihoods as values: a formula for log p(y | f), hyperparameters by their logarithms, derivatives from tracing.

A likelihood writes `log_density(y, f, p)`, NumPy on an observation y and the latent value f behind it. Called with
arrays it is the log density; called with expressions it is differentiated three times in f, and in its hyperparameters.
Inference asks nothing else of it. What else there is (moments, samples, closed forms that keep digits in the tails)
likelihoods may add.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np

from precog.kernels.parametrised import Parametrised
from precog.kernels.statistics import Array, Index
from precog.likelihoods import quadrature, traced
from precog.likelihoods.local import Diagonal, Local
from precog.likelihoods.observations import Observations

# Where the log density is not concave, curvature is taken to be at least this share of √|l' l'''|, which has its units.
LEAST_CURVATURE = 0.1


class Likelihood(Parametrised, ABC):
    """log p(y | f) of observations that depend on one latent value each, printed as the expression that makes it.

    support: what y may be, a name in `observations.SUPPORTS`. known: numbers that rows may bring along, such as an
    exposure, with the value that stands for none; p holds them beside the hyperparameters. concave: whether log p is
    concave in f for every y.
    """

    support: ClassVar[str] = "real"
    known: ClassVar[Mapping[str, float]] = {}
    concave: ClassVar[bool] = True

    @abstractmethod
    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        """Return log p(y | f), in plain NumPy or functions of `scipy.special`."""

    def mean(self, f: Any, p: Any) -> Any:
        """Return E[y | f]."""
        raise NotImplementedError(f"{type(self).__name__} does not say what E[y | f] is; define mean(self, f, p)")

    def variance(self, f: Any, p: Any) -> Any:
        """Return Var[y | f]."""
        raise NotImplementedError(f"{type(self).__name__} does not say what Var[y | f] is; define variance(self, f, p)")

    def sample(self, f: Array, p: Any, rng: np.random.Generator) -> Array:
        """Return a draw of y for every f."""
        raise NotImplementedError(f"{type(self).__name__} does not say how y is drawn; define sample(self, f, p, rng)")

    def latent(self, mean: float) -> float:
        """Return the f at which E[y | f] is this mean, where prior means of f may start."""
        return 0.0

    def derivatives(self, y: Array, f: Array, p: Any) -> tuple[Array, Array, Array, Array]:
        """Return log p and its first three derivatives in f."""
        return traced.derivatives(self, y, f, p)

    def stand_in(self, y: Array, f: Array, p: Any) -> tuple[Array, Array] | None:
        """Return what stands for -l'' in the approximation, and its derivative in f; None takes -l'' itself."""
        return None

    def slopes(self, y: Array, f: Array, p: Any) -> Array:
        """Return ∂(l, l', -W)/∂log φ for every free hyperparameter φ, (q, 3, n), W the curvature."""
        return traced.slopes(self, y, f, p)

    def predictive(self, mean: Array, variance: Array, p: Any) -> tuple[Array, Array]:
        """Return mean and variance of y for f ~ N(mean, variance)."""
        return quadrature.moments(
            lambda f, rows: self.mean(f, known_at(p, rows)),
            lambda f, rows: self.variance(f, known_at(p, rows)),
            mean,
            variance,
        )

    def log_predictive(self, y: Array, mean: Array, variance: Array, p: Any) -> Array:
        """Return log E p(y | f) for f ~ N(mean, variance)."""

        def derivatives(f: Array, rows: Index) -> tuple[Array, Array, Array, Array]:
            return self.derivatives(y[rows, None], f, known_at(p, rows))

        with np.errstate(all="ignore"):
            return quadrature.log_expectation(derivatives, mean, variance, concave=self.concave)

    def values(self) -> SimpleNamespace:
        """Return what formulas find in p, without what rows bring along."""
        return SimpleNamespace(**self.known, **vars(super().values()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of `theta`, such as `StudentT.scale`."""
        return tuple(f"{type(self).__name__}.{name}" for name, free in self.elements() if free)

    @property
    def theta(self) -> Array:
        """The logarithms of the hyperparameters that are not fixed."""
        return np.log(np.array(self.free_values(), dtype=float))

    @property
    def bounds(self) -> Array:
        """The bounds of `theta`, (q, 2), in logarithms."""
        return np.log(np.array([b for b in self.element_bounds() if b != "fixed"], dtype=float).reshape(-1, 2))

    def with_theta(self, theta: Any) -> Self:
        """Return this likelihood with other values of the hyperparameters that are not fixed."""
        return self.with_free_values(iter(np.exp(np.asarray(theta, dtype=float)).tolist()))

    def p(self, observed: Observations) -> SimpleNamespace:
        """Return what formulas find in p for these observations."""
        return SimpleNamespace(**{**vars(self.values()), **observed.known})

    def local(self, observed: Observations, g: Array) -> Local:
        """Return log p at f = offset + g and its derivatives, observations weighted."""
        observed = observed.flat
        y, p, f = observed.y, self.p(observed), observed.offset + g
        with np.errstate(all="ignore"):
            l0, l1, l2, l3 = self.derivatives(y, f, p)
            taken = self.stand_in(y, f, p)
            # Below zero where log p is concave is rounding.
            safe = (
                np.maximum(-l2, 0.0) if self.concave else np.maximum(np.abs(l2), LEAST_CURVATURE * _geometric(l1, l3))
            )
        w, bend = (-l2, -l3) if taken is None else taken
        scaled = (l0, l1, w, bend, safe)
        if observed.weights is not None:
            scaled = tuple(observed.weights * a for a in scaled)  # type: ignore[assignment]
        l0, l1, w, bend, safe = scaled
        steps = Diagonal(np.sqrt(safe))
        if taken is not None:
            return Local(float(l0.sum()), l1, Diagonal(np.sqrt(w)), None, bend, steps)
        excess = None if self.concave else safe - w
        return Local(float(l0.sum()), l1, steps, excess, bend, steps)

    def local_slopes(self, observed: Observations, g: Array) -> Array:
        """Return `slopes` at f = offset + g, observations weighted."""
        observed = observed.flat
        with np.errstate(all="ignore"):
            out = self.slopes(observed.y, observed.offset + g, self.p(observed))
        return out if observed.weights is None else out * observed.weights

    def __repr__(self) -> str:
        return self.text(repr)

    def __str__(self) -> str:
        return self.text(lambda v: f"{v:.4g}")


def _geometric(a: Array, b: Array) -> Array:
    return np.sqrt(np.abs(a * b))


def known_at(p: Any, rows: Index) -> SimpleNamespace:
    """Return p for some rows, what they bring along as a column, so that it meets a table with a row for each."""
    return SimpleNamespace(**{name: v[rows, None] if np.ndim(v) else v for name, v in vars(p).items()})
