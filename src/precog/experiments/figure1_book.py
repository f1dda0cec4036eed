"""The files of a run of Figure 1: how every solve went, and the rows that follow from that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

from precog.experiments import figure1_rows
from precog.experiments.figure1_methods import METHODS, PLAIN, Timing
from precog.experiments.figure1_rows import Cell, Key, Row
from precog.experiments.records import read_csv, write_csv

SECONDS_FILE = "fig1_seconds.csv"
TIMING_COLUMNS = tuple(field.name for field in fields(Timing))
TYPES = {"int": int, "float": float, "str": str}


class Book:
    """A folder's timings, written as each solve ends, and its rows, written as soon as both of their counts are known.

    So an interrupted run loses no solve that came to its end, in whatever order they did.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = figure1_rows.read(folder / figure1_rows.FILE)
        records = read_csv(folder / SECONDS_FILE, TIMING_COLUMNS)
        timings = [Timing(**{f.name: TYPES[str(f.type)](record[f.name]) for f in fields(Timing)}) for record in records]
        self.timings = {timing.key: timing for timing in timings}

    def has(self, key: Key) -> bool:
        """Return whether the solve was made, as its timing or all of its rows tell."""
        if key.preconditioner == PLAIN:
            return self.plain(key.dataset, key.cell) is not None
        return key in self.timings or self.complete(key)

    def complete(self, key: Key) -> bool:
        """Return whether all rows of a preconditioner are there."""
        return all(Key(key.dataset, name, key.cell) in self.rows for name in METHODS[key.preconditioner].rows)

    def add(self, timing: Timing) -> None:
        self.timings[timing.key] = timing
        records = [asdict(timing) for timing in self.timings.values()]
        write_csv(self.folder / SECONDS_FILE, TIMING_COLUMNS, records)
        new = {row.key: row for row in self._rows_of(timing.key.dataset, timing.key.cell)}
        if new:
            self.rows |= new
            figure1_rows.write(self.folder / figure1_rows.FILE, self.rows)

    def plain(self, dataset: str, cell: Cell) -> tuple[int, bool] | None:
        """Return the count without a preconditioner and whether it is capped, from whatever knows them."""
        timing = self.timings.get(Key(dataset, PLAIN, cell))
        if timing is not None:
            return timing.count, timing.capped
        row = next((row for key, row in self.rows.items() if (key.dataset, key.cell) == (dataset, cell)), None)
        return None if row is None else (row.cg, row.cg_capped)

    def _rows_of(self, dataset: str, cell: Cell) -> Iterator[Row]:
        """Yield the rows of one system that its timings tell and the file has not."""
        plain = self.plain(dataset, cell)
        if plain is None:
            return
        for key, timing in self.timings.items():
            if (key.dataset, key.cell) == (dataset, cell) and key.preconditioner != PLAIN and not self.complete(key):
                counts = ((timing.method.row, timing.count), (timing.method.total, timing.count + timing.inner))
                for name, pcg in counts:
                    if name:
                        about = Key(dataset, name, cell)
                        yield Row.of(about, plain[0], pcg, cg_capped=plain[1], pcg_capped=timing.capped)
