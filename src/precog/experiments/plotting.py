"""What the figures share: whether they can be drawn, and how they look."""

from __future__ import annotations

from typing import Any

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
    "svg.hashsalt": "precog",
}


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("the figure needs matplotlib; install precog[plot]") from error
