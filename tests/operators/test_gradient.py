"""Derivatives in hyperparameters and in inputs, beyond the laws: fixed values, many columns, accuracy in float32."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE, KERNELS, assert_gradient, assert_input_gradient, loops_asked_for
from precog import RBF, Gram, HistogramIntersection, Linear, Matern52, Periodic, White
from precog.operators.derivative import Theta
from precog.operators.weighted import Pairs
from tolerances import assert_within

X, Z = problems.normal(350, 3, seed=1), problems.normal(307, 3, seed=2)
SIZES = [problems.SMALL, problems.LARGE]


def operators(kernel, sizes, dtype="float64"):
    A, B = X[: sizes[0]], Z[: sizes[1]]
    return Gram(kernel, A, dtype=dtype), Gram(kernel, A, B, dtype=dtype)


@pytest.mark.parametrize("sizes", SIZES, ids=["numpy", "fused"])
def test_fixed_hyperparameters_are_left_out(sizes):
    fixed = COMPOSITE.fix("RBF.length_scale[1]", "Constant#2.variance")
    kept = [COMPOSITE.names.index(name) for name in fixed.names]
    for whole, part in zip(operators(COMPOSITE, sizes), operators(fixed, sizes), strict=True):
        before = loops_asked_for()
        A, B = problems.right_hand_sides(whole.shape[0]), problems.right_hand_sides(whole.shape[1], seed=5)
        weights = np.abs(A @ B.T).sum()
        assert_within(part.grad(A, B), whole.grad(A, B)[kept], tolerances.entry(weights * 10))
        assert (loops_asked_for() > before) == (sizes == problems.LARGE)


@pytest.mark.parametrize("sizes", SIZES, ids=["numpy", "fused"])
@pytest.mark.parametrize("kernel", [Linear(), RBF(length_scale_bounds="fixed")], ids=str)
def test_nothing_to_learn(kernel, sizes):
    for K in operators(kernel, sizes):
        gradient = K.grad(problems.right_hand_sides(K.shape[0]), problems.right_hand_sides(K.shape[1]))
        assert gradient.shape == (0,)


@pytest.mark.parametrize("sizes", SIZES, ids=["numpy", "fused"])
def test_vectors_are_single_columns(sizes):
    for K in operators(RBF([0.5, 1.0, 2.0]), sizes):
        a, b = problems.right_hand_sides(K.shape[0])[:, 0], problems.right_hand_sides(K.shape[1])[:, 1]
        assert np.array_equal(K.grad(a, b), K.grad(a[:, None], b[:, None]))
        assert_gradient(K, a, b)


def test_many_columns():
    """More than fit the registers: taken in turns, and summed."""
    for K in operators(RBF(0.8), problems.LARGE):
        A, B = problems.right_hand_sides(K.shape[0], 16), problems.right_hand_sides(K.shape[1], 16, seed=5)
        assert_gradient(K, A, B)
        one_by_one = sum(K.grad(A[:, 2 * k : 2 * k + 2], B[:, 2 * k : 2 * k + 2]) for k in range(8))
        size = (np.abs(A) @ np.abs(B).T).sum()
        assert_within(K.grad(A, B), one_by_one, tolerances.entry(size))


def test_white_in_a_product():
    """The diagonal has a derivative of its own wherever White meets other kernels."""
    kernel = (0.8 * RBF(0.7) + White(0.4)) * (Linear(2.0, length_scale_bounds=(0.1, 10)) + 0.3)
    A, B = problems.right_hand_sides(40), problems.right_hand_sides(40, seed=5)
    assert_gradient(Gram(kernel, X[:40]), A, B)
    # The identity as weights leaves the trace.
    theta, steps = kernel.theta, tolerances.STEP * np.eye(len(kernel.theta))
    traces = [[np.trace(kernel.with_theta(theta + sign * step)(X[:40])) for step in steps] for sign in (1, -1)]
    slopes = np.subtract(*traces) / (2 * tolerances.STEP)
    diagonal = Gram(kernel, X[:40]).grad(np.eye(40), np.eye(40))
    assert_within(diagonal, slopes, tolerances.difference(np.max(traces)))


@pytest.mark.parametrize("sizes", SIZES, ids=["numpy", "fused"])
def test_inputs_of_a_symmetric_matrix(sizes):
    """Without Z, the rows of X stand on both sides and the second one is moved."""
    K, _ = operators(RBF(0.8), sizes)
    A, B = problems.right_hand_sides(len(K)), problems.right_hand_sides(len(K), seed=5)
    assert_input_gradient(K, A, B)
    other = Gram(RBF(0.8), K.X, K.X.copy())
    size = np.abs(A @ B.T).sum(axis=0).max()
    assert_within(K.grad_inputs(A, B), other.grad_inputs(A, B), tolerances.entry(10 * size))


def test_both_sides_of_a_quadratic_form():
    """d/dX of tr(V'K(X)W) is the second-argument derivative of (V, W) plus that of (W, V)."""
    K, _ = operators(COMPOSITE, problems.LARGE)
    V, W = problems.right_hand_sides(len(K)), problems.right_hand_sides(len(K), seed=5)
    gradient, weights = K.grad_inputs(V, W) + K.grad_inputs(W, V), V @ W.T
    h, direction = tolerances.STEP, problems.normal(*X.shape, seed=7)
    change = np.sum(weights * (COMPOSITE(X + h * direction) - COMPOSITE(X - h * direction))) / (2 * h)
    size = np.abs(weights).sum() * np.abs(COMPOSITE(X)).max()
    assert_within(np.sum(gradient * direction), change, tolerances.difference(size))


@pytest.mark.parametrize("sizes", SIZES, ids=["numpy", "fused"])
def test_columns_that_are_not_looked_at_have_no_derivative(sizes):
    _, R = operators(Matern52(0.9, columns=[2, 0]), sizes)
    gradient = R.grad_inputs(problems.right_hand_sides(R.shape[0]), problems.right_hand_sides(R.shape[1]))
    assert not gradient[:, 1].any()
    assert np.abs(gradient[:, [0, 2]]).min(axis=0).max() > 0


@pytest.mark.parametrize("kernel", [RBF([0.01, 0.02, 0.03]), RBF(0.01)], ids=str)
def test_short_length_scales_in_float32(kernel):
    """Where differences are taken instead of products, gradients are as good as products."""
    A = 1e4 + 0.05 * problems.normal(350, 3)
    K = Gram(kernel, A, dtype="float32")
    assert K._fused.differences
    assert_gradient(K, problems.right_hand_sides(350), problems.right_hand_sides(350, seed=5))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_of_the_weights_in_float32(scale):
    for K in operators(RBF([0.5, 1.0, 2.0]), problems.LARGE, "float32"):
        A, B = problems.right_hand_sides(K.shape[0]), problems.right_hand_sides(K.shape[1], seed=5)
        size = np.abs(A @ B.T).sum()
        assert_within(K.grad(scale * A, B) / scale, K.grad(A, B), tolerances.entry(size, "float32"))
        assert_within(K.grad(A, scale * B) / scale, K.grad(A, B), tolerances.entry(size, "float32"))
        columns = np.abs(A @ B.T).sum(axis=0).max()
        assert_within(
            K.grad_inputs(scale * A, B) / scale, K.grad_inputs(A, B), tolerances.entry(2 * columns, "float32")
        )


def test_columns_of_different_scales_in_float32():
    """A column of small residuals next to one of large values keeps its digits."""
    K, _ = operators(RBF([0.5, 1.0, 2.0]), problems.LARGE, "float32")
    A, B = problems.right_hand_sides(len(K)), problems.right_hand_sides(len(K), seed=5)
    mixed, inverse = np.array([1.0, 1e-25]), np.array([1.0, 1e25])
    size = np.abs(A @ B.T).sum()
    assert_within(K.grad(A * mixed, B * inverse), K.grad(A, B), tolerances.entry(size, "float32"))


def test_wrong_arguments():
    K = Gram(RBF(), X[:10])
    for use in (K.grad, K.grad_inputs):
        with pytest.raises(ValueError, match="as many columns as each other, got 1 and 2"):
            use(np.ones(10), np.ones((10, 2)))
        with pytest.raises(ValueError, match=r"A must have shape \(10,\)"):
            use(np.ones(9), np.ones(10))
        with pytest.raises(ValueError, match="at least one is needed"):
            use(np.ones((10, 0)), np.ones((10, 0)))
        with pytest.raises(ValueError, match="B must be finite; row 3"):
            use(np.ones(10), np.where(np.arange(10) == 3, np.inf, 1.0))


def test_periodic_far_from_the_origin():
    kernel = Periodic([0.8, 1.1, 1.5], period=[4.0, 5.0, 6.0])
    for sizes in SIZES:
        K = Gram(kernel, X[: sizes[0]] + 100.0)
        assert_gradient(K, problems.right_hand_sides(len(K)), problems.right_hand_sides(len(K), seed=5))


def test_histograms_that_are_read_in_part():
    kernel = 0.5 * HistogramIntersection([0.5, 2.0], columns=[2, 0], length_scale_bounds=(0.1, 10)) + RBF(columns=[1])
    A = np.abs(X) * [1.0, -1.0, 1.0]
    for n in (40, 350):
        K = Gram(kernel, A[:n])
        assert_gradient(K, problems.right_hand_sides(n), problems.right_hand_sides(n, seed=5))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_weighted_pairs_are_the_same_sums(kernel):
    """Weights for every pair, in stripes, give what factors of the same weights give in one pass."""
    A, B = problems.sides_apart(kernel, problems.SMALL)
    left, right = problems.right_hand_sides(len(A)), problems.right_hand_sides(len(B), seed=5)
    weights, K = left @ right.T, Gram(kernel, A, B)
    theta, pairs = Theta(kernel), Pairs(kernel, A, B, moved=True)
    for rows in (slice(0, 7), slice(7, len(A))):
        pairs.add_stripes(theta, rows, weights[rows])
    size = float(np.abs(weights).sum()) * max(float(np.abs(K.dense()).max()), 1.0) * tolerances.THIRD
    assert_within(theta.vector(), K.grad(left, right), tolerances.entry(size))
    assert_within(pairs.inputs(), K.grad_inputs(left, right), tolerances.entry(size))
