"""What a long run shows while it works: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.progress import Progress

Array = NDArray[np.float64]
Report = Callable[[str], object]

# Often enough for a bar to look alive; rarely enough for a file of lines to be read.
BAR_SECONDS, LINE_SECONDS = 0.2, 60.0


class Watch(Protocol):
    """Who hears of the run: which solve begins, its iterations, and the line that sums it up."""

    def begin(self, title: str) -> None: ...

    def step(self, step: int, residuals: Array) -> None: ...

    def done(self, line: str) -> None: ...


class Lines:
    """One line for each solve, and one a minute inside a long one."""

    def __init__(self, report: Report, total: int) -> None:
        self.report, self.total, self.finished = report, total, 0
        self.title, self.last = "", time.monotonic()

    def begin(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()

    def step(self, step: int, residuals: Array) -> None:
        now = time.monotonic()
        if now - self.last >= LINE_SECONDS:
            self.last = now
            residual = float(np.max(residuals))
            self.report(f"  {self.title}: iteration {step}, relative residual {residual:.1e}")

    def done(self, line: str) -> None:
        self.finished += 1
        self.report(f"{self.finished:>4}/{self.total} {line}")


class Bar:
    """A bar over all solves, with the iteration and the residual of the one that runs."""

    def __init__(self, progress: Progress, report: Report, total: int) -> None:
        self.progress, self.report = progress, report
        self.task = progress.add_task("", total=total, state="")
        self.last = 0.0

    def begin(self, title: str) -> None:
        self.last = 0.0
        self.progress.update(self.task, description=title, state="")

    def step(self, step: int, residuals: Array) -> None:
        now = time.monotonic()
        if now - self.last >= BAR_SECONDS:
            self.last = now
            self.progress.update(self.task, state=f"step {step}: {float(np.max(residuals)):.0e}")

    def done(self, line: str) -> None:
        self.report(line)
        self.progress.advance(self.task)


@contextmanager
def watching(report: Report, total: int) -> Iterator[Watch]:
    """Show a bar where `report` prints to a terminal and rich is installed, lines elsewhere or when nothing is left."""
    if report is not print or not sys.stdout.isatty() or not total:
        yield Lines(report, total)
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield Lines(report, total)
        return
    # Together they fit into eighty columns.
    columns = (MofNCompleteColumn(), BarColumn(bar_width=6), TimeElapsedColumn())
    texts = (TextColumn("{task.description}"), TextColumn("{task.fields[state]}"))
    # rich takes what is printed in the meantime and shows it above the bar.
    with Progress(*columns, *texts) as progress:
        yield Bar(progress, report, total)
