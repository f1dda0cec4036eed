"""Discrete sweeps and continuous steps in turn, on one objective: pivots among the data, and theta learnt with them.

The factors see D^-½ K D^-½ scaled to one noise σ², so that noise may differ between rows. After a continuous step the
pivots are factorised at the new theta; if the objective fell there by rounding, the old theta comes back: the value
never falls, whatever is done. It ends when a round of both gains less than asked for, or when time is up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precog.inference.model import Model, Targets
from precog.kernels.statistics import Array, Index
from precog.operators import Congruent, Gram, Operator
from precog.sparse.approximations import positive_noise
from precog.sparse.cholqr import CholQR
from precog.sparse.inducing import Inducing
from precog.sparse.objective import Objective
from precog.sparse.selection import Information, grow, sweep
from precog.sparse.task import Chosen, Task


@dataclass(frozen=True, eq=False)
class Scaled:
    """K and Y with noise σ² on every row, and what the scaling takes from a log likelihood."""

    K: Operator
    Y: Array
    sigma2: float
    constant: float

    @staticmethod
    def of(model: Model, targets: Targets, threads: int | None = None) -> Scaled:
        gram = Gram(model.kernel, targets.X, threads=threads)
        noise = positive_noise(model, targets)
        extra, _ = targets.repeats(model)
        if np.ptp(noise) == 0:
            return Scaled(gram, targets.Y, float(noise[0]), extra)
        sigma2 = float(np.exp(np.log(noise).mean()))
        s = np.sqrt(sigma2 / noise)
        constant = extra + targets.Y.shape[1] * float(np.log(s).sum())
        return Scaled(Congruent(gram, s), s[:, None] * targets.Y, sigma2, constant)


class _State:
    """The best model and pivots so far, the factors there, and every value on the way."""

    def __init__(self, task: Task, model: Model, rows: Index) -> None:
        self.task, self.model = task, model
        self.scaled, self.factors, self.objective = self._at(model, rows)
        self.value = self._value()
        self.values: list[float] = []

    def _at(self, model: Model, rows: Index) -> tuple[Scaled, CholQR, Objective]:
        scaled = Scaled.of(model, self.task.targets, self.task.threads)
        factors = CholQR(scaled.K, scaled.sigma2, max(self.task.m, 1))
        factors.m_step(rows)
        return scaled, factors, Objective.of(self.task.how, scaled.Y)

    def _value(self) -> float:
        return self.objective.value(self.factors) + self.scaled.constant

    @property
    def inducing(self) -> Inducing:
        return Inducing.of(self.task.targets.X, self.factors.pivots)

    def exchange(self, information: Information) -> int:
        """Fill up the pivots, sweep over all of them, and return how many came in."""
        information.forget()
        before, deadline = self.factors.m, self.task.budget.deadline
        grow(self.factors, self.objective, information, self.task.m, deadline)
        if self.factors.m > before or not self.values:
            self.values.append(self._value())
        swept = sweep(self.factors, self.objective, information, self.task.rng, deadline)
        self.values += [value + self.scaled.constant for value in swept.values]
        self.value = self._value()
        swaps = swept.swaps + self.factors.m - before
        self.task.history.add("discrete", self.model.theta, self.value, np.zeros(1), swaps=swaps)
        return swaps

    def move(self, theta: Array) -> None:
        """Take a new theta if the objective is not lower there."""
        before = self.model, self.scaled, self.factors, self.objective
        self.model = self.model.with_theta(theta)
        self.scaled, self.factors, self.objective = self._at(self.model, np.array(self.factors.pivots, dtype=np.intp))
        value = self._value()
        if value < self.value:
            self.model, self.scaled, self.factors, self.objective = before
        else:
            self.value = value
        self.values.append(self.value)


def alternate(task: Task, model: Model, rows: Index, information: Information) -> Chosen:
    """Return the model and at most m of the rows as inducing inputs, from some rows to begin with."""
    learns, budget = task.learns and len(model.theta) > 0, task.budget
    state = _State(task, task.start(model, Inducing.of(task.targets.X, rows)) if learns and len(rows) else model, rows)
    why, converged, interrupted = f"{budget.rounds} rounds, as many as were allowed", False, False
    before = -np.inf
    try:
        for _ in range(budget.rounds):
            swaps = state.exchange(information)
            if learns and not budget.over:
                found = task.learn(state.model, state.inducing)
                interrupted = found.interrupted
                state.move(found.theta)
            gained, before = state.value - before, state.value
            if budget.over or interrupted:
                why = "interrupted" if interrupted else "time is up"
                break
            if gained <= budget.tolerance * task.targets.n or (not learns and not swaps):
                why, converged = f"a round gained {gained:.2g} nats", True
                break
    except KeyboardInterrupt:
        interrupted, why = True, "interrupted"
    return Chosen(state.model, state.inducing, state.value, state.values, converged, interrupted, f"CholQR: {why}")
