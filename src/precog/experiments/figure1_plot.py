"""The heat maps of Figure 1: iterations without a preconditioner, and with each of them relative to that."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from precog.experiments.figure1_rows import (
    CELLS,
    DATASETS,
    LOG10_LENGTH_SCALES,
    LOG10_NOISES,
    NEW,
    PUBLISHED,
    SIZES,
    Cell,
    Key,
    Row,
    Rows,
)
from precog.experiments.figure1_table import RATIO_TOLERANCE, Pair
from precog.experiments.plotting import STYLE, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

TITLES = {
    "concrete": f"Concrete  ($n = {SIZES['concrete']}$, $d = 8$)",
    "powerplant": f"Power plant  ($n = {SIZES['powerplant']}$, $d = 4$)",
    "protein": f"Protein  ($n = {SIZES['protein']}$, $d = 9$)",
}
# Those that are run on all data sets come first, so that they stand in the same place everywhere.
PANELS = {
    "nystrom": "Nyström",
    "fitc": "FITC",
    "pitc": "PITC",
    "block_jacobi": "Block Jacobi",
    "spectral": "Spectral",
    "randomized_svd": "Random. SVD",
    "rpcholesky": "RPCholesky",
    "rpcholesky_local": "RPC + blocks",
    "vecchia": "Vecchia",
    "regularized": "Regularized",
    "ski": "SKI",
}
assert set(PANELS) == {*PUBLISHED, *NEW}

# Two decades either way hold all but a few of the published ratios; at the cap log10 of the count is 4.18.
RATIO_LIMIT, COUNT_LIMIT = 2.0, math.log10(15_001)
COUNTS, RATIOS = "YlOrRd", "RdBu_r"
HATCH, BOTH_CAPPED = "0.8", "0.85"
# Within so much of zero a preconditioner changes nothing to speak of: five per cent.
EVEN = math.log10(1.05)

# Inches: cells are squares, four small maps stand side by side below the large one.
ACROSS, GAP, TITLE = 4, 0.14, 0.21
SMALL_WIDTH, SMALL_HEIGHT = 0.9, 0.45
WIDTH = ACROSS * SMALL_WIDTH + (ACROSS - 1) * GAP
HEIGHT = WIDTH / 2
BETWEEN = 0.38
LEFT, RIGHT, TOP, BOTTOM = 0.5, 0.85, 0.28, 0.9
# From the large map down to the first row of small ones: tick labels and a title.
DOWN = 0.56
NOTE = (
    "− fewer iterations than without a preconditioner,  + more,  ∘ as many within 5 %.   × stopped at the largest\n"
    "number: the colour is a bound; grey: so was the solve without a preconditioner.   Hatched: not computed.\n"
)
CORNERS = (
    f"In brackets: published.   Corners mark what is not within {RATIO_TOLERANCE} of the published value:\n"
    "below, better here;  above, worse here."
)

HATCHES = {"hatch.linewidth": 0.4}


def save(rows: Rows, path: Path, published: Rows | None = None) -> None:
    """Draw all rows; cells without one stay hatched. With the published rows, what differs from them is marked."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    datasets = [name for name in DATASETS if any(key.dataset == name for key in rows)]
    panels = {name: [panel for panel in PANELS if _maps(rows, name, panel)] for name in datasets}
    if not panels:
        raise ValueError("there are no rows to draw")
    depth = max(math.ceil(len(drawn) / ACROSS) for drawn in panels.values())
    height = TOP + HEIGHT + DOWN + depth * (SMALL_HEIGHT + TITLE) - TITLE + BOTTOM
    width = LEFT + len(panels) * (WIDTH + BETWEEN) - BETWEEN + RIGHT
    with rc_context(STYLE | HATCHES):
        figure = Figure(figsize=(width, height), dpi=300)
        for turn, (name, drawn) in enumerate(panels.items()):
            left = LEFT + turn * (WIDTH + BETWEEN)
            large = _axes(figure, left, TOP, WIDTH, HEIGHT)
            counts = _draw_counts(large, rows, published or {}, name, labelled=turn == 0)
            for place, panel in enumerate(drawn):
                axes = _small_axes(figure, left, place)
                ratios = _draw_ratios(axes, rows, published or {}, name, panel)
                _label_small(axes, place, len(drawn), outer=turn == 0)
        _explain(figure, counts, ratios, NOTE + CORNERS if published else NOTE)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def _maps(rows: Rows, dataset: str, panel: str) -> bool:
    return any((key.dataset, key.preconditioner) == (dataset, panel) for key in rows)


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return axes at a place in inches, counted from the left and from the top."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


def _small_axes(figure: Figure, left: float, place: int) -> Axes:
    row, column = divmod(place, ACROSS)
    top = TOP + HEIGHT + DOWN + row * (SMALL_HEIGHT + TITLE)
    return _axes(figure, left + column * (SMALL_WIDTH + GAP), top, SMALL_WIDTH, SMALL_HEIGHT)


def _draw_counts(axes: Axes, rows: Rows, published: Rows, dataset: str, *, labelled: bool) -> QuadMesh:
    """Draw log10 of the iterations without a preconditioner, with the counts in the cells, published ones below."""
    found, other = _plain(rows, dataset), _plain(published, dataset)
    mesh = _mesh(axes, {cell: math.log10(max(row.cg, 1)) for cell, row in found.items()}, COUNTS, (0.0, COUNT_LIMIT))
    for cell, row in found.items():
        colour = "white" if math.log10(max(row.cg, 1)) > 0.75 * COUNT_LIMIT else "black"
        x, y = _centre(cell)
        axes.text(x, y + 0.1 * (cell in other), _count(row), ha="center", va="center", fontsize=7, color=colour)
        if cell in other:
            axes.text(x, y - 0.2, f"({_count(other[cell])})", ha="center", va="center", fontsize=5, color=colour)
    axes.set_title(TITLES[dataset], fontsize=8, pad=4)
    axes.set_xlabel(r"$\log_{10}\,\ell$", labelpad=1)
    if labelled:
        axes.set_ylabel(r"$\log_{10}\,\sigma^2$", labelpad=1)
    return mesh


def _plain(rows: Rows, dataset: str) -> dict[Cell, Row]:
    """Return a row for each cell of a data set; all have the count without a preconditioner."""
    return {key.cell: row for key, row in rows.items() if key.dataset == dataset}


def _count(row: Row) -> str:
    return f"> {row.cg - 1}" if row.cg_capped else f"{row.cg}"


def _draw_ratios(axes: Axes, rows: Rows, published: Rows, dataset: str, panel: str) -> QuadMesh:
    """Draw log10(PCG / CG), with signs that do not need the colours."""
    keys = [key for cell in CELLS if (key := Key(dataset, panel, cell)) in rows]
    known = {key.cell: rows[key].log10_ratio for key in keys if not (rows[key].cg_capped and rows[key].pcg_capped)}
    mesh = _mesh(axes, known, RATIOS, (-RATIO_LIMIT, RATIO_LIMIT))
    for key in keys:
        _mark(axes, rows[key])
        if key in published:
            _mark_difference(axes, Pair(rows[key], published[key]))
    axes.set_title(PANELS[panel], pad=2.5, fontweight="bold" if panel in NEW else "normal")
    return mesh


def _mesh(axes: Axes, values: dict[Cell, float], colours: str, limits: tuple[float, float]) -> QuadMesh:
    """Draw one square for each cell, in the order of the paper: the largest noise at the bottom."""
    table = np.full((len(LOG10_NOISES), len(LOG10_LENGTH_SCALES)), np.nan)
    for cell, value in values.items():
        column, row = _centre(cell)
        table[row, column] = value
    x, y = (np.arange(length + 1) - 0.5 for length in table.shape[::-1])
    axes.patch.set(facecolor="white", edgecolor=HATCH, hatch="//////")
    mesh = axes.pcolormesh(
        x,
        y,
        np.ma.masked_invalid(table),
        cmap=colours,
        vmin=limits[0],
        vmax=limits[1],
        edgecolors="white",
        linewidth=0.4,
    )
    axes.set_xticks(range(len(LOG10_LENGTH_SCALES)), [_signed(power) for power in LOG10_LENGTH_SCALES])
    axes.set_yticks(range(len(LOG10_NOISES)), [_signed(power) for power in LOG10_NOISES])
    return mesh


def _signed(power: int) -> str:
    return f"{power}".replace("-", "−")


def _centre(cell: Cell) -> tuple[int, int]:
    return LOG10_LENGTH_SCALES.index(cell.log10_length_scale), LOG10_NOISES.index(cell.log10_noise)


def _mark(axes: Axes, row: Row) -> None:
    """Write into a cell whether there are fewer, more or as many iterations, or that they were stopped."""
    x, y = _centre(row.key.cell)
    if row.cg_capped and row.pcg_capped:
        axes.fill(*_corners(x, y, (-1, -1), (1, -1), (1, 1), (-1, 1)), BOTH_CAPPED, edgecolor="white", linewidth=0.4)
    if row.cg_capped or row.pcg_capped:
        axes.plot([x], [y], "x", color="black", markersize=2.6, markeredgewidth=0.6)
        return
    sign = "∘" if abs(row.log10_ratio) <= EVEN else "−" if row.log10_ratio < 0 else "+"
    colour = "white" if abs(row.log10_ratio) > 0.65 * RATIO_LIMIT else "black"
    axes.text(x, y, sign, ha="center", va="center_baseline", fontsize=5, color=colour)


def _mark_difference(axes: Axes, pair: Pair) -> None:
    """Fill a corner of a cell that does not agree with the published one: the lower one where ours is better."""
    if not pair.counts or pair.agrees:
        return
    x, y = _centre(pair.ours.key.cell)
    end = -1 if pair.difference < 0 else 1
    axes.fill(*_corners(x, y, (-0.9, 0.9 * end), (-0.1, 0.9 * end), (-0.9, 0.1 * end)), "black", linewidth=0)


def _corners(x: float, y: float, *corners: tuple[float, float]) -> tuple[list[float], list[float]]:
    """Return a polygon inside a cell, whose own corners are at ±1."""
    return [x + 0.5 * across for across, _ in corners], [y + 0.5 * up for _, up in corners]


def _label_small(axes: Axes, place: int, places: int, *, outer: bool) -> None:
    """Keep the tick labels of the lowest maps and of those at the left."""
    lowest = place + ACROSS >= places
    axes.tick_params(labelbottom=lowest, labelleft=place % ACROSS == 0, labelsize=5)
    if lowest:
        axes.set_xlabel(r"$\log_{10}\,\ell$", labelpad=1, fontsize=6)
    if outer and place % ACROSS == 0:
        axes.set_ylabel(r"$\log_{10}\,\sigma^2$", labelpad=1, fontsize=6)


def _explain(figure: Figure, counts: QuadMesh, ratios: QuadMesh, note: str) -> None:
    """Add the colour bars and what the marks stand for."""
    across, down = figure.get_size_inches()
    left = across - RIGHT + 0.14
    bars = figure.colorbar(counts, cax=_axes(figure, left, TOP, 0.09, HEIGHT))
    bars.set_label(r"$\log_{10}$(CG iterations)")
    top = TOP + HEIGHT + DOWN
    bars = figure.colorbar(ratios, cax=_axes(figure, left, top, 0.09, down - BOTTOM - top), extend="both")
    bars.set_label(r"$\log_{10}$(PCG / CG)")
    for bar in figure.axes[-2:]:
        bar.tick_params(labelsize=6)
    figure.text(LEFT / across, 0.06 / down, note, fontsize=5.5, va="bottom", linespacing=1.4)
