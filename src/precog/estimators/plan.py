"""What a fit will take, said before it starts: counts of work, and the speed of this machine measured in passing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog.inference import Learning, Model
from precog.inference.subsets import LARGEST, SUBSETS
from precog.operators import Gram
from precog.operators.blockwise import take
from precog.precond.lowrank import default_rank

# What searches took in the benchmarks: exact evaluations, estimated ones, and products of one estimate.
EXACT_EVALUATIONS, SUBSET_EVALUATIONS, ESTIMATES, PRODUCTS = 40, 30, 15, 40
MEASURED_ROWS, FACTORISED_ROWS = 4096, 600


@dataclass(frozen=True)
class Plan:
    """The way, bytes at most, kernel entries in all, and expected seconds."""

    rows: int
    way: str
    memory: float
    entries: float
    seconds: float

    def __str__(self) -> str:
        return "\n".join(
            [
                f"rows             {self.rows:,}",
                f"way              {self.way}",
                f"memory           {self.memory / 1e9:.2f} GB",
                f"kernel entries   {self.entries:.1e}",
                f"expected time    {self.seconds:.1f} s, within a factor of three",
            ]
        )


def plan(model: Model, X: Any, n: int, *, dense: bool, learning: Learning | None, rank: int | None) -> Plan:
    """Return the plan for n rows; takes some tenths of a second to measure this machine, more where it compiles."""
    if dense:
        evaluations = 1 if learning is None else EXACT_EVALUATIONS
        seconds = evaluations * (_dense_seconds() * n**3 + n * n * 2e-8)
        return Plan(n, "exact, by dense Cholesky factors", 4 * 8.0 * n * n, evaluations * 2.0 * n * n, seconds)
    columns = 1 if learning is None else 1 + learning.probing.probes
    estimates = 1 if learning is None else ESTIMATES
    per_entry = _entry_seconds(model, X, n, columns)
    entries = float((estimates + 2) * PRODUCTS) * n * n
    k = default_rank(n) if rank is None else rank
    seconds = entries * per_entry + estimates * 2.0 * n * k * k * 2e-11
    if learning is not None and learning.optimizer == "stochastic":
        seconds += SUBSETS * SUBSET_EVALUATIONS * _dense_seconds() * min(n, LARGEST) ** 3
    memory = 4.0 * n * (2 * k + 20 * columns)
    return Plan(n, "preconditioned conjugate gradients, kernel entries recomputed", memory, entries, seconds)


def _dense_seconds() -> float:
    """Return the time of a factor and an inverse over n³."""
    A = np.eye(FACTORISED_ROWS) + 1e-3
    started = time.perf_counter()
    L, _ = scipy.linalg.lapack.dpotrf(A, lower=1)
    scipy.linalg.lapack.dpotri(L, lower=1)
    return (time.perf_counter() - started) / FACTORISED_ROWS**3


def _entry_seconds(model: Model, X: Any, n: int, columns: int) -> float:
    """Return the time of a product with so many columns over its entries."""
    m = min(n, MEASURED_ROWS)
    gram = Gram(model.kernel, take(X, slice(0, m)), dtype="float32")
    V = np.ones((m, columns))
    gram.matmat(V)
    started = time.perf_counter()
    gram.matmat(V)
    return (time.perf_counter() - started) / m**2
