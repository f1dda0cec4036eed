"""What a boundary asks of its arguments; every message says what was expected, what came and what to do."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np


def length(X: Any) -> int:
    """Return the number of rows of a matrix or of objects in a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def width(X: Any) -> int | None:
    """Return the number of columns of what looks like a table."""
    try:
        return int(np.shape(X)[1]) if np.ndim(X) == 2 else None
    except ValueError:  # rows of different lengths, which `matrix` complains of
        return None


def matrix(name: str, X: Any, *, dtypes: str = "fiub") -> np.ndarray[Any, Any]:
    """Return X as a finite two-dimensional float array; float32 stays float32."""
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} is sparse, which is not supported; pass {name}.toarray()")
    try:
        A = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} must be a table whose rows have the same length") from None
    if A.ndim != 2:
        hint = f"; reshape a single feature with {name}.reshape(-1, 1)" if A.ndim == 1 else ""
        raise ValueError(f"{name} must be a table of rows and columns, got shape {A.shape}{hint}")
    if A.dtype.kind == "O":
        A = _from_objects(name, A)
    if A.dtype.kind not in dtypes:
        raise TypeError(f"{name} must hold real numbers, got dtype {A.dtype}")
    if A.shape[0] == 0:
        raise ValueError(f"{name} has no rows; at least one is needed")
    if A.shape[1] == 0:
        raise ValueError(f"{name} has no columns; at least one is needed")
    if A.dtype != np.float32:
        A = A.astype(np.float64, copy=False)
    finite(name, A)
    return A


def _from_objects(name: str, A: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        return A.astype(np.float64)
    except (TypeError, ValueError):
        for row, column in np.ndindex(A.shape):
            try:
                float(A[row, column])
            except (TypeError, ValueError):
                raise TypeError(
                    f"{name} must hold numbers; row {row}, column {column} is {A[row, column]!r}. Encode it as a "
                    "number first, or use a kernel on objects (precog.Pairwise, precog.Precomputed)"
                ) from None
        raise


def finite(name: str, A: np.ndarray[Any, Any]) -> None:
    """Raise a ValueError that names the first entry of A that is NaN or infinite."""
    # One pass without a temporary: the sum is finite unless an entry is not (or it overflows: then look closer).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(A.sum()) or np.isfinite(A).all():
            return
    where = np.argwhere(~np.isfinite(A))[0]
    place = f"row {where[0]}" + (f", column {where[1]}" if A.ndim == 2 else "")
    raise ValueError(f"{name} must be finite; {place} is {A[tuple(where)]}. Drop or impute such rows first")


def inputs(kernel: Any, name: str, X: Any, *, columns_of: Any = None) -> Any:
    """Return the inputs of a kernel, checked: a float array, or a sequence of objects for a kernel on objects."""
    if any(hasattr(leaf, "block") for leaf in kernel.leaves()):
        if length(X) == 0:
            raise ValueError(f"{name} is empty; at least one object is needed")
    else:
        X = matrix(name, X)
        if columns_of is not None and X.shape[1] != columns_of.shape[1]:
            raise ValueError(f"{name} has {X.shape[1]} columns where {columns_of.shape[1]} were expected, as in X")
    for leaf in kernel.leaves():
        leaf.check(name, X)
    return X


def columns_for(name: str, V: Any, rows: int) -> np.ndarray[Any, Any]:
    """Return right-hand sides as a finite (rows, p) array; a vector becomes one column."""
    A = np.asarray(V)
    if A.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {A.dtype}")
    if A.ndim not in (1, 2) or A.shape[0] != rows:
        raise ValueError(f"{name} must have shape ({rows},) or ({rows}, p), got {A.shape}")
    if A.dtype != np.float32:
        A = A.astype(np.float64, copy=False)
    finite(name, A)
    return A[:, None] if A.ndim == 1 else A


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` as one of the allowed names."""
    text = value
    if name == "dtype" and not isinstance(value, str):
        with contextlib.suppress(TypeError):
            text = np.dtype(value).name
    if text not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
    return str(text)


def count(name: str, value: Any, *, low: int = 1) -> int:
    """Return `value` as a whole number that is not below `low`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise ValueError(f"{name} must be a whole number, at least {low}; got {value!r}")
    return int(value)


def number(name: str, value: Any, *, low: float = 0.0, strict: bool = False) -> float:
    """Return `value` as a finite float that is at least `low` (above it where `strict`)."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not np.isfinite(value) or value < low or (strict and value == low):
        raise ValueError(f"{name} must be finite and {'above' if strict else 'at least'} {low:g}, got {value:g}")
    return float(value)
