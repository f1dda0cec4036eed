"""From a model and data to the most likely hyperparameters: which way, with which stages, and what it leaves behind.

*The default.* Up to `EXACT_ROWS` rows L-BFGS on the exact likelihood; above, a start from subsets, then quasi-Newton
steps on estimated gradients (`search.quasi_newton`), probes with fixed seeds so that steps can be compared.

*The recipe of [Cutajar16]*: AdaGrad with step one on gradients from four random signs, Nyström with 4 √n random rows
drawn anew in every step, solves to |r|² < 1e-10 n, from variance 1, noise 0.1 and length scale 1 (one for each column)
or √d (one for all). Its baseline is L-BFGS on the exact likelihood from the same start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from precog.inference.estimate import Estimate, Probing, estimate
from precog.inference.marginal import blas_for
from precog.inference.model import Model, Prior, Targets
from precog.inference.preconditioned import preconditioner
from precog.inference.search import Found, History, adagrad, lbfgs, quasi_newton
from precog.inference.subsets import Exact, best_start, subset_start
from precog.kernels.statistics import Array
from precog.operators import Noisy
from precog.precond import Preconditioner, make
from precog.solvers import PCG

# Up to here an exact evaluation costs less than an estimated one is worth.
EXACT_ROWS = 5000
# From here on an exact search starts from subsets, where evaluations cost next to nothing.
SUBSET_ROWS = 1500
EXACT_ITER, STOCHASTIC_ITER, ADAGRAD_STEPS = 200, 30, 100
# Relative residual of solves for gradients; at 1e-1 the noise's derivative was off by 40 of its standard errors.
RTOL = 1e-2
DEFAULT_PROBING = Probing(probes=8, groups=8, control=32)
RECIPE_PROBING = Probing(probes=4, groups=4, signs=True)
RECIPE_STOP = 1e-10
# The choice of a preconditioner is made anew when it takes so many times the steps that it took first.
MORE_STEPS = 1.5


@dataclass(frozen=True)
class Learning:
    """How to learn. optimizer: "lbfgs" (exact), "stochastic" or "adagrad".

    preconditioner: a name for `precond.make`, or None; redraw: whether it and the probes are drawn anew in every step.
    """

    optimizer: str
    solver: PCG = field(default_factory=lambda: PCG(rtol=RTOL))
    preconditioner: str | None = "auto"
    rank: int | None = None
    probing: Probing = DEFAULT_PROBING
    redraw: bool = False
    explore: bool = True
    max_iter: int | None = None
    restarts: int = 0
    prior: Prior = field(default_factory=Prior)
    dtype: str = "float64"
    threads: int | None = None
    max_memory: float = 2e9


@dataclass(frozen=True, eq=False)
class Learnt:
    """The model at its most likely hyperparameters, how the search went, and what it cost in columns multiplied."""

    model: Model
    found: Found
    products: int
    iterations: int
    why: str


def recipe(solver: str, n: int, rank: int | None = None, **more: Any) -> Learning:
    """Return the settings of [Cutajar16] with solver "cg", "pcg" or "cholesky"; more: other fields of `Learning`."""
    if solver == "cholesky":
        return Learning("lbfgs", explore=False, **more)
    return Learning(
        "adagrad",
        solver=PCG(rtol=0.0, atol=float(np.sqrt(RECIPE_STOP * n))),
        preconditioner="nystrom" if solver == "pcg" else None,
        rank=rank,
        probing=RECIPE_PROBING,
        redraw=True,
        explore=False,
        **more,
    )


def learn(model: Model, targets: Targets, learning: Learning, rng: np.random.Generator, history: History) -> Learnt:
    """Return the model at the best hyperparameters that were found."""
    if not model.theta.size:
        return Learnt(model, Found(model.theta, np.nan, True, False, "nothing is free"), 0, 0, "nothing is free")
    if learning.optimizer == "lbfgs":
        with blas_for(targets.n):
            return _exactly(model, targets, learning, rng, history)
    evaluate = Estimator(model, targets, learning, int(rng.integers(2**32)), history.inside)
    theta = model.clipped(model.theta)
    if learning.optimizer == "adagrad":
        steps = ADAGRAD_STEPS if learning.max_iter is None else learning.max_iter
        found = adagrad(evaluate, theta, model.bounds, history, steps=steps)
        return evaluate.learnt(found, f"AdaGrad, {found.why}")
    start = subset_start(model, targets, learning.prior, rng, history, bend=True)
    if start.interrupted:
        found = Found(start.theta, np.nan, False, True, "interrupted")
        return Learnt(model.with_theta(start.theta), found, 0, 0, "subsets only")
    steps = STOCHASTIC_ITER if learning.max_iter is None else learning.max_iter
    try:
        found = quasi_newton(evaluate, start.theta, model.bounds, start.curvature, targets.n, history, max_iter=steps)
    except KeyboardInterrupt:
        found = Found(start.theta, np.nan, False, True, "interrupted")
    return evaluate.learnt(found, f"subsets, then quasi-Newton: {found.why}")


def _exactly(model: Model, targets: Targets, learning: Learning, rng: np.random.Generator, history: History) -> Learnt:
    exact = Exact(model, targets, learning.prior, learning.threads)
    bounds, steps = model.bounds, EXACT_ITER if learning.max_iter is None else learning.max_iter
    begin = model.clipped(model.theta)
    if learning.explore and targets.n > SUBSET_ROWS:
        start = subset_start(model, targets, learning.prior, rng, history, bend=False)
        if start.interrupted:
            found = Found(start.theta, np.nan, False, True, "interrupted")
            return Learnt(model.with_theta(start.theta), found, 0, 0, "subsets only")
        begin = start.theta
    elif learning.explore:
        begin = best_start(exact)
    best = lbfgs(exact, begin, bounds, history, max_iter=steps)
    for _ in range(learning.restarts):
        if best.interrupted:
            break
        try:
            new = lbfgs(exact, np.asarray(rng.uniform(*bounds.T)), bounds, history, max_iter=steps, stage="restart")
        except ArithmeticError:  # a random start may lie where nothing can be computed
            continue
        new = replace(new, interrupted=True) if new.interrupted else new
        best = new if new.value > best.value else replace(best, interrupted=new.interrupted)
    return Learnt(model.with_theta(best.theta), best, 0, len(history.rows), f"L-BFGS, exact: {best.why}")


class Estimator:
    """The estimated objective as a function of theta, warm-started from one call to the next."""

    def __init__(
        self,
        model: Model,
        targets: Targets,
        learning: Learning,
        seed: int,
        callback: Callable[[int, Array], None] | None = None,
    ) -> None:
        self.model, self.targets, self.learning, self.seed = model, targets, learning, seed
        self.callback = callback
        self.calls = self.products = self.iterations = 0
        self.solved: Array | None = None
        # The rank under the neighbours that "auto" chose, and the steps that they took then.
        self.chosen: tuple[int, int] | None = None

    def __call__(self, theta: Array) -> Estimate:
        model, learning = self.model.with_theta(theta), self.learning
        own = np.random.default_rng([self.seed, self.calls] if learning.redraw else self.seed)
        self.calls += 1
        A = self.targets.operator(model, learning.dtype, learning.threads)
        P = self._preconditioner(A, own)
        point = estimate(
            model,
            self.targets,
            A,
            P,
            solver=learning.solver,
            probing=learning.probing,
            rng=own,
            start=self.solved,
            callback=self.callback,
        )
        self.solved = point.solved
        self._judge(P, point.solution.iterations)
        self.products += point.solution.products
        self.iterations += point.solution.iterations
        value, slope = learning.prior.density(model)
        return replace(point, value=point.value + value, gradient=point.gradient + slope)

    def _preconditioner(self, A: Noisy, rng: np.random.Generator) -> Preconditioner | None:
        """Return what was asked for; once "auto" has chosen neighbours, those, without the factor that it would try."""
        learning = self.learning
        if self.chosen is not None:
            return make("vecchia", A, rank=self.chosen[0], rng=rng)
        return preconditioner(learning.preconditioner, A, learning.rank, rng, learning.max_memory)

    def _judge(self, P: Any, steps: int) -> None:
        """Keep the neighbours that "auto" chose until they take many more steps than at first."""
        if self.chosen is not None:
            self.chosen = None if steps > MORE_STEPS * self.chosen[1] else self.chosen
        elif self.learning.preconditioner == "auto" and P.built.name == "vecchia":
            self.chosen = P.built.rank, steps

    def learnt(self, found: Found, why: str) -> Learnt:
        return Learnt(self.model.with_theta(found.theta), found, self.products, self.iterations, why)
