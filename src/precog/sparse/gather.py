"""Two ways to R with R'R = I + Ψ'Ψ from stripes of Ψ = T⁻¹F and ỹ = T⁻¹Y, Λ = TT', and to what solves least squares.

    min over w of |ỹ - Ψ w|² + |w|²  is at  R w = c,  with the value  rest = |ỹ|² - |c|²

`Normal` adds up Ψ'Ψ and factorises it: one product of BLAS. `Orthogonal` updates R by orthogonal transformations of
[Ψ ỹ], which costs some four times as much and loses nothing to Ψ'Ψ having the square of the condition number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array
from precog.sparse.parts import Part

# Sums of squares up to which `Normal` keeps its digits: its errors, in nats, are this times m times 1e-16.
LARGEST = 1e9
# Columns that LAPACK's update takes at once.
PANEL = 32


@dataclass(frozen=True, eq=False)
class Solved:
    """R (m, m) upper, c = R⁻ᵀΨ'ỹ (m, p), rest (p,), and the size of the sums of squares."""

    R: Array
    c: Array
    rest: Array
    size: float

    @property
    def W(self) -> Array:
        """Return w for every output, (m, p)."""
        W: Array = scipy.linalg.solve_triangular(self.R, self.c, check_finite=False)
        return W

    def logdet(self) -> float:
        """Return log det(I + Ψ'Ψ)."""
        return 2.0 * float(np.log(np.abs(np.diagonal(self.R))).sum())

    def inverse(self) -> Array:
        """Return (I + Ψ'Ψ)⁻¹, for the weights of derivatives."""
        E = scipy.linalg.solve_triangular(self.R, np.eye(len(self.R)), check_finite=False)
        return np.asfortranarray(E @ E.T)


class Gatherer(Protocol):
    """Takes stripes F' (m, b) in Fortran order and Y' (p, b), with the part of Λ that is theirs."""

    def add(self, F: Array, Y: Array, part: Part) -> None: ...

    def solved(self) -> Solved: ...


class Normal:
    """By the Cholesky factor of I + Ψ'Ψ."""

    def __init__(self, m: int, outputs: int) -> None:
        self.B = np.zeros((m, m), order="F")
        self.right, self.squares = np.zeros((m, outputs)), np.zeros(outputs)

    def add(self, F: Array, Y: Array, part: Part) -> None:
        scale = 1.0 if part.uniform is None else 1.0 / part.uniform
        Psi, y = (F, Y) if part.uniform is not None else (part.whiten(F), part.whiten(Y))
        self.B = scipy.linalg.blas.dsyrk(scale, Psi, beta=1.0, c=self.B, overwrite_c=1)
        self.right += scale * (Psi @ y.T)
        self.squares += scale * np.einsum("pi,pi->p", y, y)

    def solved(self) -> Solved:
        size = float(np.trace(self.B) + self.squares.sum())
        self.B[np.diag_indices_from(self.B)] += 1.0
        # I + Ψ'Ψ has no eigenvalue below one: only numbers that are not finite can make this fail.
        R, info = scipy.linalg.lapack.dpotrf(self.B, lower=0, clean=1)
        if info:
            raise ArithmeticError("I + Ψ'Ψ is not finite: the kernel's values or the targets are too large")
        c = scipy.linalg.solve_triangular(R, self.right, trans=1, check_finite=False)
        rest = np.maximum(self.squares - np.einsum("mp,mp->p", c, c), 0.0)
        return Solved(R, c, rest, size)


class Orthogonal:
    """By QR of [Ψ ỹ] below [I 0], a stripe at a time."""

    def __init__(self, m: int, outputs: int) -> None:
        self.m, self.size = m, 0.0
        self.R = np.zeros((m + outputs, m + outputs), order="F")
        self.R[np.arange(m), np.arange(m)] = 1.0

    def add(self, F: Array, Y: Array, part: Part) -> None:
        below = np.asfortranarray(np.concatenate([part.whiten(F), part.whiten(Y)]).T)
        self.size += float(np.vdot(below, below))
        self.R, *_, info = scipy.linalg.lapack.dtpqrt(
            0, min(PANEL, len(self.R)), self.R, below, overwrite_a=1, overwrite_b=1
        )
        assert info == 0

    def solved(self) -> Solved:
        R, c = np.triu(self.R[: self.m, : self.m]), self.R[: self.m, self.m :]
        corner = np.triu(self.R[self.m :, self.m :])
        return Solved(R, c, np.einsum("qp,qp->p", corner, corner), self.size)
