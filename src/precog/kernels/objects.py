"""Kernels on arbitrary objects (strings, graphs, rows of a stored matrix): values per block instead of a formula.

They take part in every expression, `2.0 * Precomputed(K) + 0.1 * White()`. The operator asks them for blocks of their
matrix and for its diagonal, and puts the expression's formula on top in NumPy, one block at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from precog.kernels.base import Kernel, Leaf
from precog.kernels.statistics import Array


class Objects(Leaf):
    """A kernel on objects that are no vectors: `block` gives its values, `self_values` its diagonal."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Array:
        """Return k for all pairs of the objects in `rows` and `columns`."""

    @abstractmethod
    def self_values(self, rows: Any) -> Array:
        """Return k(x, x) for every object in `rows`."""

    def formula(self, s: Any, p: Any) -> Any:
        return s

    def pairs(self, X: Any, Z: Any) -> Any:
        return np.asarray(self.block(X, Z), dtype=np.float64)

    def pair_diag(self, X: Any) -> Any:
        return np.asarray(self.self_values(X), dtype=np.float64)


class Precomputed(Objects):
    """k(i, j) = matrix[i, j]: the inputs are row numbers of a stored symmetric matrix, (n,) or (n, 1)."""

    # Equality and hash go by a digest taken once: comparing entry by entry would hide a cost of n².
    matrix: Any = dataclasses.field(default=None, compare=False)
    digest: str = dataclasses.field(default="", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        M = np.asarray(self.matrix)
        if M.ndim != 2 or M.shape[0] != M.shape[1] or M.dtype.kind not in "fiu" or not M.size:
            raise ValueError(f"Precomputed: matrix must be square and numeric, got shape {M.shape}, {M.dtype}")
        if not np.isfinite(M).all():
            raise ValueError(f"Precomputed: row {np.argwhere(~np.isfinite(M))[0][0]} of matrix is not finite")
        gap = np.abs(M - M.T)
        if gap.max() > 1e-8 * np.abs(M).max():
            i, j = np.unravel_index(int(gap.argmax()), M.shape)
            raise ValueError(f"Precomputed: matrix is not symmetric; entries ({i}, {j}) and ({j}, {i}) differ")
        M = M.copy()
        M.flags.writeable = False
        object.__setattr__(self, "matrix", M)
        object.__setattr__(self, "digest", hashlib.sha256(np.ascontiguousarray(M).tobytes()).hexdigest())

    def block(self, rows: Any, columns: Any) -> Array:
        taken: Array = self.matrix[np.ix_(_indices(rows), _indices(columns))]
        return taken

    def self_values(self, rows: Any) -> Array:
        chosen = _indices(rows)
        taken: Array = self.matrix[chosen, chosen]
        return taken

    def check(self, name: str, X: Any) -> None:
        A = np.asarray(X)
        if A.ndim > 2 or (A.ndim == 2 and A.shape[1] != 1) or A.dtype.kind not in "iuf":
            raise ValueError(f"Precomputed takes row numbers, (n,) or (n, 1); {name} has shape {A.shape}, {A.dtype}")
        flat, n = A.ravel(), len(self.matrix)
        wrong = (flat < 0) | (flat >= n) | (flat != np.floor(flat))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(f"Precomputed: row {row} of {name} is {flat[row]!r}, not a row number from 0 to {n - 1}")

    def text(self, number: Callable[[float], str]) -> str:
        return f"Precomputed(matrix=<{self.matrix.shape[0]} x {self.matrix.shape[1]}>)"


def _indices(rows: Any) -> Any:
    return np.asarray(rows).ravel().astype(np.intp)


class Pairwise(Objects):
    """k(x, z) = function(x, z) for objects of any kind, one call of `function` for each pair."""

    function: Callable[[Any, Any], float] = dataclasses.field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"Pairwise: function must be callable with two objects, got {self.function!r}")

    def block(self, rows: Sequence[Any], columns: Sequence[Any]) -> Array:
        return np.array([[self.function(x, z) for z in columns] for x in rows], float).reshape(len(rows), len(columns))

    def self_values(self, rows: Sequence[Any]) -> Array:
        return np.array([self.function(x, x) for x in rows], float)

    def text(self, number: Callable[[float], str]) -> str:
        return f"Pairwise(function={getattr(self.function, '__qualname__', repr(self.function))})"


class Called(Objects):
    """A kernel object after scikit-learn's manner, called with two lists of objects; its hyperparameters stay."""

    # Those kernels compare by their parameters and have no hash.
    kernel: Any = dataclasses.field(default=None, hash=False)

    def block(self, rows: Sequence[Any], columns: Sequence[Any]) -> Array:
        return np.asarray(self.kernel(rows, columns), dtype=np.float64)

    def self_values(self, rows: Sequence[Any]) -> Array:
        return np.asarray(self.kernel.diag(rows), dtype=np.float64)


def on_objects(kernel: Kernel) -> bool:
    """Return whether a kernel takes objects instead of the rows of a matrix."""
    return any(isinstance(leaf, Objects) for leaf in kernel.leaves())
