"""What CholQR's factors must be after any sequence of operations: its post-conditions (i) to (vi)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precog.sparse.cholqr import FLOOR, CholQR
from tolerances import EPS, assert_within

Array = np.ndarray[Any, Any]


def allowed(factors: CholQR) -> float:
    """Return how far L L' may be from K, relative to its size.

    A pivot's column has the rounding of K and is divided by the root of its residual, the smallest of which is on the
    diagonal of L_J; the reflections of thousands of operations add up like the root of their number.
    """
    smallest = float(np.diagonal(factors.L[factors.pivots]).min(initial=np.sqrt(factors.size)))
    return 100 * EPS * np.sqrt(factors.size) / smallest


def triangle(factors: CholQR, K: Array) -> None:
    """(i) L_J is lower triangular with a positive diagonal, and the pivots are different rows."""
    J = factors.pivots
    assert len(set(J)) == len(J) == factors.m
    T = factors.L[J]
    assert not np.triu(T, 1).any()
    assert (np.diagonal(T) > 0).all()


def columns_of_pivots(factors: CholQR, K: Array) -> None:
    """(ii) L L' has the pivots' columns of K."""
    J = factors.pivots
    assert_within(factors.L @ factors.L[J].T, K[:, J], allowed(factors) * float(np.abs(K).max()))


def residual_diagonal(factors: CholQR, K: Array) -> None:
    """(iii) d = diag(K - L L'), zero on the pivots and nowhere negative."""
    expected = np.diagonal(K) - np.einsum("ij,ij->i", factors.L, factors.L)
    expected[factors.pivots] = 0.0
    assert not factors.d[factors.pivots].any()
    assert (factors.d >= 0).all()
    # Updated from step to step, so that it remembers the rounding of pivots that have left.
    assert_within(factors.d, np.maximum(expected, 0.0), 100 * EPS / np.sqrt(FLOOR) * factors.size)


def augmented(factors: CholQR) -> tuple[Array, Array]:
    """Return L~ and Q~."""
    return (
        np.vstack([factors.L, np.sqrt(factors.sigma2) * np.eye(factors.m)]),
        np.vstack([factors.Q, factors.bottom]),
    )


def product(factors: CholQR, K: Array) -> None:
    """(iv) L~ = Q~ R."""
    L, Q = augmented(factors)
    assert_within(Q @ factors.R, L, allowed(factors) * max(float(np.abs(L).max(initial=0.0)), 1.0))


def orthonormal(factors: CholQR, K: Array) -> None:
    """(v) Q~'Q~ = I."""
    _, Q = augmented(factors)
    assert_within(Q.T @ Q, np.eye(factors.m), 1e4 * EPS)


def upper(factors: CholQR, K: Array) -> None:
    """(vi) R is upper triangular with a positive diagonal."""
    assert not np.tril(factors.R, -1).any()
    assert (np.diagonal(factors.R) > 0).all()


FACTOR_LAWS: list[Callable[[CholQR, Array], None]] = [
    triangle,
    columns_of_pivots,
    residual_diagonal,
    product,
    orthonormal,
    upper,
]
