"""Inducing inputs by a rule, at the hyperparameters of the moment.

random       rows without replacement
kmeans       centres of clusters, which are no rows
greedy       the row with the largest conditional variance, one after the other: pivoted Cholesky
rpcholesky   rows drawn in proportion to their conditional variance
ivm          the row whose target would say most about f: largest variance given the noisy targets of those before it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from precog.inference.model import Model
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array
from precog.precond import factors
from precog.precond.base import Problem, problem
from precog.sparse.inducing import Inducing
from precog.sparse.task import Chosen, Task

# Rounds of choosing and learning, for rules that look at the hyperparameters.
ROUNDS = 3


def random(task: Task, model: Model) -> Inducing:
    return Inducing.of(task.targets.X, task.rng.choice(task.targets.n, _count(task), replace=False))


def kmeans(task: Task, model: Model) -> Inducing:
    """Return the centres of clusters of the inputs, each column in units of its standard deviation."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    X, scale = vectors("kmeans", task, model)
    count = min(task.m, len(np.unique(X, axis=0)))
    means = MiniBatchKMeans(count, random_state=int(task.rng.integers(2**31)), n_init=1)
    # Small batches are done before threads have met: a hundred times faster on a processor that others use.
    with threadpool_limits(1):
        means.fit(X / scale)
    return Inducing(np.asarray(means.cluster_centers_, dtype=np.float64) * scale)


def greedy(task: Task, model: Model) -> Inducing:
    return Inducing.of(task.targets.X, factors.greedy(_problem(task, model), _count(task), "float64").pivots)


def rpcholesky(task: Task, model: Model) -> Inducing:
    built = factors.random_pivots(_problem(task, model), _count(task), task.rng, "float64")
    return Inducing.of(task.targets.X, built.pivots)


def ivm(task: Task, model: Model) -> Inducing:
    """Return rows by information gain, ½ log(1 + v / σ²) with v the variance given the targets chosen before."""
    own = _problem(task, model)
    v, noise = np.asarray(own.K.diag(), dtype=np.float64).copy(), own.noise
    F = np.empty((own.n, _count(task)), order="F")
    chosen: list[int] = []
    for k in range(F.shape[1]):
        gain = v / noise
        gain[chosen] = -1.0
        row = int(gain.argmax())
        column = np.asarray(own.K.block(slice(None), [row]), dtype=np.float64)[:, 0] - F[:, :k] @ F[row, :k]
        F[:, k] = column / np.sqrt(v[row] + noise[row])
        v = np.maximum(v - F[:, k] ** 2, 0.0)
        chosen.append(row)
    return Inducing.of(task.targets.X, chosen)


RULES: dict[str, Callable[[Task, Model], Inducing]] = {
    "random": random,
    "kmeans": kmeans,
    "greedy": greedy,
    "rpcholesky": rpcholesky,
    "ivm": ivm,
}
# These do not look at the hyperparameters.
ONCE = ("random", "kmeans")


def _count(task: Task) -> int:
    return min(task.m, task.targets.n)


def _problem(task: Task, model: Model) -> Problem:
    return problem(task.targets.operator(model, threads=task.threads))


def vectors(name: str, task: Task, model: Model) -> tuple[Array, Array]:
    """Return the inputs and their columns' standard deviations, or say that these are no vectors."""
    if on_objects(model.kernel):
        raise TypeError(f"{name} needs inputs that are vectors; choose among the objects, by 'cholqr' or 'rpcholesky'")
    X = np.asarray(task.targets.X, dtype=np.float64)
    scale = X.std(axis=0)
    return X, np.where(scale > 0, scale, 1.0)


def by_rule(task: Task, model: Model, name: str) -> Chosen:
    """Return the best of some rounds: inducing inputs by a rule, then the hyperparameters for them."""
    if not task.learns or not len(model.theta):
        inducing = RULES[name](task, model)
        value = task.system(model, inducing).value()
        return Chosen(model, inducing, value, [value], why=f"by {name}")
    best: Chosen | None = None
    values: list[float] = []
    for count in range(1 if name in ONCE else min(ROUNDS, task.budget.rounds)):
        inducing = RULES[name](task, model)
        model = model if count else task.start(model, inducing)
        found = task.learn(model, inducing)
        model = model.with_theta(found.theta)
        if best is None or found.value > best.value:
            why = f"by {name}: {found.why}"
            best = Chosen(model, inducing, found.value, [], found.converged, found.interrupted, why)
        values.append(best.value)
        if task.budget.over or found.interrupted:
            break
    assert best is not None
    return replace(best, values=values)
