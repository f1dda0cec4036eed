"""What was observed: y, what its rows bring along, their weights, and the prior mean of the latent values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from precog.kernels.statistics import Array

# What y may be: a test of every value, and the words for it.
SUPPORTS: dict[str, tuple[Callable[[Array, Mapping[str, Any]], Any], str]] = {
    "real": (lambda y, known: np.isfinite(y), "finite numbers"),
    "positive": (lambda y, known: y > 0, "positive numbers"),
    "unit": (lambda y, known: (y >= 0) & (y <= 1), "numbers from 0 to 1"),
    "counts": (lambda y, known: (y >= 0) & (y == np.round(y)), "counts, whole numbers from 0 on"),
    "signs": (lambda y, known: np.abs(y) == 1, "the labels -1 and 1"),
    "trials": (
        lambda y, known: (y >= 0) & (y == np.round(y)) & (y <= known["trials"]),
        "counts from 0 to the number of trials",
    ),
}


@dataclass(frozen=True, eq=False)
class Observations:
    """y (n,) or (n, copies), numbers that rows bring along by name, weights (n,) or None; f = offset + g.

    A weight w counts a row w times.
    """

    y: Array
    known: Mapping[str, Array] = field(default_factory=dict)
    weights: Array | None = None
    offset: float = 0.0

    @property
    def flat(self) -> Observations:
        """The same with an entry for every latent value, where y is a table with a column for each of a row's."""
        if self.y.ndim == 1:
            return self
        copies = self.y.shape[1]
        known = {name: np.repeat(values, copies) for name, values in self.known.items()}
        weights = None if self.weights is None else np.repeat(self.weights, copies)
        return Observations(self.y.ravel(), known, weights, self.offset)

    def take(self, rows: Any) -> Observations:
        known = {name: values[rows] for name, values in self.known.items()}
        return Observations(self.y[rows], known, None if self.weights is None else self.weights[rows], self.offset)


def check(kind: str, support: str, y: Array, known: Mapping[str, Any]) -> None:
    """Raise an error that names the first row whose y the likelihood cannot have given."""
    test, words = SUPPORTS[support]
    wrong = ~np.broadcast_to(test(y, known), np.shape(y))
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise ValueError(
            f"y[{row}] is {np.ravel(y[row])[0]:g}; {kind} is a likelihood of {words}. Correct or drop such rows, or "
            "use another likelihood"
        )


def known_of(kind: str, wanted: Mapping[str, float], given: Mapping[str, Any], n: int) -> dict[str, Array]:
    """Return the numbers that rows bring along, (n,) each, checked; those that were not given stand for nothing."""
    out: dict[str, Array] = {}
    for name, values in given.items():
        if values is None:
            continue
        if name not in wanted:
            takes = f"it takes {', '.join(wanted)}" if wanted else "it takes none"
            raise TypeError(f"{kind} has no use for {name}; {takes}")
        rows = np.asarray(values, dtype=np.float64)
        if rows.ndim == 0:
            rows = np.full(n, float(rows))
        if rows.shape != (n,):
            raise ValueError(f"{name} must be a number or have one for each of the {n} rows, got shape {rows.shape}")
        wrong = ~(np.isfinite(rows) & (rows > 0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(f"{name}[{row}] is {rows[row]:g}; it must be positive and finite")
        out[name] = rows
    return out
