"""The methods of Figures 2 and 3: how each searches for hyperparameters, and what these predict on held-out rows.

A method is an entry of `METHODS`, and what it leaves behind are hyperparameters at times. The recipes of [Cutajar16]
start from variance 1, noise 0.1 and length scale 1 (one for each input) or √d (one for all); the published runs
started from the optimum of 4 √n random rows. Predictions are made when the search is over, outside of its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from precog import RBF, GPRegressor
from precog.estimators import choices, setup
from precog.experiments.figure2_folds import Fold
from precog.inference import Concluding, History, Posterior, basis, conclude, learn
from precog.inference.model import Merged
from precog.kernels import Kernel
from precog.kernels.statistics import Array

SEED = 0
# The recipe takes steps as long as there is time.
ENDLESS = 1_000_000
# Up to so many rows predictions are exact. At 9,430 rows a dense factor and 97 held-out rows took half the time of
# their solves; above 12,000 it would not fit into 2 GB with its working space.
DENSE_ROWS = 12_000
# Relative residual of the weights behind a mean; variances are solved to a hundredth of their size.
RTOL = 1e-3


@dataclass(frozen=True, eq=False)
class Ended:
    """Where a search led, and why it ended."""

    theta: Array
    why: str


@dataclass(frozen=True)
class Scores:
    """The error on the held-out rows, and the sum of their negative log predictive densities."""

    error: float
    nll: float


class Learner(Protocol):
    """A model of one fold that can be learnt, and scored at any hyperparameters on the way."""

    def search(self, history: History, steps: int | None) -> Ended:
        """Search for the best hyperparameters, every evaluation into the history; at most so many steps."""
        ...

    def scores(self, theta: Array) -> Scores:
        """Return the scores; ArithmeticError where they cannot be had."""
        ...


class Regression:
    """Gaussian process regression, learnt as a `GPRegressor` with these settings learns."""

    def __init__(self, settings: GPRegressor, fold: Fold) -> None:
        self.settings, self.fold = settings, fold
        kernel = setup.resolved(settings.kernel, fold.X, None)
        self.model = setup.kernel_and_noise(kernel, settings.noise, settings.noise_bounds, known=False)
        made = setup.targets_of(self.model, fold.X, fold.y[:, None], settings.mean, None, None)
        self.targets = made.targets if isinstance(made, Merged) else made
        self.alpha: Array | None = None

    def search(self, history: History, steps: int | None) -> Ended:
        if steps is not None:
            self.settings.set_params(max_iter=steps)
        choices.check(self.settings)
        how = choices.learning(self.settings, self.targets.n)
        assert how is not None
        learnt = learn(self.model, self.targets, how, setup.generator(self.settings.random_state), history)
        if learnt.found.interrupted:
            raise KeyboardInterrupt
        return Ended(learnt.model.theta, learnt.why)

    def scores(self, theta: Array) -> Scores:
        """Return the root mean squared error, and the sum of -log N(t | mean, variance + σ²)."""
        model = self.model.with_theta(theta)
        how = Concluding(self.targets.n <= DENSE_ROWS, rtol=RTOL, value=False)
        posterior, certificate = conclude(model, self.targets, how, np.random.default_rng(SEED), start=self.alpha)
        if not certificate.converged:
            raise ArithmeticError(certificate.remedy)
        self.alpha = posterior.alpha
        mean, variance = self._predicted(posterior)
        squares = (self.fold.t - mean) ** 2
        nll = 0.5 * float((np.log(2.0 * np.pi * variance) + squares / variance).sum())
        return Scores(float(np.sqrt(squares.mean())), nll)

    def _predicted(self, posterior: Posterior) -> tuple[Array, Array]:
        Z = self.fold.Z
        H = basis(self.settings.mean, Z, len(Z))
        return posterior.mean(Z, H)[:, 0], posterior.variance(Z, H)[0] + posterior.model.noise


# Makes the learner of a fold with a kernel of the experiment.
Beginning: TypeAlias = Callable[[Fold, str], Learner]


@dataclass(frozen=True)
class Method:
    """A method of the experiment; solver: its name in the file.

    step_size, probes: of AdaGrad and of its gradients, None elsewhere. dense: whether it stores an n × n matrix.
    """

    solver: str
    title: str
    regression: Beginning
    step_size: float | None = None
    probes: float | None = None
    dense: bool = False


def _recipe(solver: str, steps: int | None, fold: Fold, kernel: str) -> Learner:
    d = fold.X.shape[1]
    start: Kernel = 1.0 * RBF(np.ones(d) if kernel == "ARD" else np.sqrt(d))
    shared: dict[str, Any] = {"noise": 0.1, "max_iter": steps, "random_state": SEED}
    return Regression(GPRegressor(start, solver=solver, recipe="cutajar2016", **shared), fold)


def _default(fold: Fold, kernel: str) -> Learner:
    start: Kernel | None = None if kernel == "ARD" else 1.0 * RBF(np.sqrt(fold.X.shape[1]))
    return Regression(GPRegressor(start, random_state=SEED), fold)


METHODS = {
    "cg": Method("CG", "CG", partial(_recipe, "cg", ENDLESS), step_size=1.0, probes=4.0),
    "pcg": Method("PCG", "PCG", partial(_recipe, "pcg", ENDLESS), step_size=1.0, probes=4.0),
    "chol": Method("CHOL", "Cholesky", partial(_recipe, "cholesky", None), dense=True),
    "default": Method("DEFAULT", "precog", _default),
}
BY_SOLVER = {method.solver: method for method in METHODS.values()}
