"""Gaussian process regression: fits of Concrete and Power Plant against the exact optimum, and against scikit-learn.

Folds as published: rows shuffled, √n of them held out, inputs and targets standardised by the training rows.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from table import Row, show

from precog import RBF, GPRegressor, datasets, precond, solvers
from precog.inference import Model, Probing, Targets, estimate, marginal

# What the default may lose to the exact optimum: root mean squared error, negative log likelihood a point, seconds.
ALLOWED = {"concrete": (0.005, 0.01, 5.0), "powerplant": (0.003, 0.02, 60.0)}


@dataclass(frozen=True)
class Fold:
    """Training and held-out rows in standard units of the training rows."""

    X: Any
    y: Any
    Z: Any
    z: Any

    @staticmethod
    def of(name: str, fold: int) -> Fold:
        data = datasets.load(name)
        n = len(data.y)
        order = np.random.default_rng(0).permutation(n)
        held = math.isqrt(n)
        test = order[fold * held : (fold + 1) * held]
        train = np.setdiff1d(order, test)
        X, y = data.X[train], data.y[train]
        centre, scale, mean, spread = X.mean(axis=0), X.std(axis=0), y.mean(), y.std()
        return Fold(
            (X - centre) / scale, (y - mean) / spread, (data.X[test] - centre) / scale, (data.y[test] - mean) / spread
        )


@dataclass(frozen=True)
class Outcome:
    """What a fit reached on the held-out rows, in standard units, and the seconds of fit and predictions together."""

    seconds: float
    rmse: float
    nll: float
    lml: float
    why: str


def run(model: Any, fold: Fold) -> Outcome:
    started = time.perf_counter()
    model.fit(fold.X, fold.y)
    mean, std = model.predict(fold.Z, return_std=True, include_noise=True)
    seconds = time.perf_counter() - started
    error = fold.z - mean
    nll = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2
    return Outcome(
        seconds,
        float(np.sqrt(np.mean(error**2))),
        float(nll.mean()),
        model.log_marginal_likelihood_value_,
        f"{model.n_iter_} evaluations, {model.solver_}",
    )


def against_exact(name: str, folds: int, preconditioner: str) -> Iterator[Row]:
    """The default against L-BFGS on the exact likelihood from the same start and from where the default ended."""
    allowed = ALLOWED[name]
    for fold in range(folds):
        data = Fold.of(name, fold)
        learner = GPRegressor(random_state=fold, preconditioner=preconditioner)
        ours = run(learner, data)
        start = GPRegressor(learner.kernel_, noise=learner.noise_, solver="cholesky", max_memory=1e10, random_state=0)
        exact = run(start, data)
        loss = (ours.rmse - exact.rmse, ours.nll - exact.nll, ours.seconds)
        words = ("RMSE beyond exact", "NLL a point beyond exact", "seconds")
        details = (
            f"{ours.rmse:.4f} against {exact.rmse:.4f}",
            f"{ours.nll:.4f} against {exact.nll:.4f}; log likelihood {ours.lml:.1f} against {exact.lml:.1f}",
            f"exact from there {exact.seconds:.1f} s; {ours.why}",
        )
        for word, value, most, detail in zip(words, loss, allowed, details, strict=True):
            yield Row(f"{name}, fold {fold}: {word}", value, most, "at most", detail)


def sklearn() -> Iterator[Row]:
    """Fits of the same data by both, to the same optimum."""
    for n, target in ((2000, 5.0), (5000, 10.0)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 4))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
        ours = GPRegressor(1.0 * RBF([1.0] * 4), noise=0.1, random_state=0)
        theirs = GaussianProcessRegressor(1.0 * sk.RBF([1.0] * 4) + sk.WhiteKernel(0.1), normalize_y=True)
        seconds = []
        for model in (ours, theirs):
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            seconds.append(time.perf_counter() - started)
        a, b = ours.log_marginal_likelihood_value_, float(theirs.log_marginal_likelihood_value_)
        detail = f"{seconds[0]:.1f} s against {seconds[1]:.1f} s; log likelihood {a:.2f} against {b:.2f}"
        yield Row(f"scikit-learn's time over ours, n = {n}", seconds[1] / seconds[0], target, "at least", detail)
        yield Row(f"log likelihood lost to scikit-learn, n = {n}", (b - a) / abs(b), 1e-3, "at most")


def likelihood(preconditioner: str) -> Iterator[Row]:
    """The estimated log marginal likelihood against the exact one."""
    n, rng = 5000, np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    for noise in (1e-2, 1e-3, 1e-4):
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.sqrt(noise) * rng.standard_normal(n)
        model = Model(1.0 * RBF([1.0] * 4), noise, (1e-6, 1.0))
        targets = Targets(X, y[:, None], np.zeros((n, 0)))
        A = targets.operator(model)
        P = precond.make(preconditioner, A, rng=0)
        exact = marginal(model, targets, gradient=False)
        started = time.perf_counter()
        found = estimate(
            model, targets, A, P, solver=solvers.PCG(rtol=1e-3), probing=Probing(16, 4), rng=np.random.default_rng(1)
        )
        off = abs(found.value - exact.value)
        seconds = time.perf_counter() - started
        detail = f"{found.value:.2f} ± {found.value_se:.2f} against {exact.value:.2f}, {seconds:.1f} s"
        yield Row(
            f"estimated likelihood, noise {noise:g}: errors in its own", off / found.value_se, 3.0, "at most", detail
        )
        yield Row(f"estimated likelihood, noise {noise:g}: relative", off / abs(exact.value), 5e-3, "at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="groups whose name holds this word")
    parser.add_argument("--preconditioner", default="auto", help="a name that precog.precond.make knows")
    options = parser.parse_args()
    groups = {
        "concrete": lambda: against_exact("concrete", 3, options.preconditioner),
        "sklearn": sklearn,
        "likelihood": lambda: likelihood(options.preconditioner),
        "powerplant": lambda: against_exact("powerplant", 1, options.preconditioner),
    }
    show("gp", (row for name, group in groups.items() if options.only in name for row in group()))


if __name__ == "__main__":
    main()
