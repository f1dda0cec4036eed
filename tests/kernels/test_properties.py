"""Random expressions on random inputs, in NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import laws
import precog
import problems
import tolerances
from precog import Gram
from strategies import expressions, matrices
from tolerances import assert_within

FEATURES = 3
inputs = matrices(columns=FEATURES)


@given(expressions(FEATURES), inputs)
@settings(max_examples=60)
def test_symmetric_with_its_diagonal(kernel, X):
    K = kernel(X)
    assert K.dtype == np.float64
    assert np.array_equal(K, K.T)
    assert_within(kernel.diag(X), np.diagonal(K), tolerances.entry(K))
    assert np.linalg.eigvalsh(K).min() >= -tolerances.eigenvalue(K)


@given(expressions(FEATURES))
@settings(max_examples=60)
def test_printed_and_read_back(kernel):
    again = eval(repr(kernel), dict(vars(precog.kernels)))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert again.names == kernel.names


@given(expressions(FEATURES), st.floats(-1.0, 1.0))
@settings(max_examples=60)
def test_theta_round_trip(kernel, step):
    moved = kernel.with_theta(kernel.theta + step)
    assert moved.names == kernel.names
    assert_within(moved.theta, kernel.theta + step, 16 * tolerances.EPS)


@given(expressions(FEATURES), inputs, inputs, st.integers(0, 3))
@settings(max_examples=60)
def test_gram_is_the_dense_matrix(kernel, X, Z, columns):
    for K, dense in ((Gram(kernel, X), kernel(X)), (Gram(kernel, X, Z), kernel(X, Z))):
        V = problems.right_hand_sides(K.shape[1], columns)
        assert_within(K @ V, dense @ V, tolerances.product(dense, V))
        assert K.path == "numpy"
        assert_within(K.dense(), dense, tolerances.entry(dense))
        assert_within(K.diag(), np.diagonal(dense), tolerances.entry(dense))


@given(expressions(FEATURES), inputs)
@settings(max_examples=40)
def test_gradient_is_a_central_difference(kernel, X):
    A, B = problems.right_hand_sides(len(X)), problems.right_hand_sides(len(X), seed=5)
    laws.assert_gradient(Gram(kernel, X), A, B)
