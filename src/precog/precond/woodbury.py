"""Preconditioners P = E + F F', E diagonal or block diagonal: one stable form for nearly all families.

With E = L L' and G = L⁻¹ F, the stacked factorisation [G; I] = [Q; Q₂] R gives, with H = L⁻ᵀ Q,

    P⁻¹ V  = E⁻¹ V - H H' V
    P V    = E (V + H R R' H' E V)
    log|P| = log|E| + 2 Σ log R_jj
    sample = E H R g₁ + L g₂ ~ N(0, P)

R comes from a Cholesky factor of I + G'G summed in float64, done twice where one is not enough; a textbook Woodbury
in float32 is not definite from noise 1e-6 on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.operators.skinny import expand, project
from precog.precond.base import Report
from precog.precond.parts import Part

# Numbers of the chunks in which a factor is worked on in float64.
CHUNK = 1 << 20
# Up to this ratio in R a solve with it in float32 keeps the digits that a factor in float32 has.
SINGLE_SOLVE = 1e2
# One Cholesky of I + G'G keeps Q orthogonal to about eps times this condition number; beyond it a second pass follows.
ONE_PASS = 1e8
# Below so many rows factors are small anyway. Above this ratio of tr K to the smallest noise float32 is not definite
# where one eigenvalue makes up most of the trace: solves ended from 3e6 on, and took up to twice the steps at 1e6.
SINGLE_ROWS = 4000
SINGLE_RATIO = 1e6


@dataclass(frozen=True, eq=False)
class Woodbury:
    """P = E + F F', kept as E, H and R; without F where H has no columns."""

    E: Part
    H: Array
    R: Array
    built: Report
    A: Operator

    @property
    def exact(self) -> bool:
        return True

    @property
    def rank(self) -> int:
        return int(self.H.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V in float64, from products in the type of the factors."""
        if V.shape[0] != self.shape[0]:
            raise ValueError(f"V has {V.shape[0]} rows, the preconditioner {self.shape[0]}")
        if self.dtype == np.float64:
            out = self.E.solve(V)
            return out - expand(self.H, project(self.H, V)) if self.rank else out
        # Residuals shrink during a solve: in float32 their scale must not matter.
        scale = max(float(V.max(initial=0.0)), -float(V.min(initial=0.0))) or 1.0
        W = (V / scale).astype(np.float32)
        out = self.E.solve(W if self.E.dtype == np.float32 else V / scale).astype(np.float64, copy=False)
        if self.rank:
            out -= expand(self.H, project(self.H, W))
        out *= scale
        return out

    @property
    def dtype(self) -> np.dtype[Any]:
        """How factors are stored."""
        return self.H.dtype

    def matmat(self, V: Array) -> Array:
        """Return P V."""
        if not self.rank:
            return self.E.matmat(V)
        EV = self.E.matmat(V)
        return EV + self.E.matmat(self.H @ (self.R @ (self.R.T @ (self.H.T @ EV))))

    def logdet(self) -> float:
        return self.E.logdet() + 2.0 * float(np.log(np.abs(np.diagonal(self.R))).sum())

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of P⁻¹."""
        return self.E.inverse_diagonal() - np.einsum("ij,ij->i", self.H, self.H, dtype=np.float64)

    def sample(self, rng: np.random.Generator, k: int) -> Array:
        """Return k columns from N(0, P)."""
        out = self.E.root(rng.standard_normal((self.shape[0], k)))
        if self.rank:
            out += self.E.matmat(self.H @ (self.R @ rng.standard_normal((self.rank, k))))
        return out

    @cached_property
    def _condition(self) -> float | None:
        from precog.precond.condition import condition

        return condition(self, self.A)

    def report(self) -> Report:
        """Return how P was built, with the condition number of P⁻¹ A as a few products with A estimate it."""
        return dataclasses.replace(self.built, condition=self._condition)

    def __repr__(self) -> str:
        return f"<{self.built.name} preconditioner of rank {self.rank} for {self.A!r}>"


def woodbury(E: Part, F: Array, built: Report, A: Operator) -> Woodbury:
    """Return P = E + F F'; F is overwritten."""
    if not F.shape[1]:
        return Woodbury(E, F, np.eye(0), built, A)
    E.whiten(F)
    R = orthogonalise(F)
    E.whiten_transposed(F)
    return Woodbury(E, F, R, built, A)


def orthogonalise(G: Array) -> Array:
    """Overwrite G with Q and return R, where [G; I] = [Q; R⁻¹] R and [Q; R⁻¹] has orthonormal columns."""
    k = G.shape[1]
    try:
        R = _cholesky(_gram(G) + np.eye(k))
        _solve_right(G, R)
        if _ratio(R) ** 2 > ONE_PASS:
            inverse = scipy.linalg.solve_triangular(R, np.eye(k), check_finite=False)
            again = _cholesky(_gram(G) + inverse.T @ inverse)
            _solve_right(G, again)
            R = again @ R
    except np.linalg.LinAlgError:
        raise ArithmeticError(
            "the factor of a preconditioner is too large for its noise: add noise, or lower the rank"
        ) from None
    return np.asarray(R)


def _gram(G: Array) -> Array:
    """Return G'G, summed in float64 whatever the type of G."""
    out = np.zeros((G.shape[1], G.shape[1]), order="F")
    for rows in _chunks(G):
        some = G[rows].astype(np.float64, copy=False)
        out = scipy.linalg.blas.dsyrk(1.0, some.T, beta=1.0, c=out, overwrite_c=1)
    return out + np.triu(out, 1).T


def _cholesky(M: Array) -> Array:
    R: Array = scipy.linalg.cholesky(M, check_finite=False)
    return R


def _solve_right(G: Array, R: Array) -> None:
    """Overwrite G with G R⁻¹, chunk by chunk, in float64 unless R is so mild that float32 loses nothing."""
    mild = G.dtype == np.float32 and _ratio(R) <= SINGLE_SOLVE
    kept: Any = R.astype(np.float32 if mild else np.float64, order="F")
    for rows in _chunks(G):
        some = np.ascontiguousarray(G[rows], dtype=kept.dtype)
        G[rows] = scipy.linalg.solve_triangular(kept, some.T, trans=1, check_finite=False, overwrite_b=True).T


def _chunks(G: Array) -> Iterator[slice]:
    height = max(CHUNK // G.shape[1], 1)
    for start in range(0, len(G), height):
        yield slice(start, min(start + height, len(G)))


def _ratio(R: Array) -> float:
    diagonal = np.abs(np.diagonal(R))
    return float(diagonal.max() / diagonal.min())


def storage(dtype: Any, trace: float, noise: Array, n: int) -> Any:
    """Return the type to store factors in: float32 halves the time to apply them, where n and the noise allow it."""
    definite = trace <= SINGLE_RATIO * float(noise.min())
    if dtype == "float32" and not definite:
        raise ValueError(
            f"factors in float32 would not be positive definite at noise {noise.min():.1g}, with a trace of K of "
            f'{trace:.2g}; use dtype="auto" or "float64"'
        )
    if dtype != "auto":
        return np.dtype(dtype)
    return np.dtype(np.float32 if n >= SINGLE_ROWS and definite else np.float64)
