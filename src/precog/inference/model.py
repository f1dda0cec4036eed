"""What is learnt, and what it is learnt from: a kernel with noise as one vector of hyperparameters, and the targets.

    y_i = h(x_i)'β + f(x_i) + ε_i,   f ~ GP(0, k),   ε_i ~ N(0, (σ² + known_i) / w_i)

h is a basis of the mean: nothing, a constant, or a constant and the inputs; β has a flat prior and is taken at its
most likely value. A weight w stands for w rows with the same inputs and the same target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from precog.kernels import Kernel
from precog.kernels.statistics import Array, Index
from precog.operators import Gram, Noisy

MEANS = ("zero", "constant", "linear")


@dataclass(frozen=True)
class Model:
    """A kernel and σ²; `theta` holds the logarithms of all that is free, σ² last. bounds=None keeps σ² as it is."""

    kernel: Kernel
    noise: float
    noise_bounds: tuple[float, float] | None = None

    @property
    def theta(self) -> Array:
        own = [] if self.noise_bounds is None else [np.log(self.noise)]
        return np.append(self.kernel.theta, own)

    @property
    def names(self) -> tuple[str, ...]:
        return self.kernel.names + (() if self.noise_bounds is None else ("noise",))

    @property
    def bounds(self) -> Array:
        own = np.log(np.array([] if self.noise_bounds is None else [self.noise_bounds]).reshape(-1, 2))
        return np.concatenate([self.kernel.bounds, own])

    def with_theta(self, theta: Any) -> Self:
        theta = np.asarray(theta, dtype=np.float64)
        if self.noise_bounds is None:
            return replace(self, kernel=self.kernel.with_theta(theta))
        return replace(self, kernel=self.kernel.with_theta(theta[:-1]), noise=float(np.exp(theta[-1])))

    def clipped(self, theta: Any) -> Array:
        """Return theta moved into the bounds."""
        low, high = self.bounds.T
        return np.clip(theta, low, high)


@dataclass(frozen=True, eq=False)
class Targets:
    """X (n, d), Y (n, p), the mean's basis H (n, b), and for each row its weight and the known part of its noise.

    scatter: Σ w (y - ȳ)² over rows that were merged into one.
    """

    X: Any
    Y: Array
    H: Array
    weights: Array | None = None
    known: Array | None = None
    scatter: float = 0.0

    @property
    def n(self) -> int:
        return len(self.Y)

    def take(self, rows: Any) -> Targets:
        """Return some of the rows, with their share of the scatter."""
        X = self.X[rows] if hasattr(self.X, "shape") else [self.X[int(i)] for i in rows]
        weights, known = (None if v is None else v[rows] for v in (self.weights, self.known))
        Y = self.Y[rows]
        return Targets(X, Y, self.H[rows], weights, known, self.scatter * len(Y) / self.n)

    def noise(self, model: Model) -> Any:
        """Return the diagonal of D, or one number where it is the same for all rows."""
        D: Any = model.noise if self.known is None else model.noise + self.known
        return D if self.weights is None else D / self.weights

    def noise_slope(self, model: Model) -> Array:
        """Return ∂D/∂log σ², (n,)."""
        return np.full(self.n, model.noise) if self.weights is None else model.noise / self.weights

    def operator(self, model: Model, dtype: str = "float64", threads: int | None = None) -> Noisy:
        """Return A = K + D."""
        return Noisy(Gram(model.kernel, self.X, dtype=dtype, threads=threads), self.noise(model))

    def repeats(self, model: Model) -> tuple[float, float]:
        """Return what rows that stand for several add to the log likelihood, and to its derivative in log σ².

        w rows alike are one row with noise σ² / w, and w - 1 directions orthogonal to it in which only noise is seen:
        `scatter` of it in all, and each direction has the factor (2πσ²)^-½. The change of variables leaves w^-½.
        """
        if self.weights is None:
            return 0.0, 0.0
        outputs, extra = self.Y.shape[1], self.weights - 1.0
        own = model.noise + (np.zeros(self.n) if self.known is None else self.known)
        seen = self.scatter / model.noise if self.scatter else 0.0
        value = -0.5 * float(extra @ np.log(2.0 * np.pi * own) + np.log(self.weights).sum())
        return outputs * value - 0.5 * seen, 0.5 * seen - 0.5 * outputs * float(extra @ (model.noise / own))


@dataclass(frozen=True, eq=False)
class Merged:
    """Targets in which rows with equal inputs are one, and the way back: row i went into row `group[i]`."""

    targets: Targets
    group: Index
    Y: Array
    weights: Array


def merged(targets: Targets) -> Merged | None:
    """Return the same data with equal rows of X made one, their mean in place of their targets; None if all differ.

    The likelihood is the same but for `scatter`, and K is smaller and better conditioned.
    """
    if targets.known is not None or not hasattr(targets.X, "shape"):
        return None
    X, first, group = np.unique(targets.X, axis=0, return_index=True, return_inverse=True)
    weights = np.ones(targets.n) if targets.weights is None else targets.weights
    if len(X) == targets.n and targets.weights is None:
        return None
    group = group.ravel()
    total: Array = np.bincount(group, weights).astype(np.float64)
    # Differences from one of the rows: where all are equal nothing is rounded.
    apart = targets.Y - targets.Y[first][group]
    shift = np.stack([np.bincount(group, weights * column) for column in apart.T], axis=1) / total[:, None]
    Y = targets.Y[first] + shift
    scatter = float(np.einsum("i,ij->", weights, (targets.Y - Y[group]) ** 2))
    joined = Targets(X, Y, targets.H[first], total, None, scatter)
    return Merged(joined, group, targets.Y, weights)


def basis(mean: str, X: Any, n: int) -> Array:
    """Return H (n, b) for "zero", "constant" or "linear"."""
    if mean == "zero":
        return np.zeros((n, 0))
    one = np.ones((n, 1))
    return one if mean == "constant" else np.hstack([one, np.asarray(X, dtype=np.float64)])


@dataclass(frozen=True)
class LogNormal:
    """A prior: the logarithm of a hyperparameter is normal around log(median) with standard deviation `sigma`."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        for name in ("median", "sigma"):
            value = getattr(self, name)
            if not np.isfinite(value) or value <= 0:
                raise ValueError(f"LogNormal: {name} must be positive and finite, got {value!r}")


@dataclass(frozen=True)
class Prior:
    """Log-normal priors on some entries of theta; the log density up to a constant, and its derivative."""

    priors: Mapping[str, LogNormal] = field(default_factory=dict)

    def density(self, model: Model) -> tuple[float, Array]:
        theta, names = model.theta, model.names
        value, slope = 0.0, np.zeros(len(theta))
        for name, prior in self.priors.items():
            for j in (j for j, own in enumerate(names) if own == name or own.startswith(f"{name}[")):
                t = (theta[j] - np.log(prior.median)) / prior.sigma
                value -= 0.5 * t * t
                slope[j] -= t / prior.sigma
        return value, slope

    def check(self, model: Model) -> None:
        """Raise an error for a prior on something that is not learnt."""
        for name, prior in self.priors.items():
            if not isinstance(prior, LogNormal):
                raise TypeError(f"the prior of {name!r} must be a LogNormal(median, sigma), got {prior!r}")
            if not any(own == name or own.startswith(f"{name}[") for own in model.names):
                raise ValueError(
                    f"there is no free hyperparameter {name!r}; there are {', '.join(model.names) or 'none'}"
                )
