"""What a matrix has to offer that is never stored: a shape, products with columns, a diagonal, blocks.

An operator defines `shape`, `dtype`, `matmat`, `diag` and `block`; the rest follows. SciPy's solvers take it as it is,
since they look for `shape` and `matvec`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators.schedule import Progress


class Operator(ABC):
    """A matrix known by its products. Symmetric ones need no `rmatmat`."""

    # NumPy arrays must leave `array @ operator` and `array * operator` to us.
    __array_ufunc__ = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @abstractmethod
    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        """Return A V for V (n, p); `callback` hears the share that is done, on products longer than a second."""

    @abstractmethod
    def diag(self) -> Array:
        """Return the diagonal."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Array:
        """Return A[rows][:, columns] as an array, for slices, indices or masks."""

    def astype(self, dtype: Any) -> Operator:
        """Return this matrix with entries of another type, where it can be had; else itself."""
        return self

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        """Return A' V."""
        return self.matmat(V, callback=callback)

    def matvec(self, v: Any) -> Array:
        """Return A v for a vector (n,) or one column (n, 1)."""
        return _as_given(v, self.matmat)

    def rmatvec(self, v: Any) -> Array:
        """Return A' v."""
        return _as_given(v, self.rmatmat)

    def columns(self, which: Any) -> Array:
        """Return the columns A[:, which]."""
        return self.block(slice(None), which)

    def dense(self) -> Array:
        """Return the whole matrix: n² numbers, asked for by name."""
        return self.block(slice(None), slice(None))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return 2

    def __matmul__(self, V: Any) -> Array:
        return self.matvec(V) if np.ndim(V) == 1 else self.matmat(V)

    def __rmatmul__(self, V: Any) -> Array:
        return self.rmatvec(V) if np.ndim(V) == 1 else self.rmatmat(np.asarray(V).T).T

    def __add__(self, other: Any) -> Operator:
        """Return the sum with another operator, or with noise: a number or a vector on the diagonal."""
        from precog.operators.algebra import Noisy, Sum

        if isinstance(other, Operator):
            return Sum((self, other))
        return Noisy(self, other)

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Operator:
        from precog.operators.algebra import Scaled

        return Scaled(factor, self)

    __rmul__ = __mul__


def _as_given(v: Any, multiply: Callable[[Any], Array]) -> Array:
    A = np.asarray(v)
    if A.ndim == 2 and A.shape[1] == 1:
        return multiply(A)
    if A.ndim != 1:
        raise ValueError(f"expected a vector (n,) or a column (n, 1), got shape {A.shape}; use matmat for more columns")
    return multiply(A[:, None])[:, 0]


def right_hand_side(name: str, V: Any, rows: int) -> Array:
    """Return V as a finite (rows, p) array, or say what is wrong with it."""
    A = checks.columns_for(name, V, rows)
    if np.ndim(V) == 1:
        raise ValueError(f"{name} must have shape ({rows}, p), got {np.shape(V)}; use matvec or @ for one vector")
    # BLAS adds up in another order for another layout in memory, and which array holds V should not change a bit.
    return np.ascontiguousarray(A)


def indices(name: str, which: Any, n: int) -> Any:
    """Return rows or columns as an integer array, or say which one does not exist."""
    if isinstance(which, slice):
        return np.arange(n)[which]
    A = np.atleast_1d(np.asarray(which))
    if A.dtype.kind == "b":
        if A.shape != (n,):
            raise ValueError(f"{name} is a mask of shape {A.shape}; it must have shape ({n},)")
        return np.flatnonzero(A)
    if A.ndim != 1 or (A.size and A.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a slice, a mask or whole numbers, got {which!r}")
    wrong = (-n > A) | (n <= A)
    if wrong.any():
        raise IndexError(f"{name}: {A[np.argmax(wrong)]} is out of range for {n}")
    return np.where(A < 0, A + n, A).astype(np.intp)
