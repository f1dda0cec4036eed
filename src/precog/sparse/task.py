"""What every way to choose inducing inputs is given, what it hands back, and the continuous search that they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from precog.inference.model import Model, Targets
from precog.inference.search import Found, History, lbfgs
from precog.kernels.statistics import Array, Index
from precog.sparse.approximations import MAX_MEMORY, VFE, Approximation, System
from precog.sparse.inducing import Inducing
from precog.sparse.slopes import Evaluation, evaluation

ROUNDS, STEPS = 20, 20
# A round must gain this many nats a row for another to follow.
TOLERANCE = 1e-4
# Factors of all length scales and of the noise that are tried before the first search: what few inducing inputs can
# explain is smoother than the function, and the rest is noise to them. Without, searches end where all is noise.
LENGTH_FACTORS = (1.0, 3.0, 10.0)
NOISE_FACTORS = (0.3, 1.0, 3.0, 9.0)


@dataclass(frozen=True)
class Budget:
    """rounds: of choosing and learning; steps: of one continuous search; tolerance: nats a row that a round must gain.

    deadline: on the clock of `time.perf_counter`.
    """

    rounds: int = ROUNDS
    steps: int = STEPS
    tolerance: float = TOLERANCE
    deadline: float = float("inf")

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self.deadline


@dataclass(frozen=True, eq=False)
class Task:
    """Data, how many inducing inputs, the approximation whose objective counts, and how much may be spent.

    learns: whether the hyperparameters are free. blocks: of PITC.
    """

    targets: Targets
    m: int
    rng: np.random.Generator
    how: Approximation = VFE
    learns: bool = True
    blocks: list[Index] | None = None
    budget: Budget = field(default_factory=Budget)
    history: History = field(default_factory=History)
    max_memory: float = MAX_MEMORY
    threads: int | None = None

    def system(self, model: Model, inducing: Inducing) -> System:
        return System(self.how, model, self.targets, inducing, blocks=self.blocks, max_memory=self.max_memory)

    def maximise(self, evaluate: Callable[[Array], Evaluation], start: Array, bounds: Array, stage: str) -> Found:
        """Return the best point of an L-BFGS search within the budget; the start is always looked at."""
        looked: list[Array] = []

        def within(point: Array) -> Evaluation:
            if looked and self.budget.over:
                # No objective anywhere: the search ends at once, and its best point is kept.
                raise ArithmeticError("time is up")
            looked.append(point)
            return evaluate(point)

        try:
            return lbfgs(within, start, bounds, self.history, max_iter=self.budget.steps, stage=stage)
        except ArithmeticError:
            # What was wrong at the start says more than that nothing was found.
            evaluate(start)
            raise

    def start(self, model: Model, inducing: Inducing) -> Model:
        """Return the best of the model's hyperparameters and some with longer length scales and other noise."""
        lengths = np.array(["length_scale" in name for name in model.names], dtype=bool)
        noise = np.array([name == "noise" for name in model.names], dtype=bool)
        starts = [
            model.with_theta(model.clipped(model.theta + np.log(a) * lengths + np.log(b) * noise))
            for a in (LENGTH_FACTORS if lengths.any() else (1.0,))
            for b in (NOISE_FACTORS if noise.any() else (1.0,))
        ]
        values = [self.system(some, inducing).value() for some in starts] if len(starts) > 1 else [0.0]
        return starts[int(np.argmax(values))]

    def learn(self, model: Model, inducing: Inducing) -> Found:
        """Return the best hyperparameters for inducing inputs that stay, from those of the model on."""

        def evaluate(theta: Array) -> Evaluation:
            return evaluation(self.system(model.with_theta(theta), inducing))

        return self.maximise(evaluate, model.clipped(model.theta), model.bounds, "continuous")


@dataclass(frozen=True, eq=False)
class Chosen:
    """A model with inducing inputs, the objective there, its values on the way, and how the search ended."""

    model: Model
    inducing: Inducing
    value: float
    values: list[float] = field(default_factory=list)
    converged: bool = True
    interrupted: bool = False
    why: str = ""
