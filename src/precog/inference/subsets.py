"""A start for the search from subsets of the data, each solved exactly.

Subsets are the nearest neighbours of random rows: they are as dense as the data, so short length scales show in them,
where rows drawn at random from all of the data are too far apart to tell a short length scale from noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precog.inference.marginal import blas_for, marginal
from precog.inference.model import Model, Prior, Targets
from precog.inference.search import Found, History, Point, curvature, lbfgs
from precog.kernels.statistics import Array, Index

# Common factors of all length scales, and factors of the noise, that are tried before the first search.
LENGTH_FACTORS = (1.0, 0.3, 0.1)
NOISE_FACTORS = (1.0, 0.1)
SUBSETS, LARGEST = 3, 2000
# Searches in subsets need not be sharper than subsets differ.
GAIN = 0.05


@dataclass(frozen=True, eq=False)
class Valued:
    """The value and the gradient of an objective."""

    value: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact objective on some data: log marginal likelihood plus log prior."""

    model: Model
    targets: Targets
    prior: Prior
    threads: int | None = None

    def __call__(self, theta: Array) -> Point:
        model = self.model.with_theta(theta)
        found = marginal(model, self.targets, threads=self.threads)
        value, slope = self.prior.density(model)
        return Valued(found.value + value, found.gradient + slope)

    def value(self, theta: Array) -> float:
        """Return the value alone, -inf where there is none."""
        model = self.model.with_theta(theta)
        try:
            found = marginal(model, self.targets, gradient=False, threads=self.threads).value
        except ArithmeticError:
            return -np.inf
        return found + self.prior.density(model)[0]


def best_start(exact: Exact) -> Array:
    """Return the likeliest of the model's hyperparameters and some with shorter length scales and less noise."""
    model = exact.model
    lengths = np.array(["length_scale" in name for name in model.names], dtype=bool)
    noise = np.array([name == "noise" for name in model.names], dtype=bool)
    starts = [
        model.clipped(model.theta + np.log(a) * lengths + np.log(b) * noise)
        for a in (LENGTH_FACTORS if lengths.any() else (1.0,))
        for b in (NOISE_FACTORS if noise.any() else (1.0,))
    ]
    values = [exact.value(start) for start in starts]
    return starts[int(np.argmax(values))]


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin on all rows, and minus the second derivative that the subsets suggest there."""

    theta: Array
    curvature: Array
    interrupted: bool


def subset_start(
    model: Model, targets: Targets, prior: Prior, rng: np.random.Generator, history: History, *, bend: bool
) -> Start:
    """Return the subsets' optimum, or their median, that is likeliest in all of them; `bend` asks for the curvature.

    The median alone would be nowhere if some subsets see a short length scale and others a long one.
    """
    size = int(np.clip(targets.n // 4, min(500, targets.n), LARGEST))
    with blas_for(size):
        return _from_subsets(model, targets, prior, rng, history, size, bend=bend)


def _from_subsets(
    model: Model, targets: Targets, prior: Prior, rng: np.random.Generator, history: History, size: int, *, bend: bool
) -> Start:
    exacts: list[Exact] = []
    found: list[Found] = []
    begin = None
    for turn in range(SUBSETS):
        exacts.append(Exact(model, targets.take(neighbours(targets, size, rng)), prior))
        begin = best_start(exacts[-1]) if begin is None else begin
        stage = f"subset {turn + 1}"
        found.append(lbfgs(exacts[-1], begin, model.bounds, history, max_iter=100, stage=stage, gain=GAIN))
        if found[-1].interrupted:
            return Start(found[-1].theta, np.eye(len(begin)), True)
        begin = found[-1].theta
    candidates = [f.theta for f in found]
    candidates.append(np.median(candidates, axis=0))
    theta = max(candidates, key=lambda t: sum(exact.value(t) for exact in exacts))
    H: Array = np.eye(len(theta)) * targets.n / 4.0
    if bend:
        H = curvature(lambda t: exacts[-1](t).gradient, theta, size) * (targets.n / size)
    return Start(theta, H, False)


def neighbours(targets: Targets, size: int, rng: np.random.Generator) -> Index:
    """Return the rows nearest to a random one, columns brought to one scale; random rows where there are no columns."""
    if not hasattr(targets.X, "shape"):
        return np.sort(rng.choice(targets.n, size, replace=False))
    X = targets.X.astype(np.float64, copy=False)
    scale = X.std(axis=0)
    U = X[:, scale > 0] / scale[scale > 0]
    distances = ((U - U[rng.integers(len(U))]) ** 2).sum(axis=1)
    return np.sort(np.argpartition(distances, size - 1)[:size])
