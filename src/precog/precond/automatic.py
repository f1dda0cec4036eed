"""The choice of family and rank."""

from typing import Any

from precog.precond.base import Problem
from precog.precond.lowrank import rpcholesky


def auto(problem: Problem, *, rank: int | None, rng: Any) -> Any:
    return rpcholesky(problem, rank=rank, rng=rng)
