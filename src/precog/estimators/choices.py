"""How a Gaussian process estimator's settings become ways to learn, to solve and to predict."""

from __future__ import annotations

from typing import Any

from precog import checks
from precog.inference import Concluding, Learning, Prior, recipe
from precog.inference.fit import EXACT_ROWS
from precog.inference.model import MEANS
from precog.precond import FAMILIES
from precog.precond.lowrank import default_rank

OPTIMIZERS = ("auto", "lbfgs", "stochastic", "adagrad")
SOLVERS = ("auto", "cholesky", "cg", "pcg")
VARIANCES = ("auto", "solve")
RECIPES = ("cutajar2016",)
# A dense factor needs A, its factor and, while learning, its inverse with a temporary.
DENSE_COPIES = 4


def check(settings: Any) -> None:
    """Raise an error for settings that make no sense whatever the data."""
    checks.choice("mean", settings.mean, MEANS)
    if settings.optimizer is not None:
        checks.choice("optimizer", settings.optimizer, OPTIMIZERS)
    check_solver(settings)
    checks.choice("variance", settings.variance, VARIANCES)
    checks.number("rtol", settings.rtol, strict=True)
    checks.count("n_restarts_optimizer", settings.n_restarts_optimizer, low=0)
    if settings.recipe is not None:
        checks.choice("recipe", settings.recipe, RECIPES)
    if settings.max_iter is not None:
        checks.count("max_iter", settings.max_iter)


def check_solver(settings: Any) -> None:
    """Raise an error for a way to solve that does not exist."""
    checks.choice("solver", settings.solver, SOLVERS)
    checks.choice("preconditioner", settings.preconditioner, tuple(FAMILIES))
    checks.number("max_memory", settings.max_memory, strict=True)
    if settings.rank is not None:
        checks.count("rank", settings.rank)


def dense(settings: Any, n: int, most: int = EXACT_ROWS) -> bool:
    """Return whether A is stored and factorised."""
    if settings.solver == "cholesky":
        return True
    return settings.solver == "auto" and n <= most and DENSE_COPIES * 8.0 * n * n <= settings.max_memory


def preconditioner(settings: Any) -> str | None:
    return None if settings.solver == "cg" else str(settings.preconditioner)


def rank(settings: Any, n: int) -> int | None:
    """Return the rank that was asked for, or what a quarter of the memory allows where that is less than usual."""
    if settings.rank is not None:
        return int(settings.rank)
    allowed = max(int(0.25 * settings.max_memory / (4 * n)), 1)
    return allowed if allowed < default_rank(n) else None


def prior(settings: Any) -> Prior:
    return Prior(dict(settings.priors or {}))


def learning(settings: Any, n: int) -> Learning | None:
    """Return how to learn from n rows, or None where the hyperparameters are kept."""
    if settings.optimizer is None:
        return None
    exact = dense(settings, n)
    shared: dict[str, Any] = {
        "max_iter": settings.max_iter,
        "restarts": settings.n_restarts_optimizer,
        "prior": prior(settings),
        "threads": settings.threads,
        "max_memory": settings.max_memory,
    }
    if settings.recipe is not None:
        return recipe("cholesky" if exact else "cg" if settings.solver == "cg" else "pcg", n, settings.rank, **shared)
    optimizer = settings.optimizer
    if optimizer == "auto":
        optimizer = "lbfgs" if exact else "stochastic"
    return Learning(optimizer, preconditioner=preconditioner(settings), rank=rank(settings, n), **shared)


def concluding(settings: Any, n: int) -> Concluding:
    """Return how to solve for the weights and predict."""
    return Concluding(
        dense(settings, n),
        preconditioner(settings),
        rank(settings, n),
        settings.rtol,
        variance=settings.variance,
        threads=settings.threads,
        max_memory=settings.max_memory,
    )
