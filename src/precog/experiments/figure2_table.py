"""Where the curves of Figures 2 and 3 end, beside the published ones.

Folds differ far more than methods do, so methods are compared on the same folds. The published folds are other rows,
and the published seconds those of sixteen cores, with predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from precog.experiments.figure2_book import Book
from precog.experiments.figure2_methods import METHODS
from precog.experiments.figure2_rows import ERROR, KERNELS, NLL, TASKS, Key, Row, Series, comparable
from precog.experiments.records import write_csv
from precog.kernels.statistics import Array

# The method that others are set beside: it ends at an optimum of the exact likelihood.
EXACT = METHODS["chol"].solver


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of one run, for each held-out point, at rising seconds."""

    seconds: Array
    values: Array


# By series and metric, then by fold.
Curves: TypeAlias = dict[tuple[Series, str], dict[int, Curve]]


def curves(rows: Iterable[Row], points: Callable[[Key], int]) -> Curves:
    """Return the curves of some rows; points: how many rows a run holds out."""
    grouped: dict[tuple[Key, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.key, row.metric), []).append(row)
    found: Curves = {}
    for (key, metric), some in grouped.items():
        some.sort(key=lambda row: row.index)
        values = np.array([row.value for row in some]) / (points(key) if metric == NLL else 1)
        found.setdefault((key.series, metric), {})[key.fold] = Curve(np.array([row.seconds for row in some]), values)
    return found


def ours(book: Book) -> Curves:
    return curves(book.rows, lambda key: book.runs[key].test)


def theirs(published: Iterable[Row]) -> Curves:
    """Return the comparable ones of the published curves."""
    return curves(comparable(published), lambda key: TASKS[key.series.dataset].held_out)


@dataclass(frozen=True)
class Mean:
    """A mean over folds, and its standard error; nan of a single fold."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        each = np.array(list(values))
        error = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan
        return cls(float(each.mean()), error)

    def __str__(self) -> str:
        return f"{self.value:.4f}" + ("" if np.isnan(self.error) else f" ± {self.error:.4f}")


@dataclass(frozen=True)
class End:
    """Where a series ends, over its folds."""

    folds: int
    seconds: float
    error: Mean
    nll: Mean


@dataclass(frozen=True)
class Pair:
    """The same series, computed and published, if it is."""

    series: Series
    ours: End
    published: End | None


def compare(book: Book, published: Sequence[Row]) -> list[Pair]:
    """Return where every series of a folder ends, in the order of the tables of data sets, kernels and methods."""
    found, other = ends(ours(book)), ends(theirs(published))
    order = [Series(name, kernel, method.solver) for name in TASKS for kernel in KERNELS for method in METHODS.values()]
    return [Pair(series, found[series], other.get(series)) for series in order if series in found]


def ends(found: Curves) -> dict[Series, End]:
    return {
        series: End(
            len(folds),
            float(np.mean([curve.seconds[-1] for curve in folds.values()])),
            Mean.of(curve.values[-1] for curve in folds.values()),
            Mean.of(curve.values[-1] for curve in found[series, NLL].values()),
        )
        for (series, metric), folds in found.items()
        if metric == ERROR
    }


def beside_exact(book: Book) -> dict[Series, tuple[int, Mean, Mean]]:
    """Return how many folds a series shares with the exact one, and how much its error and NLL are above that."""
    found, differences = ours(book), {}
    for series, metric in found:
        exact = Series(series.dataset, series.kernel, EXACT)
        folds = sorted(found[series, ERROR].keys() & found.get((exact, ERROR), {}).keys())
        if metric == ERROR and series != exact and folds:
            error, nll = (
                Mean.of(found[series, m][k].values[-1] - found[exact, m][k].values[-1] for k in folds)
                for m in (ERROR, NLL)
            )
            differences[series] = len(folds), error, nll
    return differences


SUMMARY_COLUMNS = (
    "dataset",
    "kernel",
    "solver",
    *(
        f"{name}{of}"
        for of in ("", "_published")
        for name in ("folds", "seconds", "error", "error_se", "nll_per_point", "nll_per_point_se")
    ),
)


def save(pairs: Sequence[Pair], path: Path) -> None:
    """Write where every series ends; nothing published leaves fields empty."""
    records = []
    for pair in pairs:
        values: list[object] = [pair.series.dataset, pair.series.kernel, pair.series.solver]
        for end in (pair.ours, pair.published):
            numbers = (
                () if end is None else (end.seconds, end.error.value, end.error.error, end.nll.value, end.nll.error)
            )
            values += (
                ["", *[""] * 5] if end is None else [end.folds, *("" if np.isnan(x) else f"{x:.8g}" for x in numbers)]
            )
        records.append(dict(zip(SUMMARY_COLUMNS, values, strict=True)))
    write_csv(path, SUMMARY_COLUMNS, records)


def summary(pairs: Sequence[Pair], book: Book) -> list[str]:
    """Return where the curves end, line by line, then how far from exact optimisation on the same folds."""
    lines = [
        "where the curves end: means over folds ± their standard errors, NLL for each held-out point",
        _line("", "folds", "seconds", "error", "NLL", "published:", "s, 16 cores", "error", "NLL"),
    ]
    for pair in pairs:
        end, other = pair.ours, pair.published
        here = (f"{end.folds}", f"{end.seconds:.1f}", f"{end.error}", f"{end.nll}")
        there = ("",) * 4
        if other is not None:
            there = (
                f"{other.folds} folds",
                f"{other.seconds:.0f}",
                f"{other.error.value:.4f}",
                f"{other.nll.value:.4f}",
            )
        lines.append(_line(str(pair.series), *here, *there))
    apart = beside_exact(book)
    if apart:
        lines.append(f"above {EXACT} on the same folds")
        lines += [
            _line(str(pair.series), f"{count}", "", f"{error.value:+.4f}", f"{nll.value:+.4f}")
            for pair in pairs
            if pair.series in apart
            for count, error, nll in [apart[pair.series]]
        ]
    return lines


def _line(label: str, *cells: str) -> str:
    widths = (6, 9, 17, 18, 13, 13, 9, 9)
    return f"  {label:<24}{''.join(f'{cell:>{width}}' for cell, width in zip(cells, widths, strict=False))}".rstrip()
