"""The heat maps of Figure 1: iterations without a preconditioner, and with each of them relative to that."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from precog.experiments.figure1_rows import (
    CELLS,
    DATASETS,
    LOG10_LENGTH_SCALES,
    LOG10_NOISES,
    NEW,
    NEW_LOCAL,
    PUBLISHED,
    Cell,
    Key,
    Row,
    Rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

TITLES = {
    "concrete": "Concrete  ($n = 1030$, $d = 8$)",
    "powerplant": "Power plant  ($n = 9568$, $d = 4$)",
    "protein": "Protein  ($n = 45730$, $d = 9$)",
}
# Those that are run on all data sets come first, so that they stand in the same place everywhere.
PANELS = {
    "nystrom": "Nyström",
    "fitc": "FITC",
    "pitc": "PITC",
    "spectral": "Spectral",
    "randomized_svd": "Randomized SVD",
    "block_jacobi": "Block Jacobi",
    NEW: "RPCholesky",
    NEW_LOCAL: "RPCholesky, blocks",
    "regularized": "Regularized",
    "ski": "SKI",
}
assert set(PANELS) == {*PUBLISHED, NEW, NEW_LOCAL}

# Two decades either way hold all but a few of the published ratios; at the cap log10 of the count is 4.18.
RATIO_LIMIT, COUNT_LIMIT = 2.0, math.log10(15_001)
COUNTS, RATIOS = "viridis", "RdBu_r"
HATCH, BOTH_CAPPED = "0.8", "0.8"

# Inches: cells are squares, three small maps stand side by side below the large one.
ACROSS, GAP, TITLE = 3, 0.14, 0.2
SMALL_WIDTH, SMALL_HEIGHT = 0.84, 0.42
WIDTH = ACROSS * SMALL_WIDTH + (ACROSS - 1) * GAP
HEIGHT = WIDTH / 2
BETWEEN = 0.34
LEFT, RIGHT, TOP, BOTTOM = 0.5, 0.85, 0.28, 0.68
# From the large map down to the first row of small ones: tick labels and a title.
DOWN = 0.56
NOTE = """× stopped at the largest number of iterations: the colour is a bound.
Grey: stopped with and without the preconditioner.  Hatched: not computed."""

# Matplotlib's own type for these names differs between its versions.
STYLE: dict[Any, Any] = {
    "font.family": "serif",
    "mathtext.fontset": "dejavuserif",
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "axes.linewidth": 0.5,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "hatch.linewidth": 0.4,
    "svg.hashsalt": "precog",
}


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("the figure needs matplotlib; install precog[plot]") from error


def save(rows: Rows, path: Path) -> None:
    """Draw all rows; cells without one stay hatched."""
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
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=300)
        for turn, (name, drawn) in enumerate(panels.items()):
            left = LEFT + turn * (WIDTH + BETWEEN)
            counts = _draw_counts(_axes(figure, left, TOP, WIDTH, HEIGHT), rows, name, labelled=turn == 0)
            for place, panel in enumerate(drawn):
                axes = _small_axes(figure, left, place)
                ratios = _draw_ratios(axes, rows, name, panel)
                _label_small(axes, place, len(drawn), outer=turn == 0)
        _explain(figure, counts, ratios)
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


def _draw_counts(axes: Axes, rows: Rows, dataset: str, *, labelled: bool) -> QuadMesh:
    """Draw log10 of the iterations without a preconditioner, with the counts in the cells."""
    found = {key.cell: row for key, row in rows.items() if key.dataset == dataset}
    mesh = _mesh(axes, {cell: math.log10(max(row.cg, 1)) for cell, row in found.items()}, COUNTS, (0.0, COUNT_LIMIT))
    for cell, row in found.items():
        text = f"> {row.cg - 1}" if row.cg_capped else f"{row.cg}"
        dark = math.log10(max(row.cg, 1)) < 0.6 * COUNT_LIMIT
        axes.text(*_centre(cell), text, ha="center", va="center", fontsize=5.5, color="white" if dark else "black")
    axes.set_title(TITLES[dataset], fontsize=8, pad=4)
    axes.set_xlabel(r"$\log_{10}\,\ell$", labelpad=1)
    if labelled:
        axes.set_ylabel(r"$\log_{10}\,\sigma^2$", labelpad=1)
    return mesh


def _draw_ratios(axes: Axes, rows: Rows, dataset: str, panel: str) -> QuadMesh:
    """Draw log10(PCG / CG); a cross marks what was stopped, and without a colour neither came to its end."""
    found = {cell: rows[Key(dataset, panel, cell)] for cell in CELLS if Key(dataset, panel, cell) in rows}
    known = {cell: row.log10_ratio for cell, row in found.items() if not (row.cg_capped and row.pcg_capped)}
    mesh = _mesh(axes, known, RATIOS, (-RATIO_LIMIT, RATIO_LIMIT))
    for cell, row in found.items():
        _mark(axes, cell, row)
    axes.set_title(PANELS[panel], pad=2.5, fontweight="bold" if panel in (NEW, NEW_LOCAL) else "normal")
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


def _mark(axes: Axes, cell: Cell, row: Row) -> None:
    if not (row.cg_capped or row.pcg_capped):
        return
    x, y = _centre(cell)
    if row.cg_capped and row.pcg_capped:
        axes.fill(
            [x - 0.5, x + 0.5, x + 0.5, x - 0.5], [y - 0.5, y - 0.5, y + 0.5, y + 0.5], BOTH_CAPPED, edgecolor="white"
        )
    axes.plot([x], [y], "x", color="black", markersize=2.6, markeredgewidth=0.6)


def _label_small(axes: Axes, place: int, places: int, *, outer: bool) -> None:
    """Keep the tick labels of the lowest maps and of those at the left."""
    lowest = place + ACROSS >= places
    axes.tick_params(labelbottom=lowest, labelleft=place % ACROSS == 0, labelsize=5)
    if lowest:
        axes.set_xlabel(r"$\log_{10}\,\ell$", labelpad=1, fontsize=6)
    if outer and place % ACROSS == 0:
        axes.set_ylabel(r"$\log_{10}\,\sigma^2$", labelpad=1, fontsize=6)


def _explain(figure: Figure, counts: QuadMesh, ratios: QuadMesh) -> None:
    """Add the colour bars and what crosses, greys and hatches stand for."""
    across, down = figure.get_size_inches()
    left = across - RIGHT + 0.14
    bars = figure.colorbar(counts, cax=_axes(figure, left, TOP, 0.09, HEIGHT))
    bars.set_label(r"$\log_{10}$(CG iterations)")
    top = TOP + HEIGHT + DOWN
    bars = figure.colorbar(ratios, cax=_axes(figure, left, top, 0.09, down - BOTTOM - top), extend="both")
    bars.set_label(r"$\log_{10}$(PCG / CG)")
    for bar in figure.axes[-2:]:
        bar.tick_params(labelsize=6)
    figure.text(LEFT / across, 0.06 / down, NOTE, fontsize=6, va="bottom")
