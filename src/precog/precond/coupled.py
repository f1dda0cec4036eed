"""Preconditioners with blocks of rows that are exact: block Jacobi, PITC, and PITC at its best, `local`.

    P = F F' + blockdiag(K - F F') + D

`local` takes F from random pivots and the blocks from the leaves of a k-d tree of the inputs as the kernel scales them.
Where length scales are short the long-range part of K has low rank and the rest couples neighbours only: F carries the
one, the leaves the other. It is the place of the blocks that matters: with random blocks of the same size nearly all is
lost.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array, Index
from precog.precond import factors
from precog.precond.base import Problem, Report
from precog.precond.blocks import rows_of, tree
from precog.precond.lowrank import allowed_rank, chosen_type, finished, random_rows
from precog.precond.parts import Blocks
from precog.precond.parts import blocks as block_part
from precog.precond.woodbury import Woodbury

DEFAULT_LEAF = 1000


def block_jacobi(
    problem: Problem, *, rank: int | None, rng: np.random.Generator, dtype: Any = "auto", blocks: Any = "contiguous"
) -> Woodbury:
    """Return P = blockdiag(A) with √n blocks: "contiguous", "tree", "clusters", or labels (n,). `rank` is not used."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    rows = rows_of(problem, blocks, int(np.sqrt(problem.n)), rng)
    F = np.empty((problem.n, 0), kept)
    made = Report("block_jacobi", 0, entries=sum(len(some) ** 2 for some in rows), dtype=kept.name)
    return finished(exact_blocks(problem, F, rows, kept), F, made, problem, started)


def pitc(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    blocks: Any = "tree",
    jitter: float = 0.0,
) -> Woodbury:
    """Return P = F F' + blockdiag(K - F F') + D, F of Nyström, with √n blocks as in `block_jacobi`."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    rows = rows_of(problem, blocks, int(np.sqrt(problem.n)), rng)
    factor = factors.landmarks(problem, random_rows(problem, rank, rng), kept, jitter)
    return coupled("pitc", problem, factor, rows, started)


def local(
    problem: Problem,
    *,
    rank: int | None,
    rng: np.random.Generator,
    dtype: Any = "auto",
    leaf: int = DEFAULT_LEAF,
    why: str = "",
) -> Woodbury:
    """Return PITC on randomly pivoted landmarks, with leaves of at most `leaf` rows as blocks."""
    started, kept = time.perf_counter(), chosen_type(problem, dtype)
    rows = tree(problem.places(), checks.count("leaf", leaf))
    factor = factors.random_pivots(problem, allowed_rank(problem, rank), rng, kept)
    return coupled("local", problem, factor, rows, started, why)


def coupled(
    name: str, problem: Problem, factor: factors.Factor, rows: list[Index], started: float, why: str = ""
) -> Woodbury:
    """Return P from a factor and the sets of rows in which it is to be exact."""
    kept = factor.F.dtype
    E = exact_blocks(problem, factor.F, rows, kept)
    entries = factor.entries + sum(len(some) ** 2 for some in rows)
    made = Report(name, factor.rank, entries=entries, trace=factor.trace, dtype=kept.name, why=why)
    return finished(E, factor.F, made, problem, started)


def exact_blocks(problem: Problem, F: Array, rows: list[Index], dtype: Any) -> Blocks:
    """Return E = blockdiag(K - F F') + D."""
    K = problem.K.astype("float64")

    def block(some: Any) -> Array:
        E = np.array(K.block(some, some), dtype=np.float64)
        if F.shape[1]:
            taken = F[some].astype(np.float64)
            E -= taken @ taken.T
        E[np.diag_indices_from(E)] += problem.noise[some]
        return E

    size = float(np.asarray(problem.K.diag(), dtype=np.float64).max())
    return block_part(rows, block, size, dtype)
