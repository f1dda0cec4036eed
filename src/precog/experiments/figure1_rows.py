"""Cells and rows of Figure 1, and the CSV files that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from precog.experiments.records import read_csv, write_csv

LOG10_LENGTH_SCALES = (-3, -2, -1, 0, 1, 2)
LOG10_NOISES = (-2, -4, -6)
# Rows of inputs.
SIZES = {"concrete": 1030, "powerplant": 9568, "protein": 45730}
DATASETS = tuple(SIZES)
PUBLISHED = ("block_jacobi", "pitc", "fitc", "nystrom", "spectral", "randomized_svd", "regularized", "ski")
# Not in the paper: random pivots alone, with blocks of neighbours where they leave out much, and under neighbours.
NEW = ("rpcholesky", "rpcholesky_local", "vecchia")
# Outer and inner iterations of the same run of "ski" in one number. Those of "regularized" are always in one number.
SKI_TOTAL = "ski_inner_total"
ROWS = (*PUBLISHED, SKI_TOTAL, *NEW)

FILE = "fig1.csv"
COLUMNS = (
    "dataset",
    "preconditioner",
    "log10_lengthscale",
    "log10_noise",
    "log10_cg_iterations",
    "log10_ratio",
    "cg_iterations",
    "pcg_iterations",
    "cg_capped",
    "pcg_capped",
    "pcg_integral",
)
# Published runs of "ski" were cut when the total of their iterations passed this, without a flag.
CUT = 15_000


@dataclass(frozen=True, order=True)
class Cell:
    """One system of a data set: the powers of ten of its length scale and its noise."""

    log10_length_scale: int
    log10_noise: int

    def __str__(self) -> str:
        return f"ℓ=1e{self.log10_length_scale} σ²=1e{self.log10_noise}"


CELLS = tuple(Cell(length_scale, noise) for noise in LOG10_NOISES for length_scale in LOG10_LENGTH_SCALES)


@dataclass(frozen=True)
class Key:
    """What a row is about."""

    dataset: str
    preconditioner: str
    cell: Cell

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the row stands in the file."""
        return DATASETS.index(self.dataset), ROWS.index(self.preconditioner), CELLS.index(self.cell)


@dataclass(frozen=True)
class Row:
    """Iterations without a preconditioner (cg) and with one (pcg), which are lower bounds where they are capped.

    log10_ratio: log10(pcg / cg). integral: False where a published ratio was taken against another count than cg.
    """

    key: Key
    cg: int
    pcg: float
    cg_capped: bool
    pcg_capped: bool
    log10_ratio: float
    integral: bool = True

    @classmethod
    def of(cls, key: Key, cg: int, pcg: int, *, cg_capped: bool, pcg_capped: bool) -> Row:
        # No step at all is counted as one, which only a residual that was small from the start could need.
        return cls(key, cg, pcg, cg_capped, pcg_capped, math.log10(max(pcg, 1) / max(cg, 1)))

    @property
    def counts(self) -> bool:
        """Whether neither number is only a bound."""
        return not (self.cg_capped or self.pcg_capped)

    def record(self) -> dict[str, Any]:
        values = (
            self.key.dataset,
            self.key.preconditioner,
            self.key.cell.log10_length_scale,
            self.key.cell.log10_noise,
            math.log10(max(self.cg, 1)),
            self.log10_ratio,
            self.cg,
            f"{self.pcg:.10g}",
            int(self.cg_capped),
            int(self.pcg_capped),
            int(self.integral),
        )
        return dict(zip(COLUMNS, values, strict=True))

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> Row:
        cell = Cell(int(record["log10_lengthscale"]), int(record["log10_noise"]))
        return cls(
            Key(record["dataset"], record["preconditioner"], cell),
            int(record["cg_iterations"]),
            float(record["pcg_iterations"]),
            record["cg_capped"] == "1",
            record["pcg_capped"] == "1",
            float(record["log10_ratio"]),
            record["pcg_integral"] == "1",
        )


Rows = Mapping[Key, Row]


def read(path: Path) -> dict[Key, Row]:
    """Return the rows of a file by what they are about; none of a file that does not exist."""
    rows = [Row.from_record(record) for record in read_csv(path, COLUMNS)]
    return {row.key: row for row in rows}


def flag_cut(published: Rows) -> dict[Key, Row]:
    """Return published rows with those flagged as capped that were cut."""
    cut = {
        (key.dataset, key.cell) for key, row in published.items() if key.preconditioner == SKI_TOTAL and row.pcg >= CUT
    }

    def ended(key: Key, row: Row) -> bool:
        return row.pcg < CUT and not (key.preconditioner == "ski" and (key.dataset, key.cell) in cut)

    return {key: row if ended(key, row) else replace(row, pcg_capped=True) for key, row in published.items()}


def write(path: Path, rows: Rows) -> None:
    """Write all rows in a fixed order, whatever the order in which they were computed."""
    write_csv(path, COLUMNS, [rows[key].record() for key in sorted(rows, key=lambda key: key.place)])


def chosen_cells(cells: str | Iterable[tuple[int, int]] | None, dataset: str, published: Rows) -> list[Cell]:
    """Return the cells named by "-1,-2;0,-2" (log10 ℓ, log10 σ²), by "cg<=1000" (published), or by pairs."""
    if cells is None:
        return list(CELLS)
    if isinstance(cells, str) and cells.replace(" ", "").startswith("cg<="):
        return _cells_with_few(cells, dataset, published)
    try:
        pairs = (
            [tuple(map(int, pair.split(","))) for pair in cells.split(";")] if isinstance(cells, str) else list(cells)
        )
        chosen = [Cell(*pair) for pair in pairs]
    except (TypeError, ValueError):
        raise ValueError(f"cells must be such as '-1,-2;0,-2' or 'cg<=1000', got {cells!r}") from None
    for cell in chosen:
        if cell not in CELLS:
            raise ValueError(
                f"{cell} is no cell of the figure: log10 length scales are {LOG10_LENGTH_SCALES}, "
                f"log10 noises {LOG10_NOISES}, and the length scale comes first"
            )
    return list(dict.fromkeys(chosen))


def _cells_with_few(cells: str, dataset: str, published: Rows) -> list[Cell]:
    try:
        most = int(cells.partition("<=")[2])
    except ValueError:
        raise ValueError(f"cells must be such as 'cg<=1000', got {cells!r}") from None
    counts = {key.cell: row.cg for key, row in published.items() if key.dataset == dataset}
    if not counts:
        raise ValueError(
            f"cells={cells!r} needs the published counts of {dataset}, and there are none; name the folder of "
            f"{FILE} by --reference, leave this data set out, or name cells"
        )
    return [cell for cell in CELLS if cell in counts and counts[cell] <= most]
