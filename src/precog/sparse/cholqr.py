"""A partial Cholesky factor of K and the QR of it that a sparse likelihood needs, updated as pivots come and go.

With pivots J, of which there are m, and L~ = [L; σI], (n + m, m), after every operation [Cao13 suppl. 1]:

    (i)    L_J is lower triangular with a positive diagonal
    (ii)   L L' has the columns J of K
    (iii)  d = diag(K - L L'), zero on J and nowhere below zero
    (iv)   L~ = Q~ R
    (v)    Q~'Q~ = I
    (vi)   R is upper triangular with a positive diagonal

K is seen through its diagonal and the columns that are asked for. A pivot comes in at the right, in O(n m). To leave it
goes to the right first: rows of L_J trade places, reflections of neighbouring columns of L and of Q~ make L_J and R
triangular again, and the last columns are left off. Rows stay where they are; the permutation is J and then the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array, Index
from precog.operators import Operator
from precog.precond.factors import accepted
from precog.sparse.inducing import BELOW_ZERO

# A residual below this share of the largest entry of the diagonal is rounding, or may as well be: a pivot there would
# divide errors of 1e-16 by its root.
FLOOR = 1e-12
# Columns that come in at once, and reflections that become one product.
PANEL = 32


class CholQR:
    """L, d, Q~ and R of a matrix K with noise σ² = sigma2, for a growing and shrinking list of pivots."""

    def __init__(self, K: Operator, sigma2: float, capacity: int = PANEL) -> None:
        self.K, self.sigma2 = K, sigma2
        self.n = K.shape[0]
        self.diag = np.asarray(K.diag(), dtype=np.float64)
        self.size = float(self.diag.max(initial=0.0))
        if self.diag.min(initial=0.0) < 0:
            row = int(self.diag.argmin())
            raise _indefinite(f"its diagonal has {self.diag[row]:.2g} in row {row}")
        self.d = self.diag.copy()
        self.pivots: list[int] = []
        self._L, self._Q = (np.empty((self.n, capacity), order="F") for _ in range(2))
        self._B, self._R = (np.zeros((capacity, capacity), order="F") for _ in range(2))

    @property
    def m(self) -> int:
        return len(self.pivots)

    @property
    def L(self) -> Array:
        return self._L[:, : self.m]

    @property
    def Q(self) -> Array:
        """The first n rows of Q~."""
        return self._Q[:, : self.m]

    @property
    def bottom(self) -> Array:
        """The last m rows of Q~."""
        return self._B[: self.m, : self.m]

    @property
    def R(self) -> Array:
        return self._R[: self.m, : self.m]

    @property
    def floor(self) -> float:
        """The residual at and below which a row cannot be a pivot."""
        return FLOOR * self.size

    def residual(self, rows: Sequence[int] | Index, m: int | None = None) -> Array:
        """Return columns of K - L L', (n, k), with the first m columns of L."""
        J = np.asarray(rows, dtype=np.intp)
        m = self.m if m is None else m
        columns = np.asfortranarray(self.K.block(slice(None), J), dtype=np.float64)
        past = self._L[:, :m]
        left: Array = scipy.linalg.blas.dgemm(-1.0, past, past[J], beta=1.0, c=columns, trans_b=1, overwrite_c=1)
        return left

    def one_step(self, row: int, column: Array | None = None) -> bool:
        """Add one pivot and return whether it was taken: one with no residual of its own is refused.

        column: its column of K - L L', if it is known.
        """
        C = self.residual([row]) if column is None else column[:, None]
        return self._append(np.array([row], dtype=np.intp), C) == 1

    def m_step(self, rows: Sequence[int] | Index) -> int:
        """Add pivots in their order, those without a residual of their own left out; return how many were taken."""
        J = np.asarray(rows, dtype=np.intp)
        return sum(
            self._append(J[some : some + PANEL], self.residual(J[some : some + PANEL]))
            for some in range(0, len(J), PANEL)
        )

    def _append(self, rows: Index, C: Array) -> int:
        """Add the pivots among some rows that have a residual, from their columns C of K - L L'."""
        kept, T = accepted(C[rows], lambda _, left, __: left > self.floor)
        if not len(kept):
            return 0
        m, k, chosen = self.m, len(kept), rows[kept]
        self._reserve(m + k)
        new = np.asfortranarray(scipy.linalg.solve_triangular(T, C[:, kept].T, lower=True, check_finite=False).T)
        new[self.pivots] = 0.0
        new[chosen] = T
        self.d -= np.einsum("ij,ij->i", new, new)
        self.pivots += [int(row) for row in chosen]
        self.d[self.pivots] = 0.0
        if self.d.min(initial=0.0) < -BELOW_ZERO * self.size:
            row = int(self.d.argmin())
            raise _indefinite(f"given rows {self.pivots[:3]}..., row {row} has the variance {self.d[row]:.2g}")
        np.maximum(self.d, 0.0, out=self.d)
        self._orthogonalise(new, m, k)
        self._L[:, m : m + k] = new
        return k

    def _orthogonalise(self, new: Array, m: int, k: int) -> None:
        """Extend Q~ and R by k columns [new; 0; σI]: what lies along Q~ is taken off, twice, then QR of the rest."""
        top, old = new.copy(order="F"), np.zeros((m, k))
        Q, B, along = self._Q[:, :m], self._B[:m, :m], np.zeros((m, k))
        for _ in range(2):
            again = Q.T @ top + B.T @ old
            top -= Q @ again
            old -= B @ again
            along += again
        below = np.sqrt(self.sigma2) * np.eye(k)
        stacked = np.asfortranarray(np.concatenate([top, old, below]))
        q, r = scipy.linalg.qr(stacked, mode="economic", overwrite_a=True, check_finite=False)
        signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
        q *= signs
        self._Q[:, m : m + k] = q[: self.n]
        self._B[: m + k, m : m + k] = q[self.n :]
        self._B[m : m + k, :m] = 0.0
        self._R[:m, m : m + k] = along
        self._R[m : m + k, m : m + k] = signs[:, None] * r
        self._R[m : m + k, :m] = 0.0

    def permute_to_right(self, k: int) -> None:
        """Make the pivot at place k the last one."""
        m, order = self.m, [*range(k), *range(k + 1, self.m), k]
        self.pivots = [self.pivots[j] for j in order]
        J = np.asarray(self.pivots, dtype=np.intp)
        # Of the triangle, rows from place k on reach one column too far: each reflection takes the last entry of one.
        T = np.array(self.L[J])
        right, left = _Chain(k, m), _Chain(k, m)
        R = self.R
        for j in range(k, m - 1):
            right.turn(j, T, along=(T[j, j], T[j, j + 1]))
            T[j, j + 1] = 0.0
            right.apply(j, R[: j + 2])
            left.turn(j, R.T[j:], along=(R[j, j], R[j + 1, j]))
            R[j + 1, j] = 0.0
        right.apply_all(self.L)
        left.apply_all(self.Q)
        left.apply_all(self.bottom)
        right.apply_all(self.bottom.T)
        self._L[J, :m] = np.tril(T)

    def remove_last(self) -> int:
        """Leave off the last pivot and return its row."""
        last = self._L[:, self.m - 1]
        row = self.pivots.pop()
        self.d += last**2
        self.d[self.pivots] = 0.0
        return row

    def refactor(self) -> None:
        """Compute everything anew from the pivots."""
        pivots, self.pivots = self.pivots, []
        self.d = self.diag.copy()
        self.m_step(pivots)

    def drift(self) -> float:
        """Return how far the post-conditions are from holding, relative to what they compare; seen by one vector."""
        if not self.m:
            return 0.0
        x = np.cos(np.arange(1.0, self.m + 1.0)) + 0.1
        Rx = self.R @ x
        gap = np.linalg.norm(self.L @ x - self.Q @ Rx), np.linalg.norm(np.sqrt(self.sigma2) * x - self.bottom @ Rx)
        factors = np.hypot(*gap) / np.linalg.norm(Rx)
        back = self.Q.T @ (self.Q @ x) + self.bottom.T @ (self.bottom @ x)
        orthogonal = np.linalg.norm(back - x) / np.linalg.norm(x)
        d = self.diag - np.einsum("ij,ij->i", self.L, self.L)
        d[self.pivots] = 0.0
        column = self.residual(self.pivots[-1:])[:, 0]
        seen = max(np.abs(d - self.d).max(), np.abs(column).max()) / self.size
        return float(max(factors, orthogonal, seen))

    def _reserve(self, m: int) -> None:
        """Make room for m columns."""
        if m <= self._L.shape[1]:
            return
        wide = max(m, 2 * self._L.shape[1])
        for name, rows in (("_L", self.n), ("_Q", self.n), ("_B", wide), ("_R", wide)):
            held = getattr(self, name)
            grown = np.zeros((rows, wide), order="F")
            grown[: held.shape[0], : held.shape[1]] = held
            setattr(self, name, grown)


class _Chain:
    """Reflections of neighbouring columns j, j + 1 for j = k, ..., m - 2, one after the other.

    Reflections and not rotations, because the diagonal of L_J then stays positive.
    """

    def __init__(self, k: int, m: int) -> None:
        self.k, self.m = k, m
        self.c, self.s = np.ones(m), np.zeros(m)

    def turn(self, j: int, A: Array, along: tuple[float, float]) -> None:
        """Reflect columns j and j + 1 of A so that (a, b) of some row becomes (r, 0)."""
        a, b = along
        r = np.hypot(a, b)
        # A residual of zero never became a pivot, so r is not zero.
        self.c[j], self.s[j] = a / r, b / r
        self.apply(j, A)

    def apply(self, j: int, A: Array) -> None:
        _reflect(A, j, self.c[j], self.s[j])

    def apply_all(self, A: Array) -> None:
        """Reflect the columns of a tall A; some reflections at a time are one product."""
        for start in range(self.k, self.m - 1, PANEL):
            stop = min(start + PANEL, self.m - 1)
            U = np.eye(stop - start + 1)
            for j in range(start, stop):
                _reflect(U, j - start, self.c[j], self.s[j])
            some = slice(start, stop + 1)
            A[:, some] = (U.T @ A[:, some].T).T


def _reflect(A: Array, j: int, c: float, s: float) -> None:
    """Multiply columns j and j + 1 by [c s; s -c]."""
    first = A[:, j].copy()
    A[:, j] = c * first + s * A[:, j + 1]
    A[:, j + 1] = s * first - c * A[:, j + 1]


def _indefinite(seen: str) -> ArithmeticError:
    return ArithmeticError(
        f"the kernel matrix is not positive semidefinite: {seen}. Use another kernel, or ask for a shift of its "
        "diagonal (shift='auto' in SparseGPRegressor)"
    )
