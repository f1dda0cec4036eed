"""Data sets, runs and rows of Figures 2 and 3, in the columns that the published numbers are kept in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precog.experiments.records import read_csv, write_csv

FILE = "fig2.csv"
COLUMNS = (
    "dataset",
    "kernel",
    "metric",
    "solver",
    "fold",
    "time_s",
    "value",
    "eval_index",
    "measure",
    "step_size",
    "n_probe",
    "predict_every",
)
# The two metrics as the file calls them; the error is what the measure of its row says.
ERROR, NLL = "RMSE", "NEG_LLIK"
METRICS = (ERROR, NLL)
NLL_MEASURE = "neg_test_loglik_sum"
KERNELS = {"ARD": "one length scale for each input", "RBF": "one length scale for all inputs"}


@dataclass(frozen=True)
class Task:
    """A data set of the experiment.

    budget: seconds of learning for each method and fold. predictions: the most points of a curve that are predicted at.
    measure: what its error is.
    """

    title: str
    rows: int
    inputs: int
    budget: float
    predictions: int
    measure: str = "rmse"
    kernels: tuple[str, ...] = tuple(KERNELS)

    @property
    def held_out(self) -> int:
        return math.isqrt(self.rows)


TASKS = {
    "concrete": Task("Concrete", 1030, 8, budget=60.0, predictions=40),
    "powerplant": Task("Power plant", 9568, 4, budget=300.0, predictions=16),
    "protein": Task("Protein", 45730, 9, budget=1200.0, predictions=6),
}


@dataclass(frozen=True)
class Series:
    """What a curve of the figures is about."""

    dataset: str
    kernel: str
    solver: str

    def __str__(self) -> str:
        return f"{self.dataset} {self.kernel} {self.solver}"


@dataclass(frozen=True)
class Key:
    """One run: a series on one fold, counted from one."""

    series: Series
    fold: int

    def __str__(self) -> str:
        return f"{self.series}, fold {self.fold}"


@dataclass(frozen=True)
class Row:
    """One held-out metric at one time of a run; index counts what was predicted at. None is an empty field."""

    key: Key
    metric: str
    seconds: float
    value: float
    index: int
    measure: str
    step_size: float | None
    probes: float | None
    every: int

    def record(self) -> dict[str, Any]:
        series = self.key.series
        times = (f"{self.seconds:.6g}", f"{self.value:.10g}", self.index, self.measure)
        settings = tuple("" if value is None else f"{value:g}" for value in (self.step_size, self.probes))
        names = (series.dataset, series.kernel, self.metric, series.solver, self.key.fold)
        return dict(zip(COLUMNS, (*names, *times, *settings, self.every), strict=True))

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Row:
        return cls(
            Key(Series(record["dataset"], record["kernel"], record["solver"]), int(record["fold"])),
            record["metric"],
            float(record["time_s"]),
            float(record["value"]),
            int(record["eval_index"]),
            record["measure"],
            float(record["step_size"]) if record["step_size"] else None,
            float(record["n_probe"]) if record["n_probe"] else None,
            int(record["predict_every"]),
        )


def read(path: Path) -> list[Row]:
    """Return the rows of a file; none of a file that does not exist."""
    return [Row.from_record(record) for record in read_csv(path, COLUMNS)]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows by data set, kernel, metric, solver and fold, whatever the order in which they were computed."""
    tasks, kernels = list(TASKS), list(KERNELS)

    def place(row: Row) -> tuple[int, int, str, str, int, int]:
        series = row.key.series
        where = tasks.index(series.dataset), kernels.index(series.kernel)
        return *where, row.metric, series.solver, row.key.fold, row.index

    write_csv(path, COLUMNS, [row.record() for row in sorted(rows, key=place)])


def comparable(published: Iterable[Row]) -> list[Row]:
    """Return the published rows of step one; of runs that predicted more or less often, those that ran longest."""
    rows = [row for row in published if row.step_size in (None, 1.0) and row.key.series.dataset in TASKS]
    ends: dict[Series, dict[int, float]] = {}
    for row in rows:
        found = ends.setdefault(row.key.series, {})
        found[row.every] = max(found.get(row.every, 0.0), row.seconds)
    longest = {series: max(found, key=lambda every: found[every]) for series, found in ends.items()}
    return [row for row in rows if row.every == longest[row.key.series]]
