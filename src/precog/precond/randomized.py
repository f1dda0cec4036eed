"""Low-rank factors from products with random vectors: truncated SVD and the randomised Nyström approximation.

Y = K Ω.   SVD [Halko11]: Q = orth(K^q Y), Q'K Q = U Λ U', F = Q U Λ^½.
           Nyström [Frangella23]: F F' = Y (Ω'Y)⁻¹ Y' = U Λ U',  P = U (Λ - λ_r) U' + λ_r + D.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels.statistics import Array
from precog.precond.base import Problem, Report
from precog.precond.lowrank import allowed_rank, chosen_type, finished
from precog.precond.parts import Diagonal
from precog.precond.woodbury import Woodbury

OVERSAMPLES = 10


def svd(
    problem: Problem, *, rank: int | None, rng: np.random.Generator, dtype: Any = "auto", power: int = 2
) -> Woodbury:
    """Return P = U Λ U' + D with the largest eigenvalues of K, as `power` further products with K find them."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    checks.count("power", power, low=0)
    wanted, K = allowed_rank(problem, rank), problem.K.astype(kept)
    columns = min(wanted + OVERSAMPLES, problem.n)
    Q = rng.standard_normal((problem.n, columns))
    for _ in range(power + 1):
        Q, _ = np.linalg.qr(np.asarray(K @ Q, dtype=np.float64))
    values, vectors = np.linalg.eigh(Q.T @ np.asarray(K @ Q, dtype=np.float64))
    best = np.argsort(values)[::-1][:wanted]
    best = best[values[best] > 0]
    F = ((Q @ vectors[:, best]) * np.sqrt(values[best])).astype(kept)
    trace = float(np.asarray(problem.K.diag(), dtype=np.float64).sum() - values[best].sum())
    made = Report("svd", F.shape[1], products=(power + 2) * columns, trace=max(trace, 0.0), dtype=kept.name)
    return finished(Diagonal(problem.noise), F, made, problem, started)


def randomized_nystrom(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    most: int | None = None,
) -> Woodbury:
    """Return P from a random Nyström approximation whose rank doubles until λ_r is below the noise.

    rank: the first rank, √n by default; most: the last, by default eight times as much.
    """
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    n, K = problem.n, problem.K.astype(kept)
    wanted = min(n, max(int(np.sqrt(n)), 1) if rank is None else checks.count("rank", rank))
    most = min(n, 8 * wanted if most is None else checks.count("most", most, low=wanted))
    omega, Y = np.zeros((n, 0)), np.zeros((n, 0))
    noise = float(problem.noise.mean())
    while True:
        new = rng.standard_normal((n, wanted - Y.shape[1]))
        new -= omega @ (omega.T @ new)
        new, _ = np.linalg.qr(new - omega @ (omega.T @ new))
        omega, Y = np.hstack([omega, new]), np.hstack([Y, np.asarray(K @ new, dtype=np.float64)])
        U, values = _eigen(omega, Y, float(np.finfo(kept).eps))
        if values[-1] <= noise or wanted >= most:
            break
        wanted = min(2 * wanted, most)
    last = float(values[-1])
    F = (U * np.sqrt(np.maximum(values - last, 0.0))).astype(kept)
    trace = float(np.asarray(problem.K.diag(), dtype=np.float64).sum() - values.sum())
    why = f"smallest eigenvalue {last:.2g} at rank {wanted}, noise {noise:.2g}"
    made = Report("randomized_nystrom", F.shape[1], wanted, trace=max(trace, 0.0), dtype=kept.name, why=why)
    return finished(Diagonal(problem.noise + last), F, made, problem, started)


def _eigen(omega: Array, Y: Array, eps: float) -> tuple[Array, Array]:
    """Return eigenvectors and eigenvalues of Y (Ω'Y)⁻¹ Y', shifted by rounding before and back after."""
    shift = eps * float(np.linalg.norm(Y))
    for _ in range(8):
        shifted = Y + shift * omega
        core = omega.T @ shifted
        try:
            L = scipy.linalg.cholesky(0.5 * (core + core.T), lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            shift *= 10.0
            continue
        B = scipy.linalg.solve_triangular(L, shifted.T, lower=True, check_finite=False).T
        U, sizes, _ = np.linalg.svd(B, full_matrices=False)
        return U, np.maximum(sizes**2 - shift, 0.0)
    raise ArithmeticError("K is not positive semidefinite on random vectors: check the kernel on these inputs")
