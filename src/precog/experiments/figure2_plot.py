"""Figures 2 and 3: held-out error and negative log likelihood against seconds of learning, means over folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precog.experiments import figure2_table
from precog.experiments.figure2_book import Book
from precog.experiments.figure2_methods import METHODS
from precog.experiments.figure2_rows import ERROR, METRICS, NLL, TASKS, Row, Series
from precog.experiments.figure2_table import Curve, Curves
from precog.experiments.plotting import STYLE, require_matplotlib
from precog.kernels.statistics import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people who see few of them tell apart, by the name of the solver.
COLOURS = {"CG": "#E08A00", "PCG": "#0072B2", "CHOL": "#009E73", "DEFAULT": "#C2185B"}
FURTHER_COLOURS = ("#6A51A3", "#8C564B", "#56B4E9", "#404040")
TITLES = {
    "ARD": "ARD kernel: a length scale for each input",
    "RBF": "Isotropic kernel: one length scale for all inputs",
}
LABELS = {"rmse": "RMSE", "error_rate": "error rate", NLL: "negative log likelihood\nper held-out point"}

# Inches.
WIDTH, LEFT, RIGHT, BETWEEN = 7.2, 0.55, 0.12, 0.78
HEIGHT, ABOVE, TOP, BOTTOM = 1.9, 0.5, 0.16, 0.82
# Samples of a mean curve, how much room is left around all of them, and points on it that its name may stand at.
SAMPLES, MARGIN, PLACES = 240, 0.06, 25
# Points from a curve to its name, and how many points of a curve its end counts for.
GAP, END = 4.5, 20
# Values so far above where curves end, in their spread there, are cut: a first step may lead anywhere.
REACH = 6.0
SIZES = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.minor.size": 1.2,
    "xtick.minor.width": 0.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
NOTE = "Means over folds.  Solid: computed here, the seconds those of learning, without predictions."
PUBLISHED_NOTE = "Dashed: published, on other folds, the seconds those of learning and predictions on sixteen cores."


def save(book: Book, kernel: str, path: Path, published: Sequence[Row]) -> None:
    """Draw the curves of one kernel, a row for each data set; published ones are dashed, where there are some."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    ours, theirs = (
        _of_kernel(curves, kernel) for curves in (figure2_table.ours(book), figure2_table.theirs(published))
    )
    datasets = [name for name in TASKS if any(series.dataset == name for series, _ in ours)]
    if not datasets:
        raise ValueError(f"there are no rows of the kernel {kernel} to draw")
    height = TOP + len(datasets) * (HEIGHT + ABOVE) + BOTTOM
    with rc_context(STYLE | SIZES):
        figure = Figure(figsize=(WIDTH, height), dpi=300)
        for row, name in enumerate(datasets):
            panels = _row(figure, row)
            for axes, metric in zip(panels, METRICS, strict=True):
                here = {series: folds for (series, m), folds in ours.items() if (series.dataset, m) == (name, metric)}
                there = {
                    series: folds for (series, m), folds in theirs.items() if (series.dataset, m) == (name, metric)
                }
                _draw(axes, here, there)
                axes.set_ylabel(LABELS[TASKS[name].measure if metric == ERROR else metric])
            _title(panels[0], name)
            if name == datasets[-1]:
                for axes in panels:
                    axes.set_xlabel("seconds")
        figure.text(LEFT / WIDTH, 1 - 0.2 / height, TITLES[kernel], fontsize=10, va="center")
        notes = [NOTE, PUBLISHED_NOTE] if any(theirs) else [NOTE]
        figure.text(
            LEFT / WIDTH, 0.1 / height, "\n".join(notes), fontsize=6.5, color="0.35", va="bottom", linespacing=1.5
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def _of_kernel(curves: Curves, kernel: str) -> Curves:
    return {(series, metric): folds for (series, metric), folds in curves.items() if series.kernel == kernel}


def _row(figure: Figure, row: int) -> list[Axes]:
    """Return the two panels of a data set, at places in inches."""
    across, down = figure.get_size_inches()
    each = (WIDTH - LEFT - RIGHT - BETWEEN) / 2
    bottom = down - TOP - (row + 1) * (HEIGHT + ABOVE)
    lefts = (LEFT, LEFT + each + BETWEEN)
    return [figure.add_axes((x / across, bottom / down, each / across, HEIGHT / down)) for x in lefts]


def _title(axes: Axes, name: str) -> None:
    task = TASKS[name]
    axes.set_title(task.title, loc="left", pad=7, fontweight="bold")
    axes.set_title(f"$n = {task.rows}$, $d = {task.inputs}$", loc="right", pad=7, fontsize=8, color="0.35")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A mean curve as it is drawn."""

    title: str
    colour: str
    curve: Curve


def average(folds: Sequence[Curve]) -> Curve:
    """Return the mean over folds, between the times at which all have begun and the last has ended.

    Between predictions values are interpolated in the logarithm of time; a run that has ended keeps its last one.
    """
    start, end = max(curve.seconds[0] for curve in folds), max(curve.seconds[-1] for curve in folds)
    seconds = np.geomspace(start, max(start, end), SAMPLES)
    logs = np.log(seconds)
    return Curve(seconds, np.mean([np.interp(logs, np.log(curve.seconds), curve.values) for curve in folds], axis=0))


def _draw(axes: Axes, here: dict[Series, dict[int, Curve]], there: dict[Series, dict[int, Curve]]) -> None:
    """Draw the published curves, ours above them, and write their names beside these."""
    solid, dashed = _drawn(here), _drawn(there)
    axes.set_xscale("log")
    for drawn in dashed:
        axes.plot(
            drawn.curve.seconds,
            drawn.curve.values,
            color=drawn.colour,
            linewidth=0.9,
            linestyle=(0, (4, 2)),
            alpha=0.55,
        )
    for drawn in solid:
        axes.plot(drawn.curve.seconds, drawn.curve.values, color=drawn.colour, linewidth=1.5, solid_capstyle="round")
        axes.plot(drawn.curve.seconds[-1:], drawn.curve.values[-1:], "o", color=drawn.colour, markersize=3)
    _limit(axes, [drawn.curve for drawn in (*solid, *dashed)])
    axes.grid(axis="y", color="0.92", linewidth=0.5)
    axes.set_axisbelow(True)
    _name(axes, solid, [drawn.curve for drawn in (*solid, *dashed)])


def _drawn(curves: dict[Series, dict[int, Curve]]) -> list[Drawn]:
    """Return the mean curves in the order of the methods."""
    spare = iter(FURTHER_COLOURS * 4)
    by_solver = {series.solver: list(folds.values()) for series, folds in curves.items()}
    return [
        Drawn(method.title, COLOURS.get(method.solver) or next(spare), average(by_solver[method.solver]))
        for method in METHODS.values()
        if method.solver in by_solver
    ]


def _limit(axes: Axes, curves: Sequence[Curve]) -> None:
    """Show all of the curves but for what lies far above where they end."""
    values = np.concatenate([curve.values for curve in curves])
    ends = np.array([curve.values[-1] for curve in curves])
    low, high = float(values.min()), float(values.max())
    median = float(np.median(values))
    high = min(high, float(ends.max()) + REACH * max(median - low, float(np.ptp(ends))))
    room = MARGIN * (high - low)
    if room > 0:
        axes.set_ylim(low - room, high + room)
    axes.xaxis.set_major_formatter(_plain)


def _plain(x: float, _: Any) -> str:
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"


def _name(axes: Axes, drawn: Sequence[Drawn], curves: Sequence[Curve]) -> None:
    """Write the name of each curve beside it, where it covers the least."""
    from matplotlib import patheffects

    dots = axes.figure.dpi / 72
    lines = [_traced(axes.transData.transform(_points(curve)), dots) for curve in curves]
    # An end tells more than any other part of a curve.
    points = np.concatenate([*lines, np.repeat([line[-1] for line in lines], END, axis=0)])
    box = axes.get_window_extent()
    taken: list[Array] = []
    for one in drawn:
        size = np.array([4.4 * len(one.title), 8.0]) * dots
        own = _traced(axes.transData.transform(_points(one.curve)), dots)
        places = _places(own, size, GAP * dots)
        best = min(places, key=lambda place: _covered(place, size, points, taken, box.get_points()))
        taken.append(np.array([best, best + size]))
        x, y = axes.transData.inverted().transform(best + 0.5 * size)
        axes.text(
            x,
            y,
            one.title,
            color=one.colour,
            fontsize=7.5,
            ha="center",
            va="center",
            path_effects=[patheffects.withStroke(linewidth=2, foreground="white")],
        )


def _points(curve: Curve) -> Array:
    return np.column_stack([curve.seconds, curve.values])


def _traced(points: Array, spacing: float) -> Array:
    """Return points at even distances along a line through these."""
    lengths = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    at = np.linspace(0.0, lengths[-1], max(int(lengths[-1] / spacing), 1) + 1)
    return np.column_stack([np.interp(at, lengths, column) for column in points.T])


def _places(points: Array, size: Array, gap: float) -> list[Array]:
    """Return lower left corners for a text: right of a curve's end, then around points on it, from its end on."""
    width, height = size
    sides = np.array(
        [
            [gap, -0.5 * height],
            [-0.5 * width, gap],
            [-0.5 * width, -gap - height],
            [-gap - width, -0.5 * height],
        ]
    )
    along = points[np.linspace(len(points) - 1, 0, PLACES).astype(int)]
    return [point + side for point in along for side in sides]


def _covered(place: Array, size: Array, points: Array, taken: Sequence[Array], box: Array) -> float:
    """Return how much a text covers: points of curves, and far worse, other texts and what is outside."""
    low, high = place, place + size
    lines = int(((points > low) & (points < high)).all(axis=1).sum())
    texts = sum(bool((low < other[1]).all() and (high > other[0]).all()) for other in taken)
    outside = bool((low < box[0]).any() or (high > box[1]).any())
    return lines + 1e4 * texts + 1e5 * outside
