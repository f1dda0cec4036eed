"""A sparse likelihood from the factors of CholQR, and what one more pivot would add to it, for all rows at once.

With y~ = [y; 0] and E = y - Q Q'y, in nats and to be maximised [Cao13 section 3]:

    -½ [ log|R|² + (n - m) log σ² + (|E|² + |bottom Q'y|²) / σ² + n log 2π ]   and for the free energy
    -½ (tr K - |L|²) / σ²

A new pivot i has the residual column r, and g_i = G G_i' stands for it with G a partial Cholesky factor of the residual
from some information pivots; with b_i = |g_i|² + σ² d_i - |Q'g_i|² the gain is

    -½ [ log(b_i / (σ² d_i)) - (E'g_i)² / (σ² b_i) - |g_i|² / (σ² d_i) ],

exact where g_i = r. Several outputs add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precog.kernels.statistics import Array, Index
from precog.sparse.approximations import DTC, LOG_2PI, VFE, Approximation
from precog.sparse.cholqr import CholQR


@dataclass(frozen=True, eq=False)
class Objective:
    """Y (n, p) and whether the trace is part of it: of VFE it is, of DTC it is not."""

    Y: Array
    bound: bool = True

    @staticmethod
    def of(how: Approximation, Y: Array) -> Objective:
        """Return the objective of an approximation whose likelihood the factors give."""
        if how not in (VFE, DTC):
            raise ValueError(f"CholQR maximises the objective of vfe or dtc, not that of {how.name}")
        return Objective(Y, how.bound)

    def value(self, factors: CholQR) -> float:
        """Return the log marginal likelihood of DTC, or the variational free energy as a lower bound."""
        n, outputs = self.Y.shape
        sigma2, m = factors.sigma2, factors.m
        c = factors.Q.T @ self.Y
        rest = self.Y - factors.Q @ c
        below = factors.bottom @ c
        data = (float(np.vdot(rest, rest)) + float(np.vdot(below, below))) / sigma2
        logdet = 2.0 * float(np.log(np.diagonal(factors.R)).sum()) + (n - m) * np.log(sigma2)
        trace = float(factors.d.sum()) / sigma2 if self.bound else 0.0
        return -0.5 * (outputs * (logdet + trace + n * LOG_2PI) + data)

    def missing(self, factors: CholQR, m: int) -> Array:
        """Return E = Y - Q Q'Y with the first m columns of Q."""
        Q = factors.Q[:, :m]
        E: Array = self.Y - Q @ (Q.T @ self.Y)
        return E

    def gain(self, b: Array, along: Array, squares: Array, d: Array, sigma2: float) -> Array:
        """Return the gains from b_i, Σ (E'g_i)², |g_i|² and d_i."""
        outputs = self.Y.shape[1]
        explained = squares / (sigma2 * d) if self.bound else 0.0
        gains: Array = -0.5 * (outputs * (np.log(b / (sigma2 * d)) - explained) - along / (sigma2 * b))
        return gains

    def last_gain(self, factors: CholQR) -> float:
        """Return what the last pivot adds."""
        last = factors.m - 1
        column, rho2 = factors.L[:, last], np.array([factors.R[last, last] ** 2])
        along = rho2 * float(np.sum((factors.Q[:, last] @ self.Y) ** 2))
        return float(self.gain(rho2, along, np.array([column @ column]), np.ones(1), factors.sigma2)[0])

    def exact_gains(self, factors: CholQR, m: int, E: Array, rows: Index, columns: Array) -> Array:
        """Return what each of some rows would add as pivot after the first m, from their residual columns."""
        d = columns[rows, np.arange(len(rows))]
        inside = factors.Q[:, :m].T @ columns
        outside, below = columns - factors.Q[:, :m] @ inside, factors.bottom[:m, :m] @ inside
        # |r|² + σ²d - |Q'r|² as a sum of squares: where r lies along Q the difference would be rounding.
        b = np.einsum("ij,ij->j", outside, outside) + np.einsum("ij,ij->j", below, below) + factors.sigma2 * d
        along = np.sum((E.T @ columns) ** 2, axis=0)
        return self.gain(b, along, np.einsum("ij,ij->j", columns, columns), d, factors.sigma2)

    def gains(self, factors: CholQR, m: int, E: Array, d: Array, G: Array) -> Array:
        """Return what each row would add as pivot after the first m, as far as G knows; -inf where nothing is left."""
        allowed = d > factors.floor
        QG, GG = factors.Q[:, :m].T @ G, G.T @ G
        squares = np.einsum("ij,ij->i", G @ GG, G)
        inside = np.einsum("ij,ij->i", G @ (QG.T @ QG), G)
        along = np.sum((G @ (G.T @ E)) ** 2, axis=1)
        safe = np.where(allowed, d, 1.0)
        b = np.maximum(squares - inside, 0.0) + factors.sigma2 * safe
        return np.where(allowed, self.gain(b, along, squares, safe, factors.sigma2), -np.inf)
