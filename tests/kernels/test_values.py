"""Values of the kernels against closed forms, written down a second time, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.gaussian_process.kernels as sk
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import polynomial_kernel

import problems
import tolerances
from laws import Cauchy, Exponential, Laplace
from precog import (
    RBF,
    Constant,
    HistogramIntersection,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from tolerances import assert_within

X, Z = problems.normal(20, 3, seed=1), problems.normal(15, 3, seed=2)
SCALES = [0.5, 1.0, 2.0]


def histogram_intersection(A, B):
    return np.array([[sum(min(a, b) for a, b in zip(x, z, strict=True)) for z in B] for x in A])


def periodic(A, B, scales, periods):
    angle = np.pi * (A[:, None] - B[None]) / np.asarray(periods)
    return np.exp(-2 * np.sum(np.sin(angle) ** 2 / np.square(scales), axis=-1))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(0.7), sk.RBF(0.7)),
        (RBF(SCALES), sk.RBF(SCALES)),
        (Matern12(0.7), sk.Matern(0.7, nu=0.5)),
        (Matern32(SCALES), sk.Matern(SCALES, nu=1.5)),
        (Matern52(SCALES), sk.Matern(SCALES, nu=2.5)),
        (RationalQuadratic(0.7, alpha=1.3), sk.RationalQuadratic(0.7, alpha=1.3)),
        (Linear(), lambda A, B: A @ B.T),
        (Linear(2.0), lambda A, B: A @ B.T / 4),
        (Linear(SCALES), lambda A, B: (A / np.square(SCALES)) @ B.T),
        (Polynomial(0.5, offset=0.3, degree=3), lambda A, B: polynomial_kernel(A, B, degree=3, gamma=4, coef0=0.3)),
        (Periodic(0.7, period=1.3), lambda A, B: periodic(A, B, 0.7, 1.3)),
        (Periodic(SCALES, period=[1.0, 2.0, 3.0]), lambda A, B: periodic(A, B, SCALES, [1.0, 2.0, 3.0])),
        (Constant(1.7), lambda A, B: np.full((len(A), len(B)), 1.7)),
        (White(1.7), lambda A, B: np.zeros((len(A), len(B)))),
        (Cauchy(0.7, alpha=1.3), lambda A, B: 1 / (1 + cdist(A, B, "sqeuclidean") / 0.49 / 1.3)),
        (Exponential(2.0, slope=0.5), lambda A, B: np.exp(0.5 * (A @ B.T) / 4)),
        (Laplace(0.7), lambda A, B: np.exp(-cdist(A, B, "cityblock") / 0.7)),
    ],
    ids=lambda item: repr(item) if not callable(item) else "",
)
def test_values(kernel, expected):
    K = expected(X, Z)
    assert_within(kernel(X, Z), K, tolerances.entry(K))


def test_histogram_intersection():
    A, B = np.abs(X), np.abs(Z)
    assert_within(HistogramIntersection()(A, B), histogram_intersection(A, B), 1e-15 * 30)
    scaled = histogram_intersection(A / SCALES, B / SCALES)
    assert_within(HistogramIntersection(SCALES)(A, B), scaled, tolerances.entry(scaled))


def test_columns_are_chosen_before_the_statistic():
    chosen, expected = RBF([0.5, 2.0], columns=[2, 0]), RBF([0.5, 2.0])(X[:, [2, 0]], Z[:, [2, 0]])
    assert_within(chosen(X, Z), expected, tolerances.entry(expected))


def test_white_acts_where_a_row_meets_itself():
    """Equal rows of two arrays are different observations."""
    kernel = RBF() + White(0.3)
    assert_within(kernel(X), RBF()(X) + 0.3 * np.eye(len(X)), tolerances.EPS)
    assert np.array_equal(kernel(X, X), RBF()(X, X))
    twice = np.vstack([X, X])
    assert_within(kernel(twice) - RBF()(twice), 0.3 * np.eye(len(twice)), 4 * tolerances.EPS)
    assert_within(kernel.diag(X), np.full(len(X), 1.3), tolerances.EPS * 2)


def test_values_are_float64_from_float32_inputs():
    single = X.astype(np.float32)
    K = RBF(0.7)(single)
    assert K.dtype == np.float64
    assert np.array_equal(K, RBF(0.7)(single.astype(np.float64)))


def test_stationary_kernels_keep_their_digits_far_from_the_origin():
    """A length scale of 0.01 at 10⁴: what is left of the inputs' digits is left in the values."""
    near = np.round(problems.normal(20, 3) * 2**20) / 2**30
    K = RBF(0.01)(near)
    assert_within(RBF(0.01)(near + 8192.0), K, tolerances.entry(K))


def test_periodic_returns_after_a_period():
    kernel = Periodic(0.8, period=[0.5, 1.0, 2.0])
    grid, far = np.round(X * 64) / 64, np.array([50.0, 100.0, 200.0])
    K = kernel(grid)
    # Inputs are moved to their mean, which rounds them by eps times their size before the angle is taken.
    assert_within(kernel(grid, grid + far), K, tolerances.entry(K) + 3 * 2 * np.pi * tolerances.EPS * 100 / 0.8)


@pytest.mark.parametrize("kernel", [RBF(), Linear(), Periodic()], ids=str)
def test_inputs_that_a_kernel_cannot_take(kernel):
    with pytest.raises(ValueError, match="reshape"):
        kernel(X[:, 0])
    with pytest.raises(ValueError, match="no rows"):
        kernel(X[:0])
    with pytest.raises(ValueError, match="no columns"):
        kernel(X[:, :0])
    with pytest.raises(ValueError, match="2 columns where 3 were expected"):
        kernel(X, Z[:, :2])
    with pytest.raises(ValueError, match="row 1, column 2 is nan"):
        kernel(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, np.nan]]))
    with pytest.raises(TypeError, match="real numbers"):
        kernel(X + 1j)
    with pytest.raises(TypeError, match="row 0, column 1 is 'a'"):
        kernel(np.array([[1.0, "a", 2.0]], dtype=object))


def test_a_kernel_names_what_does_not_fit():
    with pytest.raises(ValueError, match="2 length scales for 3 columns"):
        RBF([1.0, 2.0])(X)
    with pytest.raises(ValueError, match="column 3 is out of range"):
        RBF(columns=[0, 3])(X)
    with pytest.raises(ValueError, match="2 periods for 3 columns"):
        Periodic(period=[1.0, 2.0])(X)
    with pytest.raises(ValueError, match="not negative; row"):
        HistogramIntersection()(X)
    HistogramIntersection(columns=[1])(np.abs(X) * [-1.0, 1.0, -1.0])
