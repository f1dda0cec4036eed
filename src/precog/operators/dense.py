"""Operators over stored numbers: a matrix, or the factor of a low-rank one."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators.base import Operator, indices, right_hand_side
from precog.operators.schedule import Progress


class Dense(Operator):
    """A stored matrix."""

    def __init__(self, A: Any) -> None:
        self.A = _read_only(checks.matrix("A", A))

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.A.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.A.dtype

    def astype(self, dtype: Any) -> Dense:
        return self if np.dtype(dtype) == self.A.dtype else Dense(self.A.astype(dtype))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        product: Array = self.A @ right_hand_side("V", V, self.shape[1])
        return product

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        product: Array = self.A.T @ right_hand_side("V", V, self.shape[0])
        return product

    def diag(self) -> Array:
        return np.array(np.diagonal(self.A))

    def block(self, rows: Any, columns: Any) -> Array:
        taken: Array = self.A[np.ix_(indices("rows", rows, self.shape[0]), indices("columns", columns, self.shape[1]))]
        return taken

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and np.array_equal(self.A, other.A)

    def __hash__(self) -> int:
        return hash((Dense, self.shape, self.A.tobytes()))

    def __repr__(self) -> str:
        return f"Dense(<{self.shape[0]} x {self.shape[1]}>)"


class LowRank(Operator):
    """F G' from its factors F (n, k) and G (m, k); F F' without G."""

    def __init__(self, F: Any, G: Any = None) -> None:
        self.F = _read_only(checks.matrix("F", F))
        self.G = self.F if G is None else _read_only(checks.matrix("G", G))
        if self.G.shape[1] != self.F.shape[1]:
            raise ValueError(f"F and G need as many columns as each other, got {self.F.shape[1]} and {self.G.shape[1]}")

    @property
    def shape(self) -> tuple[int, int]:
        return self.F.shape[0], self.G.shape[0]

    @property
    def rank(self) -> int:
        return int(self.F.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(self.F, self.G)

    def astype(self, dtype: Any) -> LowRank:
        if np.dtype(dtype) == self.dtype:
            return self
        return LowRank(self.F.astype(dtype), None if self.G is self.F else self.G.astype(dtype))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        product: Array = self.F @ (self.G.T @ right_hand_side("V", V, self.shape[1]))
        return product

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        product: Array = self.G @ (self.F.T @ right_hand_side("V", V, self.shape[0]))
        return product

    def diag(self) -> Array:
        k = min(self.shape)
        return np.einsum("ik,ik->i", self.F[:k], self.G[:k])

    def block(self, rows: Any, columns: Any) -> Array:
        i, j = indices("rows", rows, self.shape[0]), indices("columns", columns, self.shape[1])
        product: Array = self.F[i] @ self.G[j].T
        return product

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowRank) and np.array_equal(self.F, other.F) and np.array_equal(self.G, other.G)

    def __hash__(self) -> int:
        return hash((LowRank, self.shape, self.F.tobytes(), self.G.tobytes()))

    def __repr__(self) -> str:
        return f"LowRank(<{self.shape[0]} x {self.shape[1]}>, rank={self.rank})"


def _read_only(A: Array) -> Array:
    view = A.view()
    view.flags.writeable = False
    return view
