"""What every operator must do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg

import problems
import tolerances
from laws.kernels import COMPOSITE, NESTED
from precog import RBF, Dense, Gram, LowRank, Periodic, Precomputed, White
from precog.kernels import Kernel
from precog.operators import Operator
from tolerances import assert_within

Array = np.ndarray[Any, Any]


def gram(kernel: Kernel, sizes: tuple[int, int], *, rectangular: bool = False, dtype: str = "float64") -> Gram:
    X, Z = problems.sides(kernel, sizes)
    return Gram(kernel, X, Z if rectangular else None, dtype=dtype)


def positive_definite(n: int) -> Array:
    F = problems.normal(n, n, seed=6)
    return F @ F.T / n + np.eye(n)


_SQUARE = problems.normal(30, 30, seed=7)
_FACTOR = problems.normal(30, 4, seed=8)
_STORED = Gram(0.5 + 2.0 * Precomputed(positive_definite(30)) + White(0.3), np.arange(30))

OPERATORS: list[Operator] = [
    gram(COMPOSITE, problems.SMALL),
    gram(COMPOSITE, problems.SMALL, dtype="float32"),
    gram(COMPOSITE, problems.SMALL, rectangular=True),
    gram(COMPOSITE, problems.LARGE),
    gram(COMPOSITE, problems.LARGE, dtype="float32"),
    gram(COMPOSITE, problems.LARGE, rectangular=True),
    gram(NESTED, problems.LARGE),
    gram(Periodic(0.8, period=4.0), problems.LARGE, rectangular=True),
    _STORED,
    Gram(Precomputed(positive_definite(30)), np.arange(20), np.arange(5, 30)),
    Dense(positive_definite(30)),
    Dense(_SQUARE),
    Dense(_SQUARE.astype(np.float32)),
    Dense(_SQUARE[:20]),
    LowRank(_FACTOR),
    LowRank(_FACTOR, problems.normal(20, 4, seed=9)),
    gram(COMPOSITE, problems.SMALL) + 0.5,
    gram(COMPOSITE, problems.LARGE) + np.linspace(0.1, 2.0, problems.LARGE[0]),
    _STORED + 0.5,
    _STORED + Dense(positive_definite(30)) + LowRank(_FACTOR),
    2.5 * gram(COMPOSITE, problems.LARGE, rectangular=True),
    -0.5 * (Dense(positive_definite(30)) + np.linspace(0.1, 2.0, 30)) + LowRank(_FACTOR),
    Dense(_SQUARE) + 0.5,
    Gram(RBF(0.8), problems.normal(30, 3, seed=10), problems.normal(30, 3, seed=11)) + np.linspace(0.1, 2.0, 30),
]


def _check_product(A: Operator, V: Any, actual: Array) -> None:
    dense = A.dense().astype(np.float64)
    # Both sides carry the error of an entry: the dense one was rounded to the operator's type as well.
    assert_within(actual, dense @ V, 2 * tolerances.product(dense, V, A.dtype))


def product_is_dense_product(A: Operator) -> None:
    V = problems.right_hand_sides(A.shape[1])
    _check_product(A, V, A.matmat(V))
    _check_product(A, V, A @ V)
    _check_product(A, V[:, 0], A.matvec(V[:, 0]))
    _check_product(A, V[:, 0], A @ V[:, 0])
    _check_product(A, V[:, :1], A.matvec(V[:, :1]))


def transposed_product_is_dense_product(A: Operator) -> None:
    V, dense = problems.right_hand_sides(A.shape[0]), A.dense().astype(np.float64)
    allowed = 2 * tolerances.product(dense.T, V, A.dtype)
    assert_within(A.rmatmat(V), dense.T @ V, allowed)
    assert_within(V.T @ A, V.T @ dense, allowed)
    assert_within(A.rmatvec(V[:, 0]), dense.T @ V[:, 0], allowed)
    assert_within(V[:, 0] @ A, V[:, 0] @ dense, allowed)


def linear(A: Operator) -> None:
    V, W = problems.right_hand_sides(A.shape[1]), problems.right_hand_sides(A.shape[1], seed=5)
    allowed = 3 * tolerances.product(A.dense(), np.abs(V) + 3 * np.abs(W), A.dtype)
    assert_within(A @ (V - 3 * W), A @ V - 3 * (A @ W), allowed)


def adjoint(A: Operator) -> None:
    """w'(A v) = v'(A' w), and the same without the transpose where the matrix is symmetric."""
    v, w = problems.right_hand_sides(A.shape[1])[:, 0], problems.right_hand_sides(A.shape[0], seed=5)[:, 0]
    dense = A.dense()
    allowed = 2 * tolerances.product(dense, v[:, None], A.dtype) * np.abs(w).sum()
    assert_within(w @ (A @ v), v @ A.rmatvec(w), allowed)
    if np.array_equal(dense, dense.T):
        assert_within(w @ (A @ v), v @ (A @ w), allowed)


def number_types(A: Operator) -> None:
    """The result is as precise as the operator and the right-hand side together."""
    V = problems.right_hand_sides(A.shape[1])
    assert (A @ V).dtype == np.float64
    assert (A @ V.astype(np.float32)).dtype == A.dtype
    assert A.dense().dtype == A.dtype
    assert len(A) == A.shape[0]
    assert A.ndim == 2


def no_columns(A: Operator) -> None:
    assert A.matmat(np.zeros((A.shape[1], 0))).shape == (A.shape[0], 0)
    assert A.rmatmat(np.zeros((A.shape[0], 0))).shape == (A.shape[1], 0)


def any_right_hand_side(A: Operator) -> None:
    """Memory order, strides, whole numbers and float32 make no difference."""
    m = A.shape[1]
    V = np.round(problems.right_hand_sides(m) * 4)
    strided = np.zeros((2 * m, 6))
    strided[::2, ::3] = V
    expected = A @ V
    for same in (np.asfortranarray(V), strided[::2, ::3], V[::-1][::-1], V.astype(int), V.tolist()):
        assert np.array_equal(A @ same, expected)
    _check_product(A, V, A @ V.astype(np.float32))


def blocks_of_dense(A: Operator) -> None:
    n, m = A.shape
    dense, mask = A.dense(), problems.normal(n, seed=12) > 0
    some, others = [3, 0, 3, n - 1], np.array([-1, 2, -m])
    pairs: list[tuple[Any, Any, Any]] = [
        (slice(2, 9), slice(None), dense[2:9]),
        (slice(None, None, -3), slice(1, None, 2), dense[::-3, 1::2]),
        (mask, slice(None), dense[mask]),
        (some, others, dense[some][:, others]),
        (mask, others, dense[mask][:, others]),
        (-2, 1, dense[-2:-1, 1:2]),
        (np.array([], int), slice(None), dense[:0]),
        ([], [], dense[:0, :0]),
    ]
    for rows, columns, expected in pairs:
        actual = A.block(rows, columns)
        assert_within(actual, expected, 2 * tolerances.entry(dense, A.dtype))
        assert actual.dtype == A.dtype
    assert_within(A.columns(others), dense[:, others], 2 * tolerances.entry(dense, A.dtype))


def diagonal_of_dense(A: Operator) -> None:
    dense = A.dense()
    assert_within(A.diag(), np.diagonal(dense), 2 * tolerances.entry(dense, A.dtype))


def results_are_new(A: Operator) -> None:
    """Writing to what an operator returned changes neither the operator nor its arguments."""
    V = problems.right_hand_sides(A.shape[1])
    V.flags.writeable = False
    first = [A @ V, A.diag(), A.dense(), A.block(slice(3), slice(3))]
    kept = copy.deepcopy(first)
    for result in first:
        result[...] = np.nan
    second = [A @ V, A.diag(), A.dense(), A.block(slice(3), slice(3))]
    assert all(np.array_equal(a, b) for a, b in zip(second, kept, strict=True))


def pickled_operator(A: Operator) -> None:
    again, v = pickle.loads(pickle.dumps(A)), problems.right_hand_sides(A.shape[1])
    assert again == A
    assert hash(again) == hash(A)
    assert repr(again) == repr(A)
    assert np.array_equal(again @ v, A @ v)


def unequal_operator(A: Operator) -> None:
    assert A == A
    assert A != 2.0 * A
    assert A + A != A
    assert A != "operator"
    assert A.dense().tolist() != A


def scipy_operator(A: Operator) -> None:
    V, W = problems.right_hand_sides(A.shape[1]), problems.right_hand_sides(A.shape[0])
    wrapped = scipy.sparse.linalg.aslinearoperator(A)
    assert wrapped.shape == A.shape
    assert wrapped.dtype == A.dtype
    _check_product(A, V[:, 0], wrapped @ V[:, 0])
    _check_product(A, V, wrapped @ V)
    assert_within(wrapped.rmatvec(W[:, 0]), A.rmatvec(W[:, 0]), 0.0)


def sums_and_multiples(A: Operator) -> None:
    dense = A.dense().astype(np.float64)
    allowed = 8 * tolerances.entry(dense, A.dtype)
    assert_within((A + A).dense(), 2 * dense, allowed)
    assert_within((3 * A).dense(), 3 * dense, allowed)
    assert_within((A * np.float64(-0.5)).diag(), -0.5 * np.diagonal(dense), allowed)
    if A.shape[0] == A.shape[1]:
        noise = np.linspace(1.0, 2.0, len(A))
        assert_within((A + noise).dense(), dense + np.diag(noise), allowed + tolerances.entry(2.0, A.dtype))
        assert_within((0.25 + A).dense(), dense + 0.25 * np.eye(len(A)), allowed + tolerances.entry(0.25, A.dtype))


OPERATOR_LAWS: list[Callable[[Operator], None]] = [
    product_is_dense_product,
    transposed_product_is_dense_product,
    linear,
    adjoint,
    number_types,
    no_columns,
    any_right_hand_side,
    blocks_of_dense,
    diagonal_of_dense,
    results_are_new,
    pickled_operator,
    unequal_operator,
    scipy_operator,
    sums_and_multiples,
]
