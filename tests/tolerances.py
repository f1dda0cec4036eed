"""How far a computed number may be from the true one, derived from rounding errors; every test takes it from here."""

from __future__ import annotations

from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
SINGLE = float(np.finfo(np.float32).eps)

# What `Gram` promises: the largest error of a product over its largest value.
ACCURACY = {"float64": 1e-13, "float32": 1e-5}

# Central differences: the step that balances truncation (h² f'''/6) with rounding (eps f / h).
STEP = EPS ** (1 / 3)
# Third derivatives in the logarithm of a hyperparameter are up to 10³ times the largest value in these problems:
# q³ for a power q of a length scale, (2π |x - z| / p)³ for a period p.
THIRD = 1e3


def rounding(n: int, size: float) -> float:
    """Return the error of a float64 sum of n terms whose magnitudes add up to `size`, in whatever order."""
    return max(n, 4) * EPS * size


def entry(K: Any, dtype: Any = np.float64) -> float:
    """Return the error of one entry of a kernel matrix."""
    return ACCURACY[np.dtype(dtype).name] * float(np.abs(K).max(initial=0.0))


def product(A: Any, V: Any, dtype: Any = np.float64) -> float:
    """Return the error of A V: relative to |A| |V|, which is what a sum with cancellation can be measured by."""
    size = float((np.abs(A) @ np.abs(V)).max(initial=0.0))
    return ACCURACY[np.dtype(dtype).name] * size + rounding(np.shape(A)[1], size)


def difference(size: float, dtype: Any = np.float64) -> float:
    """Return how far a derivative may be from a central difference of a sum whose magnitudes add up to `size`."""
    return (THIRD * EPS ** (2 / 3) + ACCURACY[np.dtype(dtype).name]) * size


def eigenvalue(K: Any) -> float:
    """Return how far below zero the computed eigenvalues of a positive semidefinite matrix may be."""
    return 10 * EPS * len(K) * float(np.abs(K).max())


def residual(A: Any, x: Any) -> float:
    """Return the rounding error of A x for a float64 matrix, in the norm."""
    return rounding(np.shape(A)[1], float(np.linalg.norm(np.abs(A) @ np.abs(x))))


def assert_within(actual: Any, expected: Any, allowed: float) -> None:
    """Compare shapes, then the largest absolute difference."""
    __tracebackhide__ = True
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    error = float(np.abs(actual.astype(np.float64) - expected).max(initial=0.0))
    assert error <= allowed, f"largest error {error:.2e}, allowed {allowed:.2e}"
