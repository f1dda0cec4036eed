"""Inducing inputs at places of their own, moved along the gradient together with the hyperparameters [Titsias09].

The search has m d coordinates; it begins with half of the inputs at a time, or as many as are asked for, and ends with
all of them free.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from precog.inference.model import Model
from precog.kernels.statistics import Array, Index
from precog.sparse.inducing import Inducing
from precog.sparse.rules import vectors
from precog.sparse.slopes import Evaluation, evaluation
from precog.sparse.task import Chosen, Task

ANYWHERE = np.array([[-np.inf, np.inf]])


def by_gradient(task: Task, start: Chosen, free: int | None = None) -> Chosen:
    """Move inducing inputs and hyperparameters from where they are: `free` inputs at a time, then all at once."""
    _, scale = vectors("moving inducing inputs", task, start.model)
    m = start.inducing.m
    size = max(m // 2, 1) if free is None else free
    order = task.rng.permutation(m)
    phases = [order[i : i + size] for i in range(0, m, size)] if size < m else []
    best = replace(start, model=task.start(start.model, start.inducing)) if task.learns else start
    best = replace(best, value=task.system(best.model, best.inducing).value())
    for moving in [*phases, np.arange(m)]:
        mover = _Mover(task, best, moving, scale)
        found = task.maximise(mover, mover.start, mover.bounds, "gradient")
        if found.value > best.value:
            model, Z = mover.at(found.theta)
            best = replace(best, model=model, inducing=Inducing(Z), value=found.value)
        values, why = [*best.values, best.value], f"{start.why}; then by gradient: {found.why}"
        best = replace(best, values=values, converged=found.converged, interrupted=found.interrupted, why=why)
        if task.budget.over or found.interrupted:
            break
    return best


class _Mover:
    """The objective as a function of theta and of some inducing inputs, in units of their columns' deviations."""

    def __init__(self, task: Task, begin: Chosen, moving: Index, scale: Array) -> None:
        self.task, self.model, self.moving, self.scale = task, begin.model, moving, scale
        self.Z = np.array(begin.inducing.Z, dtype=np.float64)
        theta, bounds = self.model.clipped(self.model.theta), self.model.bounds
        if not task.learns:
            theta, bounds = theta[:0], bounds[:0]
        self.q = len(theta)
        self.start = np.append(theta, (self.Z[moving] / scale).ravel())
        self.bounds = np.concatenate([bounds, np.repeat(ANYWHERE, len(self.start) - self.q, axis=0)])

    def at(self, point: Array) -> tuple[Model, Array]:
        """Return the model and the inducing inputs of a point."""
        Z = self.Z.copy()
        Z[self.moving] = point[self.q :].reshape(-1, Z.shape[1]) * self.scale
        return self.model.with_theta(point[: self.q]) if self.q else self.model, Z

    def __call__(self, point: Array) -> Evaluation:
        model, Z = self.at(point)
        found = evaluation(self.task.system(model, Inducing(Z)), moved=True)
        assert found.inputs is not None
        inputs = (found.inputs[self.moving] * self.scale).ravel()
        return replace(found, gradient=np.append(found.gradient[: self.q], inputs))
