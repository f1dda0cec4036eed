"""Preconditioners by name: matrices P near A = K + D, or I + W^½ K W^½, that are easy to solve with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from precog import checks
from precog.operators import Operator
from precog.precond.automatic import auto
from precog.precond.base import Preconditioner, Problem, Report, problem
from precog.precond.coupled import block_jacobi, local, pitc
from precog.precond.lowrank import fitc, nystrom, pivoted_cholesky, rpcholesky, spectral
from precog.precond.randomized import randomized_nystrom, svd
from precog.precond.regularized import identity, regularized
from precog.precond.ski import ski
from precog.precond.vecchia import vecchia

FAMILIES: dict[str, Callable[..., Any]] = {
    "nystrom": nystrom,
    "fitc": fitc,
    "pitc": pitc,
    "spectral": spectral,
    "svd": svd,
    "ski": ski,
    "block_jacobi": block_jacobi,
    "regularized": regularized,
    "pivoted_cholesky": pivoted_cholesky,
    "rpcholesky": rpcholesky,
    "randomized_nystrom": randomized_nystrom,
    "local": local,
    "vecchia": vecchia,
    "identity": identity,
    "auto": auto,
}


def make(name: str, A: Operator, *, rank: int | None = None, rng: Any = None, **options: Any) -> Preconditioner:
    """Return the named preconditioner for A = K + noise, or for A = Congruent(K, √w) + 1.

    rank: columns of the factor, 4 √n by default. rng: a seed or a generator. options: those of the family's builder,
    such as `dtype`, `residual`, `blocks`, `leaf`; an unknown one is refused with the list of the known ones.
    """
    if name not in FAMILIES:
        raise ValueError(f"unknown preconditioner {name!r}; there are {', '.join(FAMILIES)}")
    build = FAMILIES[name]
    known = [option for option in inspect.signature(build).parameters if option not in ("problem", "rank", "rng")]
    for option in options:
        if option not in known:
            raise TypeError(f"{name!r} has no option {option!r}; it takes {', '.join(['rank', 'rng', *known])}")
    if rank is not None:
        checks.count("rank", rank, low=0)
    made: Preconditioner = build(problem(A), rank=rank, rng=np.random.default_rng(rng), **options)
    return made


__all__ = ["FAMILIES", "Preconditioner", "Problem", "Report", "make"]
