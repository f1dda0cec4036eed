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
from precog.precond.vecchia import NEIGHBOURS, conditioned, no_factor
from precog.precond.woodbury import Woodbury

STEPS_PER_ROOT = 15.0
# Neighbours cost as much as this many steps more than the factor alone does.
STEPS_SAVED = 35.0
# Factors are judged when they have the quarter of their rank that may serve under neighbours.
QUARTER = 4
# A factor is complete when what it leaves out is this share of the noise, which five steps make up for.
COMPLETE = 0.1
# Where a quarter of the rank promises so many times STEPS_SAVED for all of it, the other pivots are not worth a try.
HOPELESS = 2.0
# Where the second half of that quarter takes off less than this share of the trace, it helps neighbours little.
FLAT = 0.16
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
    most, refusal = max(min(wanted, affordable), 1), _why_no_neighbours(problem, max_memory, max_seconds)
    outlook = Outlook(most, noise)
    hopeless = (lambda rank, trace: False) if refusal else outlook.hopeless
    factor = factors.random_pivots(problem, most, rng, kept, COMPLETE * noise, hopeless)
    left = outlook.foretold if outlook.given_up else factor.trace / noise
    steps = STEPS_PER_ROOT * float(np.sqrt(left))
    leaves = f"foretells that rank {most} leaves" if outlook.given_up else "leaves"
    found = f"rank {factor.rank} {leaves} {left:.2g} times the noise, which promises about {max(steps, 2.0):.0f} steps"
    if affordable < wanted:
        found += f" (rank {wanted} is beyond the budget)"
    if steps <= STEPS_SAVED:
        return with_diagonal("rpcholesky", problem, factor, "drop", started, f"{found}: low rank alone")
    if refusal:
        return with_diagonal("rpcholesky", problem, factor, "drop", started, f"{found}; {refusal}")
    helpful = _prefix(problem, factor, most, dtype)
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


class Outlook:
    """What a growing factor foretells of its full rank: the trace that it leaves falls like a power of the rank."""

    def __init__(self, most: int, noise: float) -> None:
        self.most, self.noise = most, noise
        self.trail: list[tuple[int, float]] = []
        self.foretold, self.given_up = np.inf, False

    def hopeless(self, rank: int, trace: float) -> bool:
        """Return whether a quarter of the pivots says that all of them would leave far too much."""
        self.trail.append((rank, trace))
        (k, t), last = self.trail[0], self.trail[-1]
        if last[0] < self.most // QUARTER or last[0] == k:
            return False
        power = np.log(t / last[1]) / np.log(last[0] / k)
        self.foretold = float(last[1] * (last[0] / self.most) ** power) / self.noise
        self.given_up = STEPS_PER_ROOT * float(np.sqrt(self.foretold)) > HOPELESS * STEPS_SAVED
        return self.given_up


def _prefix(problem: Problem, factor: Factor, most: int, dtype: Any) -> Factor:
    """Return the first quarter of what the factor was to be, or none of it where its second half takes off little."""
    k = min(max(most // QUARTER, 1), factor.rank)
    full = np.asarray(problem.K.diag(), dtype=np.float64)
    half, d = (full - np.einsum("ik,ik->i", F, F, dtype=np.float64) for F in (factor.F[:, : k // 2], factor.F[:, :k]))
    if d.sum() > (1.0 - FLAT) * half.sum():
        return no_factor(problem, dtype)
    return Factor(factors.cut(factor.F, k), np.maximum(d, 0.0), factor.pivots[:k], factor.entries)
