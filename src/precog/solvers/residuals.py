"""The residuals of a solve: followed by recurrence, replaced by true ones before they mislead."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.kernels.statistics import Array, Index, Mask
from precog.solvers.products import Products
from precog.solvers.result import Status

# A residual is replaced when the estimated error of its recurrence is this share of it.
DRIFT = 0.1
# Where the worst residual is not halved in so many steps and this share of all before, float32 is given up.
IDLE_STEPS, IDLE_SHARE = 100, 0.25


class Residuals:
    """Norms of B - A X for all columns, the goals they have to reach, and what rounding may have added meanwhile."""

    def __init__(self, products: Products, B: Array, X: Array, settings: Any) -> None:
        self.products, self.B = products, B
        self.size = np.linalg.norm(B, axis=0)
        self.goal = np.maximum(settings.rtol * self.size, settings.atol)
        self.start = B - products.true(X) if X.any() else B.copy()
        self.norms = np.linalg.norm(self.start, axis=0)
        self.last_true = self.norms.copy()
        self.drift = np.zeros(B.shape[1])
        self.given_up = np.zeros(B.shape[1], dtype=bool)
        self.replaced, self.switched = np.zeros(B.shape[1], dtype=bool), False
        self.best, self.steps, self.improved = np.inf, 0, 0

    @property
    def open(self) -> Index:
        """The columns that have not reached their goal and may still do so."""
        return np.flatnonzero(~(self.norms <= self.goal) & ~self.given_up)

    @property
    def status(self) -> Status:
        """How a solve ended in which no column is open any more."""
        return Status.STAGNATED if self.given_up.any() else Status.CONVERGED

    @property
    def relative(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.size > 0, self.norms / self.size, 0.0)

    def follow(self, columns: Index, x: Array, r: Array, change: Array) -> Mask:
        """Take note of new residuals r of some columns, which differ from the last ones by `change`.

        Those that claim to be small enough, or whose recurrence has drifted, are replaced in r. Returns which columns
        leave, as `judge` does; `replaced` tells which of all columns go on with a new one, `switched` whether products
        are exact from now on because float32 led nowhere.
        """
        self.replaced[:] = self.switched = False
        self.drift[columns] += self.products.error * np.linalg.norm(change, axis=0)
        self.norms[columns] = np.linalg.norm(r, axis=0)
        if self._idle(columns):
            self.products.be_exact()
            self.measure(columns, x, r)
            self.last_true[columns] = self.norms[columns]
            self.switched = True
            return self.norms[columns] <= self.goal[columns]
        suspect = (self.norms <= self.goal)[columns] | (self.drift > DRIFT * self.norms)[columns]
        leave = np.zeros(len(columns), dtype=bool)
        if suspect.any():
            self.measure(columns, x, r, suspect)
            leave[suspect] = self.judge(columns[suspect])
            self.replaced[columns] = suspect & ~leave
        return leave

    def judge(self, columns: Index) -> Mask:
        """Return which columns leave, given their new true residuals: they are done, or rounding keeps them from it."""
        late = ~(self.norms[columns] <= self.goal[columns])
        # A true residual that is hardly smaller than the one before it: its digits are used up.
        stuck = late & ~(self.norms[columns] <= 0.5 * self.last_true[columns])
        self.last_true[columns] = self.norms[columns]
        if stuck.any() and self.products.be_exact():
            stuck[:] = False
        self.given_up[columns] = stuck
        leave: Mask = ~late | stuck
        return leave

    def _idle(self, columns: Index) -> bool:
        """Return whether rounding in fast products seems to cost conjugacy: long steps without progress."""
        self.steps += 1
        worst = float((self.norms[columns] / self.goal[columns]).max())
        if worst < 0.5 * self.best:
            self.best, self.improved = worst, self.steps
        return self.products.mixed and self.steps - self.improved > IDLE_STEPS + IDLE_SHARE * self.improved

    def measure(self, columns: Index, x: Array, r: Array, which: Any = slice(None)) -> None:
        """Replace residuals by true ones."""
        some = columns[which]
        r[:, which] = self.B[:, some] - self.products.true(x[:, which])
        self.norms[some] = np.linalg.norm(r[:, which], axis=0)
        self.drift[some] = 0.0
