"""Random Fourier features: their products are the kernel on average, and errors say what has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import problems
import tolerances
from laws import Cauchy, Exponential
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
from precog.kernels import Kernel, Stationary
from precog.precond.spectral import features
from tolerances import assert_within

X = problems.normal(12, 3)
COUNT, DRAWS = 24, 400


class Own(Stationary):
    """A kernel that says itself how its frequencies are drawn: exp(-r), by quotients of normal numbers."""

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-np.sqrt(s))

    def frequencies(self, rng: np.random.Generator, count: int, width: int) -> Any:
        return rng.standard_normal((count, width)) / rng.standard_normal((count, 1))


SPECTRAL: list[Kernel] = [
    RBF(0.8),
    RBF([0.5, 1.0, 2.0]),
    RBF([0.5, 1.0], columns=[2, 0]),
    Matern12(1.2),
    Matern32([0.9, 0.6, 1.4]),
    Matern52(0.9, columns=[2, 0]),
    RationalQuadratic(0.9, alpha=0.7),
    RationalQuadratic(0.9, alpha=5.0, columns=[1]),
    Periodic(0.8, period=4.0),
    Periodic([0.8, 1.1], period=[4.0, 5.0], columns=[0, 2]),
    Own(0.9),
    2.5 * Matern52(0.7),
    RBF(0.8) * Matern12(1.5, columns=[1]),
    1.7 * RBF(1.1) * Periodic(1.0, period=4.0, columns=[1]) * RationalQuadratic(columns=[0, 2]),
    RBF(0.9) ** 3,
    (0.5 * Matern32(2.0) * RBF(1.5)) ** 2,
    1.7 * RBF([0.7, 1.2], columns=[0, 2]) + 0.3 * Matern32(),
    RBF(0.6) + 0.5 * Matern52(1.7) + RationalQuadratic(2.5, alpha=1.3) + 0.01 * Periodic(period=3.0),
    RBF(0.6) + 0.4 + 0.3 * Linear([1.0, 2.0, 0.7]) + 0.2 * Linear(columns=[1]),
    (RBF(1.1) + 0.4) ** 2 * Periodic(1.0, period=4.0, columns=[1]),
    (RBF(0.8) + Matern12()) * (RBF(2.0) + 0.5),
]


@pytest.mark.parametrize("kernel", SPECTRAL, ids=str)
def test_products_are_the_kernel_on_average(kernel):
    rng, K = np.random.default_rng(0), kernel(X)
    draws = np.stack([Z @ Z.T for Z in (features(kernel, X, COUNT, rng) for _ in range(DRAWS))])
    error = np.abs(draws.mean(axis=0) - K)
    allowed = 5.0 * draws.std(axis=0) / np.sqrt(DRAWS)
    # The diagonal does not vary, but for rounding.
    assert np.all(error <= allowed + tolerances.rounding(2 * COUNT, float(K.max())))


@pytest.mark.parametrize("kernel", SPECTRAL, ids=str)
def test_shape_and_diagonal(kernel):
    for count in (16, 17, 50):
        Z = features(kernel, X, count, np.random.default_rng(0))
        assert Z.shape == (12, 2 * count)
        assert_within((Z**2).sum(axis=1), kernel.diag(X), tolerances.rounding(2 * count, float(kernel.diag(X).max())))


def test_error_falls_like_one_over_the_root():
    kernel = RBF(0.8) + 0.5 * Matern32(1.2)
    K, errors = kernel(X), []
    for count in (50, 5000):
        rng = np.random.default_rng(0)
        draws = (features(kernel, X, count, rng) for _ in range(20))
        errors.append(np.sqrt(np.mean([np.mean((Z @ Z.T - K) ** 2) for Z in draws])))
    assert 7.0 < errors[0] / errors[1] < 14.0


def test_exact_terms_are_exact():
    for kernel in (0.3 * Linear([1.0, 2.0, 0.7]) + 0.5, Linear(columns=[1]), Constant(2.0), 0.5 * Constant(2.0)):
        Z = features(kernel, X, 8, np.random.default_rng(0))
        assert_within(Z @ Z.T, kernel(X), tolerances.product(np.abs(Z), np.abs(Z.T)))


def test_frequencies_go_by_variance():
    """A term's share of the frequencies is its share of the variance; a small one still gets one."""
    # With length scales so long that all cosines are one, a column is the root of variance over frequencies.
    kernel = 9.0 * RBF(1e9) + 1e-6 * RBF(2e9) + 3.0 * RBF(3e9) + 0.7
    columns = features(kernel, X, 66, np.random.default_rng(0))[0] ** 2
    weights, counts = np.unique(columns[columns > 1e-9].round(9), return_counts=True)
    assert weights.tolist() == [1e-6, 12 / 64, 0.7]
    assert counts.tolist() == [1, 64, 1]


def test_like_terms_are_put_together():
    """A power of a sum has as many terms as there are different products, however often each occurs."""
    kernel = (RBF(0.8) + 0.5) ** 7
    Z = features(kernel, X, 8, np.random.default_rng(0))
    assert_within((Z**2).sum(axis=1), kernel.diag(X), tolerances.rounding(16, float(kernel.diag(X)[0])))
    with pytest.raises(ValueError, match="8 terms that need 8 frequencies together, got 7; a rank of 16 is the least"):
        features(kernel, X, 7, np.random.default_rng(0))


def test_draws_belong_to_the_generator():
    first, second, other = (features(SPECTRAL[-1], X, 10, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    narrow = features(RBF(), X.astype(np.float32), 10, np.random.default_rng(0))
    assert narrow.dtype == np.float64


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(), r"no spectral density of Polynomial\(offset=1\); take another preconditioner"),
        (HistogramIntersection() + RBF(), "HistogramIntersection"),
        (RBF() * Exponential(), "Exponential"),
        (2.0 * Cauchy() + RBF(), r"; give Cauchy a method frequencies\(rng, count, width\)"),
        (RBF() * (RBF() + White(0.1)), "White is noise: make it a term of the whole kernel"),
        (RBF() ** 0.5, r"RBF\(length_scale=1\) \*\* 0.5"),
        (RBF() * Linear(), r"Linear as a term of a sum only, not in the product Linear\(\) \* RBF"),
        ((Linear() + 1.0) ** 2, r"Linear\(\) \* Linear\(\)"),
    ],
)
def test_kernels_without_features(kernel, message):
    with pytest.raises(TypeError, match=message):
        features(kernel, problems.inputs(HistogramIntersection(), 5), 10, np.random.default_rng(0))


class Broken(Stationary):
    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-s)

    def frequencies(self, rng: np.random.Generator, count: int, width: int) -> Any:
        return rng.standard_normal((width, count))


def test_wrong_frequencies():
    with pytest.raises(ValueError, match=r"Broken.frequencies must return shape \(10, 3\), got \(3, 10\)"):
        features(Broken(), X, 10, np.random.default_rng(0))
    with pytest.raises(ValueError, match="count must be a whole number"):
        features(RBF(), X, 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="more than 10000 terms"):
        features((sum((RBF(float(s)) for s in range(1, 7)), Constant(1.0))) ** 40, X, 10, np.random.default_rng(0))
