"""Errors of compiled products where digits are easily lost: short length scales, offsets, small and large numbers."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE
from precog import RBF, Gram, Matern12, Periodic
from tolerances import assert_within


def relative_error(K: Gram, columns: int = 2) -> float:
    """Return the largest error of a product over its largest value."""
    V = problems.right_hand_sides(K.shape[1], columns)
    expected = K.kernel(K.X.astype(float), K.Z) @ V
    return float(np.abs(K @ V - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", [RBF(0.01), Matern12(0.01)], ids=str)
def test_short_length_scales_far_from_the_origin(kernel, d, dtype):
    """Inputs around 10⁴ that differ by hundredths: products |u|² + |w|² - 2 u·w would have no digit left."""
    X = 1e4 + np.random.default_rng(0).uniform(size=(1500, d))
    K = Gram(kernel, X, dtype=dtype)
    assert relative_error(K) <= tolerances.ACCURACY[dtype]
    assert K.path == "fused"
    if dtype == "float32":
        assert K._fused.differences


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("d", [1, 3])
def test_usual_length_scales(scale, d, dtype):
    K = Gram(RBF(scale), problems.normal(1500, d), dtype=dtype)
    assert relative_error(K) <= tolerances.ACCURACY[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_differences_are_taken_only_where_they_are_needed(dtype):
    X = problems.normal(350, 3)
    assert not Gram(RBF(1.0), X + 1e4, dtype=dtype)._fused.differences
    assert not Gram(RBF(1.0), X, X[:300], dtype=dtype)._fused.differences
    assert Gram(RBF(1e-9), X, dtype=dtype)._fused.differences
    assert Gram(Matern12(1.0), X, dtype=dtype)._fused.differences


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_row_far_away(dtype):
    """An outlier costs the others no digits."""
    X = problems.normal(350, 3)
    X[17] = 1e5
    kernel = RBF(0.5)
    K, dense = Gram(kernel, X, dtype=dtype), kernel(X)
    V = problems.right_hand_sides(350)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
    assert_within(K.dense(), dense, tolerances.entry(dense, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_sets_far_from_each_other(dtype):
    """X and Z around centres of their own."""
    X, Z = problems.normal(350, 3), problems.normal(307, 3) + 1e4
    kernel = Matern12(5e3)
    K, dense = Gram(kernel, X, Z, dtype=dtype), kernel(X, Z)
    assert_within(K.dense(), dense, tolerances.entry(dense, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_far_from_the_origin(dtype):
    X = problems.normal(350, 3)
    K = Gram(Periodic(0.8, period=0.5), X + 1e3, dtype=dtype)
    V = problems.right_hand_sides(350)
    dense = K.kernel(K.X)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))


@pytest.mark.parametrize("columns", [2, 40])
@pytest.mark.parametrize("scale", [1e-300, 1e-50, 1e-30, 1e30, 1e100])
@pytest.mark.parametrize("rectangular", [False, True])
def test_the_scale_of_a_right_hand_side(scale, columns, rectangular):
    """Residuals become small, in float32 too: relative accuracy must not depend on that."""
    X, Z = problems.normal(350, 3, seed=1), problems.normal(307, 3, seed=2)
    K = Gram(COMPOSITE, X, Z if rectangular else None, dtype="float32")
    V, dense = problems.right_hand_sides(K.shape[1], columns), COMPOSITE(X, K.Z)
    assert_within((K @ (scale * V)) / scale, dense @ V, tolerances.product(dense, V, "float32"))
    assert K.path == ("panels" if columns == 40 else "fused")


def test_columns_of_different_scales():
    X = problems.normal(350, 3)
    K, scales = Gram(COMPOSITE, X, dtype="float32"), np.array([1.0, 1e-30])
    V, dense = problems.right_hand_sides(350), COMPOSITE(X)
    assert_within((K @ (V * scales)) / scales, dense @ V, tolerances.product(dense, V, "float32"))


def test_small_right_hand_sides_of_type_float32():
    X = problems.normal(350, 3)
    V = (1e-30 * problems.right_hand_sides(350)).astype(np.float32)
    K, dense = Gram(RBF(0.8), X, dtype="float32"), RBF(0.8)(X)
    result = K @ V
    assert result.dtype == np.float32
    assert_within(result * 1e30, dense @ (V * 1e30), tolerances.product(dense, V * 1e30, "float32"))


def test_zeros_give_zeros():
    K = Gram(RBF(0.8), problems.normal(350, 3), dtype="float32")
    assert not (K @ np.zeros((350, 2))).any()
    assert not (K @ np.zeros((350, 40))).any()
