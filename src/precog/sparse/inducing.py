"""Inducing inputs Z, and what every approximation takes from them: F = K_NM L⁻ᵀ with L L' = K_MM, a stripe at a time.

K_MM has a relative jitter on its diagonal. That is no correction for rounding but another choice of inducing variables,
f(Z) plus a little noise of their own: Q = F F' stays below K, a bound stays a bound, and everything stays smooth in
theta and Z, also where two inducing inputs meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels import Kernel
from precog.kernels.base import has_white
from precog.kernels.statistics import Array, Index
from precog.operators import Gram
from precog.operators.blockwise import take
from precog.operators.derivative import white_diag

# Weights of derivatives are of the size of K_MM⁻¹; with this their rounding stays below 1e-6 of what they add up to,
# and the diagonal of Q is changed by no more than this share.
JITTER = 1e-10
# Numbers in a stripe of F: some thousand rows for some hundred inducing inputs.
STRIPE = 1 << 21
# How far below zero a residual may fall by rounding, over the largest entry of the diagonal.
BELOW_ZERO = 1e-6


@dataclass(frozen=True, eq=False)
class Inducing:
    """Inducing inputs Z, (m, d) or m objects; `rows` says which rows of X they are, if they are some."""

    Z: Any
    rows: Index | None = None

    @staticmethod
    def of(X: Any, rows: Any) -> Inducing:
        """Return some rows of X as inducing inputs."""
        J = np.asarray(rows, dtype=np.intp)
        return Inducing(take(X, J), J)

    @property
    def m(self) -> int:
        return checks.length(self.Z)

    def factor(self, kernel: Kernel, jitter: float = JITTER) -> Array:
        """Return L with L L' = K_MM, its diagonal multiplied by 1 + jitter."""
        K = np.asarray(Gram(kernel, self.Z).dense(), dtype=np.float64)
        K[np.diag_indices_from(K)] *= 1.0 + jitter
        L, info = scipy.linalg.lapack.dpotrf(K.T, lower=1, clean=1, overwrite_a=1)
        if info or not np.isfinite(np.diagonal(L)).all():
            raise indefinite(kernel, f"the matrix of {self.m} inducing inputs has no Cholesky factor")
        factor: Array = L
        return factor

    def white(self, kernel: Kernel) -> Array | None:
        """Return what `White` adds where a row of X meets itself as an inducing input."""
        return None if self.rows is None else white_diag(kernel, self.Z)

    def cross(self, gram: Gram, rows: slice) -> Array:
        """Return some rows of K_NM, for `gram` = Gram(kernel, X, Z)."""
        K = np.asarray(gram.block(rows, slice(None)), dtype=np.float64)
        if self.rows is not None and has_white(gram.kernel):
            white, here = self.white(gram.kernel), self.within(rows)
            assert white is not None
            K[self.rows[here] - rows.start, here] += white[here]
        return K

    def within(self, rows: slice) -> Index:
        """Return which inducing inputs are among some rows of X."""
        if self.rows is None:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero((self.rows >= rows.start) & (self.rows < rows.stop))


class Whitened:
    """F' = L⁻¹ K_MN a stripe at a time, kept from one pass to the next where it fits into memory; diag K with it."""

    def __init__(
        self, kernel: Kernel, X: Any, inducing: Inducing, stripes: list[slice], jitter: float, max_memory: float
    ) -> None:
        self.kernel, self.inducing, self.stripes = kernel, inducing, stripes
        self.L = inducing.factor(kernel, jitter)
        self.gram = Gram(kernel, X, inducing.Z)
        self.diag = np.asarray(kernel.diag(X), dtype=np.float64)
        self.kept: dict[int, Array] | None = {} if 8.0 * len(self.diag) * inducing.m <= max_memory else None

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        """Yield rows with their columns of F', (m, rows), in Fortran order."""
        for i, rows in enumerate(self.stripes):
            if self.kept is not None and i in self.kept:
                yield rows, self.kept[i]
                continue
            F = whitened(self.L, self.inducing.cross(self.gram, rows))
            if self.kept is not None:
                self.kept[i] = F
            yield rows, F

    def left(self, rows: slice, F: Array) -> Array:
        """Return diag(K - Q) of some rows, never negative."""
        return residual(self.kernel, self.diag[rows], np.einsum("mi,mi->i", F, F), float(self.diag.max()))


def whitened(L: Array, K: Array) -> Array:
    """Return F' = L⁻¹ K' for some rows K (b, m) of K_NM in C order: their transpose is what LAPACK takes as it is."""
    F: Array = scipy.linalg.solve_triangular(L, K.T, lower=True, overwrite_b=True, check_finite=False)
    return F


def residual(kernel: Kernel, diag: Array, explained: Array, size: float) -> Array:
    """Return diag - explained, rounding below zero taken as zero; raises where it is more than rounding."""
    d: Array = diag - explained
    if d.min(initial=0.0) < -BELOW_ZERO * size:
        raise indefinite(kernel, f"a conditional variance is {d.min():.2g}, its largest variance {size:.2g}")
    return np.maximum(d, 0.0)


def indefinite(kernel: Kernel, seen: str) -> ArithmeticError:
    return ArithmeticError(
        f"the kernel {kernel} is not positive semidefinite on these inputs: {seen}. Use another kernel, or ask for a "
        "shift of its diagonal (shift='auto' in SparseGPRegressor)"
    )


def stripes(n: int, m: int) -> list[slice]:
    """Return slices of so many rows that a stripe of F has about `STRIPE` numbers."""
    height = max(STRIPE // max(m, 1), 1)
    return [slice(start, min(start + height, n)) for start in range(0, n, height)]
