"""Figures 2 and 3 of [Cutajar16]: held-out error and negative log likelihood against the seconds of learning.

For each data set, kernel and fold (⌊√n⌋ rows held out, X and y standardised on the others) every method searches for
hyperparameters until it ends or its budget is spent. The hyperparameters that it held at each time are recorded, and
predictions with them are made afterwards, so that they cost the clock nothing. The published clock counted
predictions, on sixteen cores.

Each search is written when it ends, each prediction when it is made: a run that was interrupted goes on there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from precog import checks
from precog.datasets import load
from precog.estimators.choices import DENSE_COPIES
from precog.experiments import figure2_plot, figure2_rows, figure2_table
from precog.experiments.figure2_book import Book, Run, Sampling
from precog.experiments.figure2_folds import Fold, held_out
from precog.experiments.figure2_methods import BY_SOLVER, METHODS
from precog.experiments.figure2_paths import FAILURES, record
from precog.experiments.figure2_rows import KERNELS, TASKS, Key, Series
from precog.experiments.plotting import require_matplotlib
from precog.experiments.progress import Report, Watch, watching
from precog.experiments.records import find_reference, known

FOLDS = 3
# The data set, folds, seconds and predictions of a curve of a quick run.
QUICK_DATASET, QUICK_FOLDS, QUICK_BUDGET, QUICK_PREDICTIONS = "concrete", 1, 20.0, 16
# Bytes that a dense method may take.
MEMORY = 8e9
# Loops compile and memory is touched before the clock, by a step of each method on so many rows: enough of them to go
# the way of more.
WARM_ROWS = 6000


@dataclass(frozen=True)
class Figure2Result:
    """All runs of the folder, and where their curves end, beside the published ones where those were found."""

    runs: Mapping[Key, Run]
    ends: Sequence[figure2_table.Pair]


@dataclass(frozen=True)
class Plan:
    """What was asked for: the runs, their budgets and how often to predict, by data set, and steps where given."""

    keys: tuple[Key, ...]
    budgets: Mapping[str, float]
    samplings: Mapping[str, Sampling]
    steps: int | None = None


def run(
    folder: Path | str,
    *,
    datasets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    folds: int | None = None,
    budget: float | None = None,
    predict_every: int = 1,
    steps: int | None = None,
    max_memory: float = MEMORY,
    quick: bool = False,
    reference: Path | None = None,
    report: Report = print,
) -> Figure2Result:
    """Compute what is missing in `folder`, draw the figures there, and set them beside the published rows.

    datasets, kernels, methods: names in `TASKS`, `KERNELS` and `METHODS`; None stands for all. budget: seconds of
    learning for each method and fold; None takes the data set's own. predict_every: predict at every so many
    evaluations, which are thinned out where they are too many. steps: the most of a search; None leaves it to the
    method. max_memory: bytes, above which dense methods are left out. quick: a few minutes, concrete only.
    reference: the folder of the published fig2.csv; None looks for it in and beside the folders of PRECOG_DATA.
    """
    require_matplotlib()
    folder = Path(folder)
    asked = plan(datasets, kernels, methods, folds, budget, predict_every, steps, quick=quick)
    path = find_reference(figure2_rows.FILE, reference)
    published = figure2_rows.read(path) if path else []
    book = Book(folder)
    missing = [key for key in asked.keys if not book.done(key, asked.samplings[key.series.dataset])]
    there = len(asked.keys) - len(missing)
    report(f"figures 2 and 3 of Cutajar et al. (2016): {there} of {len(asked.keys)} runs are in {folder}")
    if quick:
        others = ", ".join(name for name in TASKS if name != QUICK_DATASET)
        report(f"left out for being quick: {others}, and points of the curves")
    _say_what_was_shorter(asked, book, report)
    missing = _that_fit(missing, max_memory, report)
    with watching(report, len(missing)) as watch:
        _compute(missing, asked, book, watch)
    ends = figure2_table.compare(book, published)
    _conclude(folder, book, published, ends, path, report)
    return Figure2Result(book.runs, ends)


def plan(
    datasets: Sequence[str] | None,
    kernels: Sequence[str] | None,
    methods: Sequence[str] | None,
    folds: int | None,
    budget: float | None,
    predict_every: int,
    steps: int | None,
    *,
    quick: bool,
) -> Plan:
    """Return the runs that were asked for, by data set, kernel, fold and method."""
    names = known("data set", [QUICK_DATASET] if quick else list(TASKS) if datasets is None else datasets, list(TASKS))
    wanted = known("kernel", list(KERNELS) if kernels is None else kernels, list(KERNELS))
    solvers = known("method", list(METHODS) if methods is None else methods, list(METHODS))
    count = (QUICK_FOLDS if quick else FOLDS) if folds is None else checks.count("folds", folds)
    for name in names:
        most_folds = TASKS[name].rows // TASKS[name].held_out
        if count > most_folds:
            raise ValueError(f"{name} has rows for {most_folds} folds, {count} were asked for; ask for fewer")
    every = checks.count("predict_every", predict_every)
    seconds = QUICK_BUDGET if quick and budget is None else budget
    if seconds is not None:
        checks.number("budget", seconds, strict=True)
    keys = [
        Key(Series(name, kernel, METHODS[solver].solver), fold)
        for name in names
        for kernel in wanted
        if kernel in TASKS[name].kernels
        for fold in range(1, count + 1)
        for solver in solvers
    ]
    budgets = {name: TASKS[name].budget if seconds is None else seconds for name in names}
    samplings = {name: Sampling(every, QUICK_PREDICTIONS if quick else TASKS[name].predictions) for name in names}
    return Plan(tuple(keys), budgets, samplings, None if steps is None else checks.count("steps", steps))


def _say_what_was_shorter(asked: Plan, book: Book, report: Report) -> None:
    """Say which searches are there that were cut off by a smaller budget than this one."""
    shorter = [
        run
        for key in asked.keys
        if (run := book.runs.get(key)) and run.cut_off and run.budget < asked.budgets[run.dataset]
    ]
    if shorter:
        smallest = min(run.budget for run in shorter)
        report(
            f"{len(shorter)} of them were cut off by budgets from {smallest:g} seconds on; choose another folder to "
            "give them more"
        )


def _that_fit(keys: Sequence[Key], max_memory: float, report: Report) -> list[Key]:
    """Return the runs whose matrices fit into memory, and say which do not."""
    left: dict[Series, float] = {}
    for key in keys:
        if BY_SOLVER[key.series.solver].dense:
            needed = DENSE_COPIES * 8.0 * TASKS[key.series.dataset].rows ** 2
            if needed > max_memory:
                left[key.series] = needed
    for series, needed in left.items():
        report(f"left out: {series}, which takes {needed / 1e9:.0f} GB and is allowed {max_memory / 1e9:.0f}")
    return [key for key in keys if key.series not in left]


def _compute(missing: Sequence[Key], asked: Plan, book: Book, watch: Watch) -> None:
    # All data first: one that is not there is better missed before the work than in the middle of it.
    data = {name: load(name) for name in dict.fromkeys(key.series.dataset for key in missing)}
    warm: set[Series] = set()
    for key in missing:
        fold = held_out(data[key.series.dataset], key.fold)
        try:
            if key not in book.runs:
                _search(key, fold, asked, book, watch, warm)
            _predict(key, fold, asked, book, watch)
            watch.done(_line(key, book, asked.samplings[key.series.dataset]))
        except FAILURES as error:
            watch.done(f"{key}: {error}")
        finally:
            if key in book.runs:
                book.publish([key], asked.samplings)


def _search(key: Key, fold: Fold, asked: Plan, book: Book, watch: Watch, warm: set[Series]) -> None:
    """Record one search and add it to the book."""
    begin, budget = BY_SOLVER[key.series.solver].regression, asked.budgets[key.series.dataset]
    watch.begin(str(key))
    if key.series not in warm:
        watch.step("compiling", "compiling")
        record(begin(fold.part(WARM_ROWS), key.series.kernel), budget, 1)
        warm.add(key.series)

    def show(evaluations: int, seconds: float) -> None:
        state = f"{seconds:.0f} of {budget:g} s"
        watch.step(f"{evaluations} evaluations, {state}", state)

    recorded = record(begin(fold, key.series.kernel), budget, asked.steps, show)
    book.add(key, recorded, train=len(fold.y), test=len(fold.t), budget=budget)


def _predict(key: Key, fold: Fold, asked: Plan, book: Book, watch: Watch) -> None:
    """Predict with the hyperparameters of the chosen points, and add each prediction to the book."""
    todo = book.unscored(key, asked.samplings[key.series.dataset])
    if not todo:
        return
    learner = BY_SOLVER[key.series.solver].regression(fold, key.series.kernel)
    path = book.path(key)
    watch.begin(str(key))
    for turn, number in enumerate(todo):
        watch.step(f"prediction {turn + 1} of {len(todo)}", f"predicting {turn + 1}/{len(todo)}")
        # A point where nothing can be predicted is left out of the curve.
        with suppress(*FAILURES):
            book.score(key, number, learner.scores(path[number].theta))


def _line(key: Key, book: Book, sampling: Sampling) -> str:
    """Return what a run came to."""
    found, path = book.runs[key], book.path(key)
    scores = path[path[-1].held].scores if path else None
    told = "" if scores is None else f" error {scores.error:.4f}, NLL {scores.nll / found.test:+.4f} a point,"
    ended = f", {found.ended}" if found.early else ""
    failed = len(book.unscored(key, sampling))
    without = f"; {failed} points could not be predicted at" if failed else ""
    return f"{f'{key}':<32}{told} {found.evaluations} evaluations in {found.seconds:.1f} s{ended}{without}"


def _conclude(
    folder: Path,
    book: Book,
    published: Sequence[figure2_rows.Row],
    ends: Sequence[figure2_table.Pair],
    path: Path | None,
    report: Report,
) -> None:
    """Write and say where the curves end, and draw them."""
    if not book.rows:
        report("nothing was predicted, so there is nothing to draw")
        return
    figure2_table.save(ends, folder / "fig2_summary.csv")
    for line in figure2_table.summary(ends, book):
        report(line)
    report(f"published rows from {path}" if path else _NO_REFERENCE)
    for kernel in dict.fromkeys(row.key.series.kernel for row in book.rows):
        for suffix in ("png", "svg"):
            place = folder / f"fig2_{kernel.lower()}.{suffix}"
            figure2_plot.save(book, kernel, place, published)
            report(f"figure saved to {place}")


_NO_REFERENCE = f"no {figure2_rows.FILE} of published rows was found; name its folder by --reference"
