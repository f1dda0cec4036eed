"""The files of a run of Figures 2 and 3: how every search ended, the path that it took, and the rows that follow.

A path is written when its search ends and again after each prediction, so that an interrupted run loses one search or
one prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from precog.experiments import figure2_rows
from precog.experiments.figure2_methods import BY_SOLVER, Scores
from precog.experiments.figure2_paths import CUT_OFF, FAILED, Evaluation, Recorded, chosen
from precog.experiments.figure2_rows import ERROR, METRICS, NLL_MEASURE, TASKS, Key, Row, Series
from precog.experiments.records import read_csv, write_csv

RUNS_FILE, PATHS = "fig2_runs.csv", "fig2_paths"
PATH_COLUMNS = ("evaluation", "seconds", "stage", "value", "held", "error", "nll", "theta")
TYPES = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Run:
    """One search: training and held-out rows, evaluations, seconds of the clock and of the budget, why it ended."""

    dataset: str
    kernel: str
    solver: str
    fold: int
    train: int
    test: int
    evaluations: int
    seconds: float
    budget: float
    ended: str

    @property
    def key(self) -> Key:
        return Key(Series(self.dataset, self.kernel, self.solver), self.fold)

    @property
    def cut_off(self) -> bool:
        return self.ended == CUT_OFF

    @property
    def early(self) -> bool:
        """Whether the search did not come to an end of its own."""
        return self.cut_off or self.ended.startswith(FAILED)


RUN_COLUMNS = tuple(field.name for field in fields(Run))


@dataclass(frozen=True)
class Sampling:
    """Which points of a path are predicted at: of every so many evaluations, so many at most."""

    every: int
    most: int

    def of(self, path: Sequence[Evaluation]) -> list[int]:
        return chosen([evaluation.seconds for evaluation in path], self.every, self.most)


class Book:
    """A folder's runs and rows; paths are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        records = read_csv(folder / RUNS_FILE, RUN_COLUMNS)
        runs = [Run(**{f.name: TYPES[str(f.type)](record[f.name]) for f in fields(Run)}) for record in records]
        # A run whose path is lost has to be made again.
        self.runs = {run.key: run for run in runs if self._place(run.key).exists()}
        self.rows = figure2_rows.read(folder / figure2_rows.FILE)

    def add(self, key: Key, recorded: Recorded, *, train: int, test: int, budget: float) -> Run:
        """Write the path of a search that has ended, then that it has."""
        self.write_path(key, recorded.evaluations)
        series, size = key.series, len(recorded.evaluations)
        names = (series.dataset, series.kernel, series.solver, key.fold)
        run = Run(*names, train, test, size, round(recorded.seconds, 6), budget, recorded.ended)
        self.runs[key] = run
        write_csv(self.folder / RUNS_FILE, RUN_COLUMNS, [asdict(run) for run in self.runs.values()])
        return run

    def unscored(self, key: Key, sampling: Sampling) -> list[int]:
        """Return the evaluations of a run whose hyperparameters are still to be predicted with."""
        path = self.path(key)
        held = dict.fromkeys(path[i].held for i in sampling.of(path))
        return [i for i in held if path[i].scores is None]

    def done(self, key: Key, sampling: Sampling) -> bool:
        return key in self.runs and not self.unscored(key, sampling)

    def score(self, key: Key, number: int, scores: Scores) -> None:
        """Write what one evaluation's hyperparameters predict."""
        path = self.path(key)
        path[number] = replace(path[number], scores=scores)
        self.write_path(key, path)

    def publish(self, keys: Iterable[Key], sampling: Mapping[str, Sampling]) -> None:
        """Write the rows of some runs anew, from their paths."""
        keys = list(keys)
        new = [row for key in keys for row in self._rows_of(key, sampling[key.series.dataset])]
        self.rows = [row for row in self.rows if row.key not in keys] + new
        figure2_rows.write(self.folder / figure2_rows.FILE, self.rows)

    def path(self, key: Key) -> list[Evaluation]:
        return [_evaluation(record) for record in read_csv(self._place(key), PATH_COLUMNS)]

    def write_path(self, key: Key, path: Sequence[Evaluation]) -> None:
        write_csv(self._place(key), PATH_COLUMNS, [_record(i, evaluation) for i, evaluation in enumerate(path)])

    def _place(self, key: Key) -> Path:
        series = key.series
        name = "_".join((series.dataset, series.kernel, series.solver, str(key.fold)))
        return self.folder / PATHS / f"{name.lower()}.csv"

    def _rows_of(self, key: Key, sampling: Sampling) -> list[Row]:
        method, path, rows = BY_SOLVER[key.series.solver], self.path(key), []
        scored = [(path[i].seconds, scores) for i in sampling.of(path) if (scores := path[path[i].held].scores)]
        for metric in METRICS:
            measure = TASKS[key.series.dataset].measure if metric == ERROR else NLL_MEASURE
            for index, (seconds, scores) in enumerate(scored):
                value = scores.error if metric == ERROR else scores.nll
                settings = (method.step_size, method.probes, sampling.every)
                rows.append(Row(key, metric, seconds, value, index, measure, *settings))
        return rows


def _record(number: int, evaluation: Evaluation) -> dict[str, Any]:
    scores = evaluation.scores
    error, nll = ("", "") if scores is None else (repr(scores.error), repr(scores.nll))
    theta = " ".join(repr(float(value)) for value in evaluation.theta)
    seconds = f"{evaluation.seconds:.6g}"
    values = (number, seconds, evaluation.stage, evaluation.value, evaluation.held, error, nll, theta)
    return dict(zip(PATH_COLUMNS, values, strict=True))


def _evaluation(record: dict[str, str]) -> Evaluation:
    scores = Scores(float(record["error"]), float(record["nll"])) if record["error"] else None
    theta = np.array([float(value) for value in record["theta"].split()])
    numbers = float(record["seconds"]), record["stage"], float(record["value"]), int(record["held"])
    return Evaluation(*numbers, theta, scores)
