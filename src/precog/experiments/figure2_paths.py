"""A search as the hyperparameters that it held at each time, and how it is recorded within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog.experiments.figure2_methods import Learner, Scores
from precog.inference import History
from precog.kernels.statistics import Array, Index

CUT_OFF, FAILED = "cut off by the budget", "failed: "
# What a search or a prediction raises where its matrices lose their definiteness: it leaves the others alone.
FAILURES = (ArithmeticError, np.linalg.LinAlgError)
# The search that holds the point it has just evaluated, whatever its value.
WALKING = "adagrad"


class OutOfTime(Exception):
    """The budget is spent; raised by who hears of the search, to end it where it is."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One evaluation of the objective, the seconds after which it was there, and what was held then.

    held: the number of the evaluation whose hyperparameters the search would have returned. scores: of these
    hyperparameters, once they are known.
    """

    seconds: float
    stage: str
    value: float
    held: int
    theta: Array
    scores: Scores | None = None


@dataclass(frozen=True, eq=False)
class Recorded:
    """All evaluations of a search, its seconds, and why it ended."""

    evaluations: tuple[Evaluation, ...]
    seconds: float
    ended: str


def record(
    learner: Learner, budget: float, steps: int | None = None, show: Callable[[int, float], object] | None = None
) -> Recorded:
    """Let a learner search until it ends or the seconds are spent; show hears of evaluations and seconds.

    What was evaluated until then is kept, also where the search fails. A solve can be cut off between two steps, a
    dense factor cannot.
    """

    def heard(*_: Any) -> None:
        seconds = time.perf_counter() - history.started
        if show is not None:
            show(len(history.rows), seconds)
        if seconds >= budget:
            raise OutOfTime

    history = History(listener=heard, inside=heard)
    theta: Array | None = None
    try:
        end = learner.search(history, steps)
        theta, ended = end.theta, end.why
    except OutOfTime:
        ended = CUT_OFF
    except FAILURES as error:
        if not history.rows:
            raise
        ended = f"{FAILED}{error}"
    seconds = time.perf_counter() - history.started
    return Recorded(tuple(_evaluations(history.rows, theta)), seconds, ended)


def _evaluations(rows: Sequence[dict[str, Any]], theta: Array | None) -> list[Evaluation]:
    """Return the evaluations; theta: where the search ended, if it did."""
    held = holding([row["stage"] for row in rows], [row["value"] for row in rows])
    last = [i for i, row in enumerate(rows) if theta is not None and np.array_equal(row["theta"], theta)]
    if last:
        held[-1] = last[-1]
    return [
        Evaluation(row["seconds"], row["stage"], row["value"], i, row["theta"])
        for row, i in zip(rows, held, strict=True)
    ]


def holding(stages: Sequence[str], values: Sequence[float]) -> list[int]:
    """Return which evaluation is held after each: the best of its stage, or the last one of steps without return."""
    held: list[int] = []
    for i, stage in enumerate(stages):
        began = i > 0 and stages[i - 1] == stage
        best = held[-1] if began and stage != WALKING and not values[i] > values[held[-1]] else i
        held.append(best)
    return held


def chosen(seconds: Sequence[float], every: int, most: int) -> list[int]:
    """Return which evaluations to predict at: the first, every so many, and the last.

    Of these, where there are more than `most`, those nearest to times that are evenly spread in their logarithm.
    """
    n = len(seconds)
    among = sorted({*range(0, n, every), n - 1}) if n else []
    if len(among) > most:
        logs = np.log(np.maximum([seconds[i] for i in among], 1e-6))
        wanted = np.linspace(logs[0], logs[-1], most)
        nearest: Index = np.abs(logs[:, None] - wanted).argmin(axis=0)
        among = [among[i] for i in np.unique(nearest)]
    return among
