"""Preconditioners that are a low-rank factor plus a diagonal: P = F F' + D, with the diagonal exact where asked for.

What F leaves out of the diagonal, d = diag(K - F F'), can be dropped ("drop"), added as its mean ("mean"), or added
as it is ("diagonal", which makes Nyström FITC). Dropping it needs the fewest steps; adding it lowers the variance of
probes from N(0, P).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array, Index
from precog.precond import factors
from precog.precond.base import Problem, Report
from precog.precond.factors import Factor
from precog.precond.parts import Diagonal
from precog.precond.spectral import features
from precog.precond.woodbury import Woodbury, storage, woodbury

RESIDUALS = ("drop", "mean", "diagonal")


def default_rank(n: int) -> int:
    """Return the rank of [Cutajar16 section 5], 4 √n."""
    return min(n, round(4.0 * np.sqrt(n)))


def nystrom(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    residual: str = "drop",
    jitter: float = 0.0,
) -> Woodbury:
    """Return P = K_:J (K_JJ + jitter)⁻¹ K_J: + D for landmarks J drawn without replacement."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    factor = factors.landmarks(problem, random_rows(problem, rank, rng), kept, jitter)
    return with_diagonal("nystrom", problem, factor, residual, started)


def fitc(
    problem: Problem, *, rank: int | None, rng: np.random.Generator, dtype: Any = "auto", jitter: float = 0.0
) -> Woodbury:
    """Return P = F F' + diag(K - F F') + D, F of Nyström: the diagonal of P is that of A."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    factor = factors.landmarks(problem, random_rows(problem, rank, rng), kept, jitter)
    return with_diagonal("fitc", problem, factor, "diagonal", started)


def pivoted_cholesky(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    residual: str = "drop",
    tolerance: float = 0.0,
) -> Woodbury:
    """Return P = F F' + D with greedy pivots, until tr(K - F F') <= tolerance · tr D."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    wanted = allowed_rank(problem, rank)
    factor = factors.greedy(problem, wanted, kept, tolerance * float(problem.noise.sum()))
    return with_diagonal("pivoted_cholesky", problem, factor, residual, started)


def rpcholesky(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    residual: str = "drop",
    tolerance: float = 0.0,
) -> Woodbury:
    """Return P = F F' + D with random pivots in blocks, until tr(K - F F') <= tolerance · tr D."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    wanted = allowed_rank(problem, rank)
    factor = factors.random_pivots(problem, wanted, rng, kept, tolerance * float(problem.noise.sum()))
    return with_diagonal("rpcholesky", problem, factor, residual, started)


def spectral(problem: Problem, *, rank: int | None, rng: np.random.Generator, dtype: Any = "auto") -> Woodbury:
    """Return P = S Z Z' S + D with Z the cosines and sines of rank / 2 random frequencies [Lazaro10]."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    gram = problem.gram("spectral")
    count = max(allowed_rank(problem, rank, most=None) // 2, 1)
    F = features(gram.kernel, gram.X.astype(np.float64, copy=False), count, rng)
    if problem.scale is not None:
        F *= problem.scale[:, None]
    d = np.zeros(problem.n)
    return with_diagonal("spectral", problem, Factor(F.astype(kept), d, np.zeros(0, np.intp), 0), "drop", started)


def with_diagonal(
    name: str, problem: Problem, factor: Factor, residual: str, started: float, why: str = ""
) -> Woodbury:
    """Return P from a factor and what is to be done with the rest of the diagonal."""
    checks.choice("residual", residual, RESIDUALS)
    extra: Any = {"drop": 0.0, "mean": factor.d.mean(), "diagonal": factor.d}[residual]
    E = Diagonal(problem.noise + extra)
    trace = factor.trace if len(factor.pivots) else None
    made = Report(name, factor.rank, entries=factor.entries, trace=trace, dtype=factor.F.dtype.name, why=why)
    return finished(E, factor.F, made, problem, started)


def finished(E: Any, F: Array, made: Report, problem: Problem, started: float) -> Woodbury:
    """Return P = E + F F' with the time that it took."""
    from dataclasses import replace

    P = woodbury(E, F, made, problem.A)
    return replace(P, built=replace(made, seconds=time.perf_counter() - started))


def chosen_type(problem: Problem, dtype: Any) -> Any:
    """Return the type in which factors are stored."""
    checks.choice("dtype", dtype, ("auto", "float32", "float64"))
    return storage(dtype, float(np.asarray(problem.K.diag(), dtype=np.float64).sum()), problem.noise, problem.n)


def allowed_rank(problem: Problem, rank: int | None, most: int | None = -1) -> int:
    """Return the rank that was asked for, at most n."""
    wanted = default_rank(problem.n) if rank is None else checks.count("rank", rank)
    return wanted if most is None else min(wanted, problem.n)


def random_rows(problem: Problem, rank: int | None, rng: np.random.Generator) -> Index:
    return rng.choice(problem.n, size=allowed_rank(problem, rank), replace=False)
