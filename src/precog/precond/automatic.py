"""The choice of family and rank, from what a randomly pivoted factor leaves out.

With t = tr(K - F F') / tr D, conjugate gradients with P = F F' + D take about 15 √t steps to a relative residual of
1e-2: 8 at t = 0.2, 32 at 4, 133 at 78, for kernels of all smoothness that were tried (`docs/decisions/vecchia.md`).
Where that is many, what is left couples near rows, and Vecchia's approximation of it takes a third of the steps or
less.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.objects import on_objects
from precog.operators import Gram
from precog.precond import factors
from precog.precond.base import Problem
from precog.precond.factors import Factor
from precog.precond.lowrank import chosen_type, default_rank, with_diagonal
from precog.precond.vecchia import NEIGHBOURS, conditioned
from precog.precond.woodbury import Woodbury

STEPS_PER_ROOT = 15.0
# Neighbours cost as much as this many steps more than the factor alone does.
STEPS_SAVED = 35.0
# A factor is complete when what it leaves out is this share of the noise, which five steps make up for.
COMPLETE = 0.1
# Where three quarters of the pivots take off less than this share of the trace, the factor helps neighbours little.
FLAT = 0.3
# Operations a second when factors are built, for the budget of time; measured on two cores.
RATE = 5e10
# Numbers held while a factor is built and in use, over its own, and bytes a neighbour takes: L and L', with places.
OVERHEAD, BYTES_PER_NEIGHBOUR = 1.3, 2 * (4 + 4)


def auto(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    max_memory: float = 2e9,
    max_seconds: float = 60.0,
) -> Woodbury:
    """Return `rpcholesky` or `vecchia`, whichever promises to be faster, of a rank up to the given one (or 4 √n).

    max_memory: bytes that P may take. max_seconds: time that building it may take on a machine like the one that
    measured the rate; both lower the rank, and may rule out neighbours. `report().why` says what was chosen and why.
    """
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    checks.number("max_memory", max_memory, strict=True)
    checks.number("max_seconds", max_seconds, strict=True)
    n = problem.n
    wanted = default_rank(n) if rank is None else min(checks.count("rank", rank), n)
    affordable = int(min(max_memory / (OVERHEAD * n * kept.itemsize), np.sqrt(max_seconds * RATE / (4.0 * n))))
    noise = float(problem.noise.sum())
    factor = factors.random_pivots(problem, max(min(wanted, affordable), 1), rng, kept, COMPLETE * noise)
    left = factor.trace / noise
    steps = STEPS_PER_ROOT * float(np.sqrt(left))
    found = f"rank {factor.rank} leaves {left:.2g} times the noise, which promises about {max(steps, 2.0):.0f} steps"
    if affordable < wanted:
        found += f" (rank {wanted} is beyond the budget)"
    if steps <= STEPS_SAVED:
        return with_diagonal("rpcholesky", problem, factor, "drop", started, f"{found}: low rank alone")
    refusal = _why_no_neighbours(problem, max_memory, max_seconds)
    if refusal:
        return with_diagonal("rpcholesky", problem, factor, "drop", started, f"{found}; {refusal}")
    helpful = _prefix(problem, factor)
    also = f" on the first {helpful.rank} pivots" if helpful.rank else ""
    return conditioned(problem, helpful, NEIGHBOURS, rng, started, f"{found}: {NEIGHBOURS} neighbours{also}")


def _why_no_neighbours(problem: Problem, max_memory: float, max_seconds: float) -> str:
    """Return why neighbours are out of the question, or nothing."""
    if not isinstance(problem.base, Gram) or problem.base.Z is not None or on_objects(problem.base.kernel):
        return "neighbours need a kernel on vectors"
    if problem.n * NEIGHBOURS * BYTES_PER_NEIGHBOUR > max_memory:
        return "neighbours are beyond the budget of memory"
    if problem.n * NEIGHBOURS**3 > max_seconds * RATE / 10.0:
        return "neighbours are beyond the budget of time"
    return ""


def _prefix(problem: Problem, factor: Factor) -> Factor:
    """Return the first quarter of the factor, or none of it where the other three hardly lower the trace."""
    k = factor.rank // 4
    d = np.asarray(problem.K.diag(), dtype=np.float64)
    d -= np.einsum("ik,ik->i", factor.F[:, :k], factor.F[:, :k], dtype=np.float64)
    if factor.trace > (1.0 - FLAT) * d.sum():
        return factors.nothing(problem, factor.F.dtype)
    return Factor(factors.cut(factor.F, k), np.maximum(d, 0.0), factor.pivots[:k], factor.entries)
