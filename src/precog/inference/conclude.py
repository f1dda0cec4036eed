"""From the chosen hyperparameters to a posterior, with a certificate: residuals, likelihood, what ran and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precog.inference.bound import lower_bound
from precog.inference.marginal import LOG_2PI, blas_for, marginal, removed
from precog.inference.model import Model, Targets
from precog.inference.posterior import Factorised, Iterated, Posterior
from precog.inference.preconditioned import preconditioner
from precog.kernels.statistics import Array
from precog.solvers import PCG, Solution, Status, logdet

# Residual of the weights behind every mean; what it leaves is far below the noise of any data.
RTOL = 1e-6
VALUE_PROBES, VALUE_RTOL = 16, 1e-3


@dataclass(frozen=True)
class Concluding:
    """How to solve for the weights. dense: by a Cholesky factor; else with a preconditioner's name, or None.

    variance: "auto" takes the nearest rows where they suffice, "solve" solves for each new row. value: whether to
    estimate the likelihood and a bound.
    """

    dense: bool
    preconditioner: str | None = "auto"
    rank: int | None = None
    rtol: float = RTOL
    max_iter: int | None = None
    variance: str = "auto"
    value: bool = True
    dtype: str = "float64"
    threads: int | None = None
    max_memory: float = 2e9


@dataclass(frozen=True, eq=False)
class Certificate:
    """The log marginal likelihood with its standard error and a lower bound; how the weights were solved for."""

    value: float
    standard_error: float
    bound: float
    residuals: Array
    converged: bool
    iterations: int
    products: int
    solver: str
    preconditioner: str
    remedy: str = ""


def conclude(
    model: Model, targets: Targets, how: Concluding, rng: np.random.Generator, start: Array | None = None
) -> tuple[Posterior, Certificate]:
    """Return the posterior and its certificate. start: A⁻¹[Y, H] from nearby."""
    if how.dense:
        with blas_for(targets.n):
            return _dense(model, targets, how)
    A = targets.operator(model, how.dtype, how.threads)
    seed = int(rng.integers(2**32))
    P = preconditioner(how.preconditioner, A, how.rank, seed, how.max_memory)
    right = np.hstack([targets.Y, targets.H])
    solution = PCG(rtol=how.rtol, max_iter=how.max_iter).solve(A, right, precond=P, x0=start)
    if solution.status in (Status.INDEFINITE, Status.INDEFINITE_PRECONDITIONER, Status.NOT_FINITE):
        solution.raise_if_failed()
    outputs = targets.Y.shape[1]
    solved_H = solution.x[:, outputs:]
    alpha, mean = removed(targets.H, solution.x[:, :outputs], solved_H)
    system = Iterated(A, P, how.max_iter, None if how.variance == "solve" else seed)
    posterior = Posterior(model, targets, alpha, mean, solved_H, system, how.max_memory, how.threads)
    value, error, bound, products = np.nan, np.nan, np.nan, 0
    if how.value:
        value, error, products = _value(model, targets, A, P, alpha, mean, how, rng)
        bound = lower_bound(model, targets, A, alpha, mean, rank=how.rank, rng=seed)
    return posterior, _certificate(value, error, bound, solution, P, products)


def _dense(model: Model, targets: Targets, how: Concluding) -> tuple[Posterior, Certificate]:
    found = marginal(model, targets, gradient=False, threads=how.threads)
    system = Factorised(found.factor)
    solved_H = system.solve(targets.H) if targets.H.shape[1] else np.zeros_like(targets.H)
    posterior = Posterior(model, targets, found.alpha, found.mean, solved_H, system, how.max_memory, how.threads)
    # The residual by the factor that solved it: what its rounding leaves.
    A = targets.operator(model, threads=how.threads)
    R = targets.Y - targets.H @ found.mean
    size = np.linalg.norm(R, axis=0)
    residuals = np.linalg.norm(R - A @ found.alpha, axis=0) / np.where(size > 0, size, 1.0)
    done = Certificate(found.value, 0.0, found.value, residuals, True, 0, targets.Y.shape[1], "Cholesky", "none")
    return posterior, done


def _value(
    model: Model, targets: Targets, A: Any, P: Any, alpha: Array, mean: Array, how: Concluding, rng: np.random.Generator
) -> tuple[float, float, int]:
    n, outputs = targets.Y.shape
    found = logdet(A, precond=P, probes=VALUE_PROBES, rng=rng, rtol=VALUE_RTOL, max_iter=how.max_iter)
    R = targets.Y - targets.H @ mean
    fit = -0.5 * float(np.vdot(R, alpha) + np.vdot(alpha, R - A @ alpha))
    value = fit - 0.5 * outputs * (found.value + n * LOG_2PI) + targets.repeats(model)[0]
    return value, 0.5 * outputs * found.standard_error, found.products


def _certificate(value: float, error: float, bound: float, solution: Solution, P: Any, products: int) -> Certificate:
    return Certificate(
        value,
        error,
        bound,
        solution.residuals,
        solution.ok,
        solution.iterations,
        solution.products + products,
        f"{solution.solver}, {solution.precision} products",
        described(P),
        "" if solution.ok else solution.describe(),
    )


def described(P: Any) -> str:
    """Return what a preconditioner is and why it was chosen, in words."""
    if P is None:
        return "none"
    built = getattr(P, "built", None)
    if built is None:
        return type(P).__name__.lower()
    why = f": {built.why}" if built.why else ""
    return f"{built.name} of rank {built.rank} in {built.dtype}{why}"
