"""The part Λ of A = Q + Λ that is easy to invert, for some rows: a diagonal or a full block, with Λ = T T'.

Everything is held transposed, with one column for each row of the data, as F' comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array
from precog.precond.parts import cholesky


@dataclass(frozen=True, eq=False)
class Diagonal:
    """Λ = diag(values)."""

    values: Array

    @property
    def uniform(self) -> float | None:
        """The value, if it is the same for all rows: then it need not be multiplied to every number."""
        return float(self.values[0]) if np.ptp(self.values) == 0 else None

    def whiten(self, A: Array) -> Array:
        """Return (T⁻¹A')' for A (m, b)."""
        return A / np.sqrt(self.values)

    unwhiten = whiten

    def logdet(self) -> float:
        return float(np.log(self.values).sum())

    def slope(self, alpha: Array, H: Array) -> Array:
        """Return the part of ∂ log N(Y; 0, A)/∂A that belongs to Λ, (b,): ½ (αα' - p A⁻¹) on the diagonal.

        alpha: (p, b). H: (m, b) with A⁻¹ = T⁻ᵀ(I - H'H)T⁻¹ on these rows.
        """
        leverage = np.einsum("mi,mi->i", H, H)
        slope: Array = 0.5 * (np.einsum("pi,pi->i", alpha, alpha) - len(alpha) * (1.0 - leverage) / self.values)
        return slope

    def weighted(self, A: Array, S: Array) -> Array:
        """Return A S for A (m, b) and what `slope` returns."""
        return A * S

    def diagonal(self, S: Array) -> Array:
        """Return the diagonal of what `slope` returns."""
        return S


@dataclass(frozen=True, eq=False)
class Block:
    """Λ full, through its Cholesky factor T."""

    T: Array
    uniform = None

    @staticmethod
    def of(values: Array) -> Block:
        return Block(cholesky(values, name="a block of K - Q + noise"))

    def whiten(self, A: Array) -> Array:
        """Return (T⁻¹A')' for A (m, b)."""
        return self._solved(A, transposed=False)

    def unwhiten(self, A: Array) -> Array:
        """Return (T⁻ᵀA')'."""
        return self._solved(A, transposed=True)

    def _solved(self, A: Array, *, transposed: bool) -> Array:
        solved = scipy.linalg.solve_triangular(
            self.T, A.T, lower=True, trans=1 if transposed else 0, check_finite=False
        )
        return np.asfortranarray(solved.T)

    def logdet(self) -> float:
        return 2.0 * float(np.log(np.diagonal(self.T)).sum())

    def slope(self, alpha: Array, H: Array) -> Array:
        """Return the part of ∂ log N(Y; 0, A)/∂A that belongs to Λ, (b, b): ½ (αα' - p A⁻¹) on these rows."""
        inner = np.eye(H.shape[1]) - H.T @ H
        half = self.unwhiten(inner)
        inverse = self.unwhiten(half.T)
        slope: Array = 0.5 * (alpha.T @ alpha - len(alpha) * inverse)
        return 0.5 * (slope + slope.T)

    def weighted(self, A: Array, S: Array) -> Array:
        """Return A S for A (m, b) and what `slope` returns."""
        return np.asfortranarray(A @ S)

    def diagonal(self, S: Array) -> Array:
        return np.diagonal(S).copy()


Part = Diagonal | Block
