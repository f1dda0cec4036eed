"""Figure 1 of [Cutajar16]: iterations of conjugate gradients with every preconditioner, relative to none.

For each data set, X and y standardised, and each of eighteen cells (ℓ, σ²) one system

    A z = y,   A = K + σ² I,   K_ij = exp(-|xᵢ - xⱼ|² / 2ℓ²),   until r'r <= n 1e-10,

is solved without a preconditioner and with each of them, of rank ⌊√n⌋. Iterations are counted as in the published code.
Rows are written one by one, so that a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precog import RBF, Gram, precond, solvers
from precog.datasets import load
from precog.experiments import figure1_plot, figure1_rows, figure1_table
from precog.experiments.figure1_progress import Report, Watch, watching
from precog.experiments.figure1_rows import (
    CELLS,
    DATASETS,
    NEW,
    PUBLISHED,
    SKI_TOTAL,
    Cell,
    Key,
    Row,
    Rows,
    chosen_cells,
)
from precog.operators import Operator

Array = NDArray[np.float64]

# r'r <= n · 1e-10 is a relative residual of 1e-5, since y is standardised.
SQUARED_TOLERANCE = 1e-10
# What is not done after so many steps is counted as one more, as published. On the concrete data fewer were allowed to
# preconditioners that are the same linear map in every step.
STEPS, CONCRETE_STEPS = 15_000, 10_000
MEMORY = 15
# The inner solves of "ski" stop at r'r <= n 1e-10 too; relative to what they are given, this is never looser.
SKI_RTOL = 1e-8
# How "regularized" was run is not in the published code. With a loose inner tolerance, which costs the fewest products,
# and inner iterations counted, the counts of the fifteen easier cells are within 1.5 times the published ones.
REGULARIZED_RTOL = 0.1
SEED = 48

# Where plain conjugate gradients take more than about a thousand iterations on the concrete data.
SLOW = (Cell(0, -4), Cell(0, -6), Cell(1, -6))
SECONDS_FILE = "fig1_seconds.csv"


@dataclass(frozen=True)
class Method:
    """A preconditioner of the experiment: its name and options in `precond.make`, and where it is run.

    options: from the number of rows n and ⌊√n⌋. row: the name in the file for the iterations of the solver. total: the
    name for these and the iterations inside the preconditioner, where it is solved by iteration and its solver is
    `FlexiblePCG`.
    """

    name: str
    options: Callable[[int, int], dict[str, Any]]
    row: str = ""
    total: str = ""
    datasets: tuple[str, ...] = DATASETS

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(name for name in (self.row, self.total) if name)

    def steps(self, dataset: str) -> int:
        """Return how many it may take."""
        return CONCRETE_STEPS if dataset == "concrete" and not self.total else STEPS


def _factors(n: int, m: int) -> dict[str, Any]:
    return {"rank": m, "dtype": "float64"}


def _two_features(n: int, m: int) -> dict[str, Any]:
    """A cosine and a sine for each of m frequencies."""
    return {"rank": 2 * m, "dtype": "float64"}


def _contiguous(n: int, m: int) -> dict[str, Any]:
    """Labels of m blocks of neighbouring rows, the longer ones first."""
    sizes = [len(part) for part in np.array_split(np.arange(n), m)]
    return {"rank": m, "dtype": "float64", "blocks": np.repeat(np.arange(m), sizes)}


def _shift(n: int, m: int) -> dict[str, Any]:
    return {"rtol": REGULARIZED_RTOL, "precision": "float64"}


def _grid(n: int, m: int) -> dict[str, Any]:
    """The grid is as fine as `ski` makes it without a rank, n^(3/2) points in all, as published."""
    return {"order": "nearest", "rtol": SKI_RTOL}


METHODS = {
    method.rows[0]: method
    for method in (
        Method("block_jacobi", _contiguous, "block_jacobi"),
        Method("pitc", _contiguous, "pitc"),
        Method("fitc", _factors, "fitc"),
        Method("nystrom", _factors, "nystrom"),
        Method("spectral", _two_features, "spectral"),
        Method("svd", _factors, "randomized_svd"),
        # Its inner products are with K, so that only the total is a fair count.
        Method("regularized", _shift, total="regularized", datasets=("concrete",)),
        Method("ski", _grid, "ski", SKI_TOTAL, ("concrete",)),
        Method("rpcholesky", _factors, NEW),
    )
}
assert tuple(METHODS) == (*PUBLISHED, NEW)


@dataclass(frozen=True)
class Timing:
    """One solve: seconds to build the preconditioner and to solve, products with A, steps, and how it ended."""

    dataset: str
    preconditioner: str
    log10_lengthscale: int
    log10_noise: int
    build_seconds: float
    solve_seconds: float
    products: int
    iterations: int
    status: str

    @property
    def key(self) -> Key:
        return Key(self.dataset, self.preconditioner, Cell(self.log10_lengthscale, self.log10_noise))

    @property
    def capped(self) -> bool:
        return self.status != "CONVERGED"


TIMING_COLUMNS = tuple(field.name for field in fields(Timing))
# The row of the timings that has no preconditioner.
PLAIN = "cg"


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
    for `chosen_cells`; None stands for all eighteen. quick: concrete only, and by default without its slowest cells and
    "ski". reference: the folder of the published fig1.csv; None looks for it in and beside the folders of PRECOG_DATA.
    """
    figure1_plot.require_matplotlib()
    folder = Path(folder)
    path = figure1_rows.find_reference(reference)
    published = figure1_rows.read(path) if path else {}
    work = plan(datasets, preconditioners, cells, quick=quick, published=published)
    book = _Book.open(folder)
    missing = [(key, method) for key, method in work if not book.has(key, method)]
    report(f"figure 1 of Cutajar et al. (2016): {len(work) - len(missing)} of {len(work)} solves are in {folder}")
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
        figure1_plot.save(book.rows, folder / f"fig1.{suffix}")
        report(f"figure saved to {folder / f'fig1.{suffix}'}")
    return Figure1Result(book.rows, comparison)


def plan(
    datasets: Sequence[str],
    preconditioners: Sequence[str] | None,
    cells: str | Iterable[tuple[int, int]] | None,
    *,
    quick: bool,
    published: Rows,
) -> list[tuple[Key, Method]]:
    """Return the solves that were asked for, by data set, then by cell."""
    every = [name for name in METHODS if not (quick and name == "ski")]
    names = _known("data set", ("concrete",) if quick else datasets, DATASETS)
    methods = _known("preconditioner", every if preconditioners is None else preconditioners, tuple(METHODS))
    if quick and cells is None:
        cells = [(cell.log10_length_scale, cell.log10_noise) for cell in CELLS if cell not in SLOW]
    return [
        (Key(dataset, name, cell), METHODS[name])
        for dataset in names
        for cell in chosen_cells(cells, dataset, published)
        for name in methods
        if dataset in METHODS[name].datasets
    ]


def _known(what: str, names: Sequence[str], known: Sequence[str]) -> list[str]:
    if not names:
        raise ValueError(f"no {what} is named; this experiment has {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; this experiment has {', '.join(known)}")
    return list(dict.fromkeys(names))


class _Book:
    """The files of a folder: rows of the figure, and how long each solve took."""

    def __init__(self, folder: Path, rows: dict[Key, Row], timings: dict[Key, Timing]) -> None:
        self.folder, self.rows, self.timings = folder, rows, timings

    @classmethod
    def open(cls, folder: Path) -> _Book:
        timings = [
            Timing(**{field.name: _parsed(record[field.name], str(field.type)) for field in fields(Timing)})
            for record in figure1_rows.read_csv(folder / SECONDS_FILE, TIMING_COLUMNS)
        ]
        rows = figure1_rows.read(folder / figure1_rows.FILE)
        return cls(folder, rows, {timing.key: timing for timing in timings})

    def has(self, key: Key, method: Method) -> bool:
        return all(Key(key.dataset, name, key.cell) in self.rows for name in method.rows)

    def add_timing(self, timing: Timing) -> None:
        self.timings[timing.key] = timing
        records = [asdict(timing) for timing in self.timings.values()]
        figure1_rows.write_csv(self.folder / SECONDS_FILE, TIMING_COLUMNS, records)

    def add_rows(self, rows: Iterable[Row]) -> None:
        self.rows |= {row.key: row for row in rows}
        figure1_rows.write(self.folder / figure1_rows.FILE, self.rows)

    def plain(self, dataset: str, cell: Cell) -> tuple[int, bool] | None:
        """Return the count without a preconditioner and whether it is capped, from whatever knows them."""
        timing = self.timings.get(Key(dataset, PLAIN, cell))
        if timing is not None:
            return _count(timing, STEPS), timing.capped
        row = next((row for key, row in self.rows.items() if (key.dataset, key.cell) == (dataset, cell)), None)
        return None if row is None else (row.cg, row.cg_capped)


def _parsed(text: str, kind: str) -> Any:
    return {"int": int, "float": float, "str": str}[kind](text)


def _count(timing: Timing, steps: int, *, flexible: bool = False) -> int:
    """Return the iterations as the published code counts them.

    There the counter of CG and PCG rises after the test for convergence, so that the last step is not counted; that of
    the flexible solver counts every step. A solve that did not reach its tolerance counts one more than it was allowed.
    """
    if timing.capped:
        return steps + 1
    return timing.iterations if flexible else max(timing.iterations - 1, 1)


def _compute(missing: Sequence[tuple[Key, Method]], book: _Book, watch: Watch) -> None:
    """Solve what is missing, system by system, so that each is made once and its plain solve is shared."""
    # All data first: one that is not there is better missed before the work than in the middle of it.
    data = {dataset: standardized(dataset) for dataset in dict.fromkeys(key.dataset for key, _ in missing)}
    for dataset, (X, y) in data.items():
        for cell in dict.fromkeys(key.cell for key, _ in missing if key.dataset == dataset):
            A = Gram(RBF(length_scale=10.0**cell.log10_length_scale), X, dtype="float64") + 10.0**cell.log10_noise
            for key, method in missing:
                if (key.dataset, key.cell) == (dataset, cell):
                    _add(A, y, key, method, book, watch)


def standardized(dataset: str) -> tuple[Array, Array]:
    """Return inputs and targets of mean 0 and variance 1."""
    data = load(dataset)
    return (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), (data.y - data.y.mean()) / data.y.std()


def _add(A: Operator, y: Array, key: Key, method: Method, book: _Book, watch: Watch) -> None:
    """Add the rows of one preconditioner in one cell; one that cannot be built leaves the others alone."""
    plain = book.plain(key.dataset, key.cell)
    if plain is None:
        none = Key(key.dataset, PLAIN, key.cell)
        watch.begin(_title(none))
        timing, _ = solve(A, y, none, None, STEPS, watch.step)
        book.add_timing(timing)
        plain = _count(timing, STEPS), timing.capped
    watch.begin(_title(key))
    steps = method.steps(key.dataset)
    try:
        timing, inner = solve(A, y, key, method, steps, watch.step)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        watch.done(f"{_title(key)}: {error}")
        return
    count = _count(timing, steps, flexible=bool(method.total))
    counts = ((method.row, count), (method.total, count + inner))
    rows = [
        Row.of(Key(key.dataset, name, key.cell), plain[0], pcg, cg_capped=plain[1], pcg_capped=timing.capped)
        for name, pcg in counts
        if name
    ]
    book.add_timing(timing)
    book.add_rows(rows)
    watch.done(_line(rows[0], timing))


def solve(
    A: Operator, y: Array, key: Key, method: Method | None, steps: int, callback: Callable[[int, Array], None]
) -> tuple[Timing, int]:
    """Solve A z = y and return what it took, and the iterations inside the preconditioner."""
    n = len(y)
    atol, m = math.sqrt(n * SQUARED_TOLERANCE), math.isqrt(n)
    began = time.perf_counter()
    P = None if method is None else precond.make(method.name, A, rng=SEED, **method.options(n, m))
    built = time.perf_counter()
    solver: Any = (
        solvers.PCG(rtol=0.0, atol=atol, max_iter=steps, precision="float64")
        if P is None or P.exact
        else solvers.FlexiblePCG(rtol=0.0, atol=atol, max_iter=steps, precision="float64", memory=MEMORY)
    )
    solution = solver.solve(A, y, precond=P, callback=callback)
    timing = Timing(
        key.dataset,
        key.preconditioner,
        key.cell.log10_length_scale,
        key.cell.log10_noise,
        build_seconds=round(built - began, 6),
        solve_seconds=round(time.perf_counter() - built, 6),
        products=int(solution.products),
        iterations=int(solution.column_iterations[0]),
        status=solution.status.name,
    )
    return timing, int(getattr(P, "inner_iterations", 0))


def _title(key: Key) -> str:
    return f"{key.dataset} {key.cell} {key.preconditioner}"


def _line(row: Row, timing: Timing) -> str:
    ended = f" ({timing.status.lower().replace('_', ' ')})" if timing.capped else ""
    seconds = timing.build_seconds + timing.solve_seconds
    return f"{_title(row.key):<40} CG {row.cg:>5} PCG {row.pcg:>5.0f} {row.log10_ratio:+.2f} {seconds:.1f} s{ended}"
