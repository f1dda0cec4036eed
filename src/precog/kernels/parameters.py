"""Hyperparameters of a kernel: positive numbers, learnt through their logarithm, with bounds or fixed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

Value: TypeAlias = float | Sequence[float] | np.ndarray[Any, np.dtype[Any]]
Bound: TypeAlias = tuple[float, float] | Literal["fixed"]
Bounds: TypeAlias = Bound | Sequence[Bound] | np.ndarray[Any, np.dtype[Any]]
DEFAULT_BOUNDS: Bound = (1e-5, 1e5)


def parameter(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field of a kernel as a positive hyperparameter: `alpha: float = parameter(1.0)`."""
    return dataclasses.field(default=default, metadata={"hyperparameter": True})


def positive(owner: str, name: str, value: Any) -> float | tuple[float, ...]:
    """Return `value` as a float or a tuple of floats, all positive and finite."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: {name} must be a positive number or a list of them, got {value!r}") from None
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"{owner}: {name} must be a number or a flat list, got an array of shape {array.shape}")
    wrong = ~(np.isfinite(array) & (array > 0))
    if wrong.any():
        where = f"{name}[{int(np.argmax(wrong))}]" if array.ndim else name
        raise ValueError(
            f"{owner}: {where} must be positive and finite, got {np.atleast_1d(array)[np.argmax(wrong)]:g}"
        )
    return float(array) if array.ndim == 0 else tuple(float(v) for v in array)


def _bound(owner: str, name: str, value: Any) -> Bound:
    if isinstance(value, str):
        if value == "fixed":
            return "fixed"
    else:
        try:
            low, high = (float(v) for v in value)
        except (TypeError, ValueError):
            pass
        else:
            if 0 < low <= high and math.isfinite(high):
                return (low, high)
    raise ValueError(f'{owner}: {name}_bounds must be "fixed" or (low, high) with 0 < low <= high, got {value!r}')


def bounds(owner: str, name: str, value: Any, size: int | None) -> Bound | tuple[Bound, ...]:
    """Return bounds in normal form: one for the whole parameter, or one for each of its `size` elements."""
    single = isinstance(value, str) or not np.iterable(value)
    if single or (len(value) == 2 and all(isinstance(v, float | int | np.number) for v in value)):
        return _bound(owner, name, value)
    each = tuple(_bound(owner, name, v) for v in value)
    if len(each) != (size or 1):
        raise ValueError(f"{owner}: {name} has {size or 1} elements, {name}_bounds {len(each)}")
    return each if size else each[0]
