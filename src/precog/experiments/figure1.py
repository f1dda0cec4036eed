"""Figure 1 of [Cutajar16]: iterations of conjugate gradients with every preconditioner, relative to none.

For each data set, X and y standardised, and each of eighteen cells (ℓ, σ²) one system

    (K + σ² I) z = y,   K_ij = exp(-|xᵢ - xⱼ|² / 2ℓ²),   until r'r <= n 1e-10,

is solved without a preconditioner and with each of them, of rank ⌊√n⌋. Iterations are counted as in the published code.
The solves of a cell go in lock-step, one product for all. Each is written when it ends, so that a run that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precog.experiments import figure1_plot, figure1_rows, figure1_table
from precog.experiments.figure1_book import Book
from precog.experiments.figure1_methods import METHODS, NAMES, PLAIN, Prepared, Timing
from precog.experiments.figure1_rows import DATASETS, Cell, Key, Row, Rows, chosen_cells
from precog.experiments.figure1_systems import System, standardized
from precog.experiments.lockstep import lockstep
from precog.experiments.plotting import require_matplotlib
from precog.experiments.progress import Report, Watch, watching
from precog.experiments.records import find_reference, known
from precog.kernels.statistics import Array
from precog.operators import Operator

# What `quick` leaves out: the other data sets take hours, and this one as long as all others on the concrete data.
QUICK_DATASET, SLOWEST = "concrete", "ski"
# What a preconditioner raises that cannot be built, or whose inner solves fail: it leaves the others alone.
FAILURES = (ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Figure1Result:
    """All rows of the folder, and what they say beside the published ones, where those were found."""

    rows: Mapping[Key, Row]
    comparison: figure1_table.Comparison | None


def run(
    folder: Path | str,
    *,
    datasets: Sequence[str] = DATASETS,
    preconditioners: Sequence[str] | None = None,
    cells: str | Iterable[tuple[int, int]] | None = None,
    quick: bool = False,
    reference: Path | None = None,
    report: Report = print,
) -> Figure1Result:
    """Compute what is missing in `folder`, draw the figure there, and compare with the published rows.

    preconditioners: as they are called in the file; None stands for all. cells: pairs (log10 ℓ, log10 σ²), or a text
    for `chosen_cells`; None stands for all eighteen. quick: a few minutes, concrete only and by default without "ski".
    reference: the folder of the published fig1.csv; None looks for it in and beside the folders of PRECOG_DATA.
    """
    require_matplotlib()
    folder = Path(folder)
    path = find_reference(figure1_rows.FILE, reference)
    published = figure1_rows.read(path) if path else {}
    work = plan(datasets, preconditioners, cells, quick=quick, published=published)
    book = Book(folder)
    missing = left(work, book)
    there = sum(book.has(key) for key in work)
    report(f"figure 1 of Cutajar et al. (2016): {there} of {len(work)} solves are in {folder}")
    if quick:
        others = ", ".join(name for name in DATASETS if name != QUICK_DATASET)
        slowest = "" if any(key.preconditioner == SLOWEST for key in work) else f", and {SLOWEST!r}"
        report(f"left out for being quick: {others}{slowest}")
    with watching(report, len(missing)) as watch:
        _compute(missing, book, watch)
    comparison = figure1_table.compare(book.rows, published) if published else None
    if comparison is not None:
        figure1_table.save(comparison, folder / "fig1_comparison.csv")
        report(f"compared with {path}")
        for line in figure1_table.summary(comparison):
            report(line)
    else:
        report(f"no comparison: no {figure1_rows.FILE} of published rows was found; name its folder by --reference")
    for suffix in ("png", "svg") if book.rows else ():
        figure1_plot.save(book.rows, folder / f"fig1.{suffix}", published)
        report(f"figure saved to {folder / f'fig1.{suffix}'}")
    return Figure1Result(book.rows, comparison)


def plan(
    datasets: Sequence[str],
    preconditioners: Sequence[str] | None,
    cells: str | Iterable[tuple[int, int]] | None,
    *,
    quick: bool,
    published: Rows,
) -> list[Key]:
    """Return the solves that were asked for, by data set, then by cell."""
    every = [name for name in NAMES if not (quick and name == SLOWEST)]
    names = known("data set", (QUICK_DATASET,) if quick else datasets, DATASETS)
    methods = known("preconditioner", every if preconditioners is None else preconditioners, NAMES)
    return [
        Key(dataset, name, cell)
        for dataset in names
        for cell in chosen_cells(cells, dataset, published)
        for name in methods
        if dataset in METHODS[name].datasets
    ]


def left(work: Sequence[Key], book: Book) -> list[Key]:
    """Return what has to be solved: what is not there, and the solves without a preconditioner that rows wait for."""
    missing = []
    for dataset, cell in dict.fromkeys((key.dataset, key.cell) for key in work):
        keys, plain = [key for key in work if (key.dataset, key.cell) == (dataset, cell)], Key(dataset, PLAIN, cell)
        if not all(map(book.complete, keys)) and not book.has(plain):
            missing.append(plain)
        missing += [key for key in keys if not book.has(key)]
    return missing


def _compute(missing: Sequence[Key], book: Book, watch: Watch) -> None:
    # All data first: one that is not there is better missed before the work than in the middle of it.
    data = {dataset: standardized(dataset) for dataset in dict.fromkeys(key.dataset for key in missing)}
    for (dataset, cell), group in _groups(missing):
        _solve_together(System.of(*data[dataset], cell), group, book, watch)


def _groups(missing: Sequence[Key]) -> Iterator[tuple[tuple[str, Cell], list[Key]]]:
    """Yield the solves of each system that go in lock-step, then one by one those with an iteration inside.

    The others would wait for it.
    """
    for dataset, cell in dict.fromkeys((key.dataset, key.cell) for key in missing):
        keys = [key for key in missing if (key.dataset, key.cell) == (dataset, cell)]
        alone = [key for key in keys if METHODS[key.preconditioner].total]
        together = [key for key in keys if key not in alone]
        yield from (((dataset, cell), group) for group in (together, *([key] for key in alone)) if group)


def _solve_together(system: System, keys: Sequence[Key], book: Book, watch: Watch) -> None:
    """Build the preconditioners of one system, solve with all of them, and add each solve to the book as it ends."""
    prepared = []
    for key in keys:
        watch.begin(f"{_title(key)}: building")
        try:
            prepared.append(Prepared.build(system.A, key))
        except FAILURES as error:
            watch.done(f"{_title(key)}: {error}")
    # Written by the solves, read between the products of all.
    now: dict[int, tuple[int, float]] = {}

    def solve(which: int) -> Callable[[Operator], Timing]:
        def note(step: int, residuals: Array) -> None:
            now[which] = step, float(residuals.max())

        return lambda shared: prepared[which].solve(shared, system.y, note)

    def ended(which: int, outcome: Future[Timing]) -> None:
        now.pop(which, None)
        key = prepared[which].key
        try:
            timing = outcome.result()
        except FAILURES as error:
            watch.done(f"{_title(key)}: {error}")
            return
        book.add(timing)
        watch.done(_line(timing, book))

    def show() -> None:
        running = list(now.values())
        if running:
            step, residual = (max(values) for values in zip(*running, strict=True))
            watch.step(f"iteration {step}, relative residual {residual:.1e}", f"step {step}: {residual:.0e}")

    if prepared:
        first = prepared[0].key
        title = _title(first) if len(prepared) == 1 else f"{first.dataset} {first.cell}"
        watch.begin(title)
        lockstep(system.products, [solve(which) for which in range(len(prepared))], ended, callback=show)


def _title(key: Key) -> str:
    return f"{key.dataset} {key.cell} {key.preconditioner}"


def _line(timing: Timing, book: Book) -> str:
    """Return what is known of a solve when it ends; how it compares may be known later."""
    key = timing.key
    row = book.rows.get(Key(key.dataset, timing.method.rows[0], key.cell))
    against = f" of {row.cg} {row.log10_ratio:+.2f}" if row else ""
    ended = f" ({timing.status.lower().replace('_', ' ')})" if timing.capped else ""
    seconds = timing.build_seconds + timing.solve_seconds
    return f"{_title(key):<40} {timing.count:>5}{against} {seconds:.1f} s{ended}"
