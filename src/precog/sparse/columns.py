"""Kernels on objects asked for by column: each column of the data's own matrix is computed once and kept.

Learning asks for the same columns again and again with other weights in front of the kernels. So each kernel on objects
is replaced by one that takes row numbers instead of objects and keeps its columns, as many as fit into memory.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from precog import checks
from precog.kernels import Counted, Kernel
from precog.kernels.objects import Objects
from precog.kernels.statistics import Array, Index
from precog.operators.blockwise import take


class Columns:
    """The matrix of a kernel on one set of objects; columns are found when they are first asked for."""

    def __init__(self, base: Objects, X: Any, max_memory: float) -> None:
        self.n = checks.length(X)
        self.most = max(int(max_memory / (8 * self.n)), 1)
        self.held: OrderedDict[int, Array] = OrderedDict()
        self.found = 0
        features = base.among(X) if isinstance(base, Counted) else None
        self.find: Callable[[Index], Array] = (
            features.columns if features is not None else lambda rows: base.block(X, take(X, rows))
        )
        self.diag = features.diag() if features is not None else np.asarray(base.self_values(X), dtype=np.float64)

    def block(self, rows: Index, columns: Index) -> Array:
        """Return K[rows][:, columns]."""
        wanted = list(dict.fromkeys(columns.tolist()))
        missing = [j for j in wanted if j not in self.held]
        new: dict[int, Array] = {}
        if missing:
            self.found += len(missing)
            values = np.asarray(self.find(np.array(missing)), dtype=np.float64)
            new = dict(zip(missing, np.ascontiguousarray(values.T), strict=True))
        parts = {j: new[j] if j in new else self.held[j] for j in wanted}
        for j, column in parts.items():
            self.held[j] = column
            self.held.move_to_end(j)
        while len(self.held) > self.most:
            self.held.popitem(last=False)
        out = np.empty((len(rows), len(columns)), order="F")
        for place, j in enumerate(columns.tolist()):
            out[:, place] = parts[j][rows]
        return out


class OnDemand(Objects):
    """A kernel on objects by their row numbers in one set, through `Columns`."""

    base: Kernel = dataclasses.field(default=None)  # type: ignore[assignment]
    columns: Columns = dataclasses.field(default=None)  # type: ignore[assignment]

    def block(self, rows: Any, columns: Any) -> Array:
        return self.columns.block(np.asarray(rows).ravel(), np.asarray(columns).ravel())

    def self_values(self, rows: Any) -> Array:
        return self.columns.diag[np.asarray(rows).ravel()]

    def text(self, number: Callable[[float], str]) -> str:
        return self.base.text(number)


def on_demand(kernel: Kernel, X: Any, max_memory: float) -> Kernel | None:
    """Return the kernel on row numbers of X, or None where a kernel on objects has hyperparameters of its own."""
    leaves = kernel.leaves()
    objects = [leaf for leaf in dict.fromkeys(leaves) if isinstance(leaf, Objects)]
    if any(len(leaf.theta) for leaf in objects):
        return None
    # A kernel that stands in two places, as in a sum with a redundant total, is computed once.
    held = {leaf: OnDemand(leaf, Columns(leaf, X, max_memory / len(objects))) for leaf in objects}
    replaced = [held[leaf] if isinstance(leaf, Objects) else leaf for leaf in leaves]
    return kernel.with_leaves(iter(replaced))
