"""The preconditioner that a fit asks for, within its memory."""

from __future__ import annotations

import inspect
from typing import Any

from precog.operators import Operator
from precog.precond import FAMILIES, Preconditioner, make


def preconditioner(
    name: str | None, A: Operator, rank: int | None, rng: Any, max_memory: float
) -> Preconditioner | None:
    """Return the named preconditioner, or None without a name; families that can keep to a memory are told it."""
    if name is None:
        return None
    options = {"max_memory": max_memory} if "max_memory" in inspect.signature(FAMILIES[name]).parameters else {}
    return make(name, A, rank=rank, rng=rng, **options)
