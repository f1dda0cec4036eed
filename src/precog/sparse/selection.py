"""Pivots chosen one at a time: sweeps that exchange a pivot for the row that helps most, seen by information pivots.

A sweep visits the pivots in random order. Each goes to the right of the factors; information pivots, a few rows apart
from the pivots, then tell in O(n z + n m) what every row of the data would add in its place [Cao13 section 3.1]. The
best of them are looked at exactly, and the best of those takes the place if the objective gains; if not, nothing was
lost, since the old pivot never left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array, Index, Mask
from precog.precond.factors import accepted
from precog.sparse.cholqr import CholQR
from precog.sparse.objective import Objective

KINDS = ("random", "optimised", "adaptive")
# The share of random information pivots that is drawn anew for each pivot: the columns of the others are at hand.
REDRAWN = 0.25
# Candidates that are looked at exactly.
TRIES = 3
# A swap must gain more than rounding of the objective, relative to its value.
GAIN = 1e-9
# Operations on the factors between two looks at their drift, and the drift at which they are computed anew.
WATCHED, DRIFTED = 100, 1e-9


@dataclass
class Information:
    """Information pivots: which rows, their columns of K, and how many there are to be.

    kind: "random", "optimised" (where the residual is largest) or "adaptive" (likewise, and their number doubles when a
    swap is rejected, up to `most`, and shrinks by `size` when one is accepted).
    """

    kind: str
    size: int
    rng: np.random.Generator
    most: int = 128
    rows: list[int] = field(default_factory=list)
    columns: Array = field(default_factory=lambda: np.zeros((0, 0)))
    wanted: int = 0

    def __post_init__(self) -> None:
        self.wanted = self.wanted or self.size

    def told(self, *, swapped: bool) -> None:
        """Take in whether the last swap was accepted."""
        if self.kind == "adaptive":
            most = max(self.most, self.size)
            self.wanted = max(self.wanted - self.size, self.size) if swapped else min(2 * self.wanted, most)

    def forget(self) -> None:
        """Drop the columns, which belong to other hyperparameters."""
        self.rows, self.columns = [], np.zeros((0, 0))

    def factor(self, factors: CholQR, m: int, d: Array, allowed: Mask) -> Array:
        """Return G (n, z), G G' near K - L L' with the first m columns of L; d: its diagonal."""
        self._keep(d, allowed)
        if self.kind == "random":
            self._add(factors, self._drawn(allowed))
            return self._eliminated(factors, m)
        G = self._eliminated(factors, m)
        left = np.where(allowed, d - np.einsum("ij,ij->i", G, G), 0.0)
        while len(self.rows) < self.wanted and left.max() > factors.floor:
            row = int(left.argmax())
            self._add(factors, np.array([row]))
            column = self._residual(factors, m, slice(-1, None))[:, 0] - G @ G[row]
            if column[row] <= factors.floor:
                break
            G = np.column_stack([G, column / np.sqrt(column[row])])
            left -= G[:, -1] ** 2
            left[row] = 0.0
        return G

    def _keep(self, d: Array, allowed: Mask) -> None:
        """Keep the rows that still have a residual, the oldest left out to make room for others."""
        fresh = max(round(REDRAWN * self.wanted), 1) if self.kind == "random" else 1
        some = [i for i, row in enumerate(self.rows) if allowed[row]][-max(self.wanted - fresh, 0) :]
        some = some if self.wanted > fresh else []
        self.rows = [self.rows[i] for i in some]
        self.columns = self.columns[:, some]

    def _drawn(self, allowed: Mask) -> Index:
        others = allowed.copy()
        others[self.rows] = False
        choice = np.flatnonzero(others)
        return self.rng.choice(choice, min(self.wanted - len(self.rows), len(choice)), replace=False)

    def _add(self, factors: CholQR, rows: Index) -> None:
        if len(rows):
            columns = np.asarray(factors.K.block(slice(None), rows), dtype=np.float64)
            known = self.columns if self.rows else np.zeros((factors.n, 0))
            self.columns = np.asfortranarray(np.hstack([known, columns]))
            self.rows += [int(row) for row in rows]

    def _residual(self, factors: CholQR, m: int, which: slice) -> Array:
        """Return the columns of K - L L' of some of the rows."""
        L = factors.L[:, :m]
        residual: Array = self.columns[:, which] - L @ L[self.rows[which]].T
        return residual

    def _eliminated(self, factors: CholQR, m: int) -> Array:
        if not self.rows:
            return np.zeros((factors.n, 0))
        C = self._residual(factors, m, slice(None))
        kept, T = accepted(C[self.rows], lambda _, left, __: left > factors.floor)
        self.rows, self.columns = [self.rows[i] for i in kept], self.columns[:, kept]
        G: Array = scipy.linalg.solve_triangular(T, C[:, kept].T, lower=True, check_finite=False).T
        return G


@dataclass(frozen=True, eq=False)
class Found:
    """The best of some candidates: its row, what it gains, and its residual column."""

    row: int
    gain: float
    column: Array


def candidate(
    factors: CholQR, m: int, d: Array, objective: Objective, information: Information, tries: int = TRIES
) -> Found | None:
    """Return the row that adds most as a pivot after the first m, or None where no row has a residual left."""
    allowed = d > factors.floor
    allowed[factors.pivots[:m]] = False
    if not allowed.any():
        return None
    E = objective.missing(factors, m)
    G = information.factor(factors, m, d, allowed)
    gains = objective.gains(factors, m, E, np.where(allowed, d, 0.0), G)
    best = np.argsort(-gains)[: min(tries, int(allowed.sum()))]
    columns = factors.residual(best, m)
    real = columns[best, np.arange(len(best))] > factors.floor
    if not real.any():
        return None
    best, columns = best[real], columns[:, real]
    exact = objective.exact_gains(factors, m, E, best, columns)
    k = int(exact.argmax())
    return Found(int(best[k]), float(exact[k]), columns[:, k])


def grow(
    factors: CholQR, objective: Objective, information: Information, m: int, deadline: float = float("inf")
) -> None:
    """Add pivots one at a time, each the best that is found, until there are m or none is left that gains."""
    while factors.m < m and time.perf_counter() < deadline:
        found = candidate(factors, factors.m, factors.d, objective, information)
        if found is None or found.gain <= 0 or not factors.one_step(found.row, found.column):
            return


@dataclass(frozen=True)
class Swept:
    """How many pivots were exchanged, and the objective after each of the exchanges."""

    swaps: int
    values: list[float]
    finished: bool


def sweep(
    factors: CholQR,
    objective: Objective,
    information: Information,
    rng: np.random.Generator,
    deadline: float = float("inf"),
) -> Swept:
    """Visit every pivot once in random order; the objective never falls."""
    value = objective.value(factors)
    values: list[float] = []
    least = GAIN * (1.0 + abs(value))
    for count, pivot in enumerate(rng.permutation(factors.pivots).tolist()):
        if time.perf_counter() >= deadline:
            return Swept(len(values), values, False)
        if count % WATCHED == WATCHED - 1 and factors.drift() > DRIFTED:
            factors.refactor()
        factors.permute_to_right(factors.pivots.index(pivot))
        m, old = factors.m - 1, objective.last_gain(factors)
        found = candidate(factors, m, factors.d + factors.L[:, m] ** 2, objective, information)
        swapped = found is not None and found.row != pivot and found.gain > old + least
        if swapped:
            assert found is not None
            factors.remove_last()
            factors.one_step(found.row, found.column)
            value += found.gain - old
            values.append(value)
        information.told(swapped=swapped)
    if factors.drift() > DRIFTED:
        factors.refactor()
    return Swept(len(values), values, True)
