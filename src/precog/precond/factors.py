"""Factors F with K ≈ F F' from columns of K: landmarks at random, greedy pivots, random pivots.

With pivots J and L L' = K_JJ all three are F = K_:J L⁻ᵀ, built in different orders. What F leaves out,
d = diag(K - F F'), comes with it.

Accelerated random pivoting [Epperly24] proposes a block of b pivots at once, i ~ d, and accepts each as often as
drawing one by one would have: with H the residual block, candidate j is kept with probability H_jj / d_j, after the
candidates kept before it have been eliminated from H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels.statistics import Array, Index
from precog.operators.skinny import tall
from precog.precond.base import Problem

# Numbers of the blocks in which factors are extended.
BLOCK = 1 << 21
# The smallest block that random pivoting proposes; otherwise a tenth of the rank. Sizes that follow the clock, as
# published, are a little faster and make results depend on it.
SMALLEST = 10


@dataclass(frozen=True)
class Factor:
    """F (n, k), the residual diagonal d, the pivots, and the kernel entries that were evaluated."""

    F: Array
    d: Array
    pivots: Index
    entries: int

    @property
    def rank(self) -> int:
        return int(self.F.shape[1])

    @property
    def trace(self) -> float:
        return float(self.d.sum())


def nothing(problem: Problem, dtype: Any) -> Factor:
    """Return the factor of rank zero."""
    d = np.asarray(problem.K.diag(), dtype=np.float64)
    return Factor(tall(problem.n, 0, dtype), d, np.zeros(0, dtype=np.intp), 0)


def landmarks(problem: Problem, J: Index, dtype: Any, jitter: float = 0.0) -> Factor:
    """Return the Nyström factor of given rows J; rows that depend on others within rounding are left out.

    jitter: is added to the diagonal of K_JJ, which makes the factor smaller than it could be.
    """
    K = problem.K.astype("float64")
    KJJ = np.asarray(K.block(J, J), dtype=np.float64)
    KJJ[np.diag_indices_from(KJJ)] += checks.number("jitter", jitter)
    # LAPACK's pivoted factorisation stops where the residual is rounding: repeated landmarks drop out.
    L, order, rank, _ = scipy.linalg.lapack.dpstrf(KJJ, lower=1, tol=-1.0)
    if not rank:
        return nothing(problem, dtype)
    J, L = J[order[:rank] - 1], np.tril(L[:rank, :rank])
    F, d = tall(problem.n, rank, dtype), np.asarray(K.diag(), dtype=np.float64)
    for rows in _pieces(problem.n, rank):
        C = np.asarray(K.block(rows, J), dtype=np.float64)
        some = scipy.linalg.solve_triangular(L, C.T, lower=True, check_finite=False).T
        F[rows] = some
        d[rows] -= np.einsum("ij,ij->i", some, some)
    return Factor(F, np.maximum(d, 0.0), J, problem.n * len(order))


def greedy(problem: Problem, rank: int, dtype: Any, tolerance: float = 0.0) -> Factor:
    """Return the pivoted Cholesky factor: the next pivot is where d is largest, until tr(K - F F') <= tolerance."""
    K = problem.K.astype("float64")
    F, d = tall(problem.n, rank, dtype), np.asarray(K.diag(), dtype=np.float64).copy()
    floor = _floor(d, dtype)
    pivots: list[int] = []
    while len(pivots) < rank and d.max() > floor and d.sum() > tolerance:
        k, j = len(pivots), int(d.argmax())
        column = np.asarray(K.block(slice(None), [j]), dtype=np.float64)[:, 0]
        column -= F[:, :k] @ F[j, :k]
        F[:, k] = column / np.sqrt(d[j])
        d = np.maximum(d - column**2 / d[j], 0.0)
        d[j] = 0.0
        pivots.append(j)
    return Factor(cut(F, len(pivots)), d, np.array(pivots, dtype=np.intp), problem.n * len(pivots))


def random_pivots(
    problem: Problem,
    rank: int,
    rng: np.random.Generator,
    dtype: Any,
    tolerance: float = 0.0,
    hopeless: Callable[[int, float], bool] = lambda rank, trace: False,
) -> Factor:
    """Return the randomly pivoted Cholesky factor of at most this rank, or of less once t = tr(K - F F') <= tolerance.

    hopeless: hears the rank and t after every block, and may end it there.
    """
    K = problem.K.astype(dtype)
    n = problem.n
    F, d = tall(n, rank, dtype), np.asarray(problem.K.diag(), dtype=np.float64).copy()
    floor, size = _floor(d, dtype), max(rank // 10, SMALLEST)
    pivots = np.zeros(0, dtype=np.intp)
    entries = 0
    while len(pivots) < rank and d.max() > floor and d.sum() > tolerance:
        k, weights = len(pivots), np.where(d > floor, d, 0.0)
        # In the order of drawing and with repeats: a row that is refused may be accepted when it comes again.
        proposed = rng.choice(n, size=size, p=weights / weights.sum())
        H = np.asarray(K.block(proposed, proposed), dtype=np.float64)
        H -= F[proposed, :k].astype(np.float64) @ F[proposed, :k].T.astype(np.float64)
        kept, L = accepted(H, _by_chance(d[proposed], rng, rank - k, floor))
        entries += len(proposed) ** 2
        if not len(kept):
            d[proposed] = np.minimum(d[proposed], np.maximum(np.diagonal(H), 0.0))
            continue
        chosen = proposed[kept]
        _extend(K, F, k, chosen, L, d)
        pivots = np.append(pivots, chosen)
        entries += n * len(chosen)
        if hopeless(len(pivots), float(d.sum())):
            break
    return Factor(cut(F, len(pivots)), d, pivots, entries)


def _by_chance(d: Array, rng: np.random.Generator, most: int, floor: float) -> Callable[[int, float, int], bool]:
    """Return the rule that accepts row j with probability left / d_j, up to so many."""
    return lambda j, left, count: count < most and left > floor and rng.random() * d[j] < left


def accepted(H: Array, taken: Callable[[int, float, int], bool]) -> tuple[Index, Array]:
    """Return which rows of a residual block become pivots, in order, and the Cholesky factor of their block.

    taken(j, left, count): whether row j is one, with `left` of its diagonal after the `count` before it.
    H is overwritten.
    """
    kept: list[int] = []
    columns = []
    for j in range(len(H)):
        if taken(j, H[j, j], len(kept)):
            column = H[:, j] / np.sqrt(H[j, j])
            column[:j] = 0.0
            H[j + 1 :, j + 1 :] -= np.outer(column[j + 1 :], column[j + 1 :])
            kept.append(j)
            columns.append(column)
    rows = np.array(kept, dtype=np.intp)
    return rows, np.array([column[rows] for column in columns]).reshape(len(rows), len(rows)).T


def _extend(K: Any, F: Array, k: int, chosen: Index, L: Array, d: Array) -> None:
    """Write the columns of F that belong to the chosen pivots, some thousand rows at a time, and lower d by them."""
    past = F[chosen, :k].T.copy()
    inverse = scipy.linalg.solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False).T.astype(F.dtype)
    for rows in _pieces(len(F), len(chosen)):
        C = K.block(rows, chosen)
        C -= F[rows, :k] @ past
        new = C @ inverse
        F[rows, k : k + len(chosen)] = new
        d[rows] -= np.einsum("ij,ij->i", new, new, dtype=np.float64)
    np.maximum(d, 0.0, out=d)
    d[chosen] = 0.0


def _pieces(n: int, columns: int) -> Iterator[slice]:
    """Yield stripes of rows of an (n, columns) matrix that hold one block."""
    height = max(BLOCK // max(columns, 1), 1)
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def _floor(d: Array, dtype: Any) -> float:
    """Return the residual below which a diagonal entry is rounding."""
    return 100.0 * float(np.finfo(dtype).eps) * float(d.max(initial=0.0))


def cut(F: Array, rank: int) -> Array:
    """Return the first columns of a factor in memory of their own."""
    if rank == F.shape[1]:
        return F
    cut = tall(len(F), rank, F.dtype)
    cut[...] = F[:, :rank]
    return cut
