"""How rows of Figure 1 compare with the published ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from precog.experiments.figure1_rows import (
    CELLS,
    COLUMNS,
    DATASETS,
    NEW,
    PUBLISHED,
    ROWS,
    SIZES,
    Cell,
    Key,
    Row,
    Rows,
    flag_cut,
)
from precog.experiments.records import write_csv

# Counts beyond a hundred depend on rounding: in extended precision they are up to 40 % smaller than in double.
EASY, CG_TOLERANCE = 100, 0.1
RATIO_TOLERANCE = 0.35
# The randomised SVD multiplies ⌊√n⌋ + 10 columns with K so often before the first step, in the published code as often
# at least. What the others take while they are built is less than one product.
SVD_PASSES, OVERSAMPLES = 4, 10


@dataclass(frozen=True)
class Share:
    """How many of how many."""

    met: int
    of: int

    @classmethod
    def among(cls, answers: Iterable[bool]) -> Share:
        answers = list(answers)
        return cls(sum(answers), len(answers))

    def __str__(self) -> str:
        return f"{self.met} of {self.of} ({100 * self.met / self.of:.0f} %)" if self.of else "none to compare"


@dataclass(frozen=True)
class Pair:
    """The same cell, computed and published."""

    ours: Row
    published: Row

    @property
    def counts(self) -> bool:
        return self.ours.counts and self.published.counts

    @property
    def difference(self) -> float:
        return self.ours.log10_ratio - self.published.log10_ratio

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= RATIO_TOLERANCE

    @property
    def cg_is_easy(self) -> bool:
        return not (self.ours.cg_capped or self.published.cg_capped) and self.published.cg <= EASY

    @property
    def cg_agrees(self) -> bool:
        return abs(self.ours.cg - self.published.cg) <= CG_TOLERANCE * self.published.cg


@dataclass(frozen=True)
class Contest:
    """In how many cells of each data set a new preconditioner needs no more than the best of the paper's.

    costs: "products" with K, those of building included, or "iterations". against: the paper's, "as published" or "as
    computed here".
    """

    name: str
    costs: str
    against: str
    shares: dict[str, Share]


@dataclass(frozen=True)
class Comparison:
    """Shares of cells that agree with the published ones, and of those where the new preconditioners are first.

    cg: by data set, cells with few published iterations without a preconditioner where ours are as many. ratios: by
    data set and preconditioner, cells where log10(PCG / CG) agrees.
    """

    pairs: tuple[Pair, ...]
    cg: dict[str, Share]
    ratios: dict[tuple[str, str], Share]
    contests: tuple[Contest, ...]


def compare(rows: Rows, published: Rows) -> Comparison:
    """Set computed rows beside published ones; only cells count where no number is a bound."""
    published = flag_cut(published)
    keys = sorted(rows.keys() & published.keys(), key=lambda key: key.place)
    pairs = tuple(Pair(rows[key], published[key]) for key in keys)
    names = [name for name in DATASETS if any(key.dataset == name for key in rows)]
    groups = dict.fromkeys((key.dataset, key.preconditioner) for key in keys)
    return Comparison(
        pairs,
        cg={name: Share.among(pair.cg_agrees for pair in easy(pairs, name)) for name in names},
        ratios={
            group: Share.among(
                pair.agrees
                for pair in pairs
                if pair.counts and (pair.ours.key.dataset, pair.ours.key.preconditioner) == group
            )
            for group in groups
        },
        contests=tuple(
            Contest(new, costs, against, {name: first(rows, others, name, new, cost) for name in names})
            for new in NEW
            for costs, cost in COSTS.items()
            for against, others in (("as published", published), ("as computed here", rows))
        ),
    )


def products(row: Row) -> float:
    """Return the products with K that a row stands for, those of building its preconditioner included."""
    if row.key.preconditioner != "randomized_svd":
        return row.pcg
    return row.pcg + SVD_PASSES * (math.isqrt(SIZES[row.key.dataset]) + OVERSAMPLES)


def iterations(row: Row) -> float:
    return row.pcg


Cost: TypeAlias = Callable[[Row], float]
COSTS: dict[str, Cost] = {"products": products, "iterations": iterations}


def easy(pairs: Iterable[Pair], dataset: str) -> list[Pair]:
    """Return one pair for each cell of a data set that needs few iterations without a preconditioner."""
    found = {pair.ours.key.cell: pair for pair in pairs if pair.ours.key.dataset == dataset and pair.cg_is_easy}
    return list(found.values())


def best(rows: Rows, dataset: str, cell: Cell, cost: Cost) -> Row | None:
    """Return the row of the paper's preconditioners with the least cost, if any came to its end."""
    found = [rows.get(Key(dataset, name, cell)) for name in PUBLISHED]
    return min((row for row in found if row and row.counts), key=cost, default=None)


def first(rows: Rows, others: Rows, dataset: str, name: str, cost: Cost) -> Share:
    """Count the cells where the named preconditioner costs no more than the best of the others.

    A cell where the named one was stopped and another one was not is a cell where it costs more.
    """
    answers = []
    for cell in CELLS:
        row, other = rows.get(Key(dataset, name, cell)), best(others, dataset, cell, cost)
        if row and other and not row.cg_capped:
            answers.append(not row.pcg_capped and cost(row) <= cost(other))
    return Share.among(answers)


COMPARISON_COLUMNS = (
    *COLUMNS[:4],
    "cg_published",
    "cg_ours",
    "pcg_published",
    "pcg_ours",
    "log10_ratio_published",
    "log10_ratio_ours",
    "counts",
    "agrees",
)


def save(comparison: Comparison, path: Path) -> None:
    """Write both numbers of every cell that has been published."""
    records = []
    for pair in comparison.pairs:
        ours, published = pair.ours.record(), pair.published.record()
        both = [(published[name], ours[name]) for name in ("cg_iterations", "pcg_iterations", "log10_ratio")]
        values = [ours[name] for name in COLUMNS[:4]] + [value for two in both for value in two]
        records.append(
            dict(zip(COMPARISON_COLUMNS, (*values, int(pair.counts), int(pair.counts and pair.agrees)), strict=True))
        )
    write_csv(path, COMPARISON_COLUMNS, records)


def summary(comparison: Comparison) -> list[str]:
    """Return the comparison, line by line."""
    names = list(comparison.cg)
    lines = [_line("", names)]
    lines.append(f"without a preconditioner: within {100 * CG_TOLERANCE:.0f} %, of at most {EASY} published iterations")
    lines.append(_line("CG", [str(share) for share in comparison.cg.values()]))
    lines.append(f"log10(PCG / CG) within {RATIO_TOLERANCE} of the published value, where no run was capped")
    for name in ROWS:
        shares = [comparison.ratios.get((dataset, name)) for dataset in names]
        if any(shares):
            lines.append(_line(name, ["not published" if share is None else str(share) for share in shares]))
    lines.append("no more than the best of the paper's preconditioners takes")
    for contest in comparison.contests:
        if any(share.of for share in contest.shares.values()):
            label = f"{contest.name}, {contest.costs}, {contest.against}"
            lines.append(_line(label, [str(share) for share in contest.shares.values()]))
    return [*lines, *_outside(comparison)]


def _line(label: str, cells: Sequence[str]) -> str:
    return f"  {label:<48}{''.join(f'{cell:>22}' for cell in cells)}".rstrip()


def _outside(comparison: Comparison) -> list[str]:
    """Return a line for every cell out of tolerance."""
    lines = []
    for name in comparison.cg:
        for pair in easy(comparison.pairs, name):
            if not pair.cg_agrees:
                more = "fewer" if pair.ours.cg < pair.published.cg else "more"
                counts = f"CG {pair.ours.cg}, published {pair.published.cg}"
                lines.append(f"  {name} {pair.ours.key.cell}: {counts}: {more} here")
    for pair in comparison.pairs:
        if pair.counts and not pair.agrees:
            key, verdict = pair.ours.key, "better here" if pair.difference < 0 else "worse here"
            ours, published = (f"{row.pcg:.5g} ({row.log10_ratio:+.2f})" for row in (pair.ours, pair.published))
            lines.append(f"  {key.dataset} {key.preconditioner} {key.cell}: {ours}, published {published}: {verdict}")
    return ["out of tolerance", *lines] if lines else ["no cell is out of tolerance"]
