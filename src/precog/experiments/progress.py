"""What a long run shows while it works: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

Report = Callable[[str], object]

# Often enough for a bar to look alive; rarely enough for a file of lines to be read.
BAR_SECONDS, LINE_SECONDS = 0.2, 60.0


class Watch(Protocol):
    """Who hears of the run: which part begins, where it stands, in full and in brief, and the line that sums it up."""

    def begin(self, title: str) -> None: ...

    def step(self, state: str, brief: str) -> None: ...

    def done(self, line: str) -> None: ...


class Lines:
    """One line for each part, and one a minute inside a long one."""

    def __init__(self, report: Report, total: int) -> None:
        self.report, self.total, self.finished = report, total, 0
        self.title, self.last = "", time.monotonic()

    def begin(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()

    def step(self, state: str, brief: str) -> None:
        now = time.monotonic()
        if now - self.last >= LINE_SECONDS:
            self.last = now
            self.report(f"  {self.title}: {state}")

    def done(self, line: str) -> None:
        self.finished += 1
        self.report(f"{self.finished:>4}/{self.total} {line}")


class Bar:
    """A bar over all parts, with the state of the one that runs."""

    def __init__(self, progress: Progress, report: Report, total: int) -> None:
        self.progress, self.report = progress, report
        self.task = progress.add_task("", total=total, state="")
        self.last = 0.0

    def begin(self, title: str) -> None:
        self.last = 0.0
        self.progress.update(self.task, description=title, state="")

    def step(self, state: str, brief: str) -> None:
        now = time.monotonic()
        if now - self.last >= BAR_SECONDS:
            self.last = now
            self.progress.update(self.task, state=brief)

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
