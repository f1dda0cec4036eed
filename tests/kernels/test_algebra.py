"""Sums, products and powers of kernels are sums, products and powers of their values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE, Cauchy, Laplace
from precog import RBF, Constant, Linear, Matern12, Periodic, White
from tolerances import assert_within

X, Z = problems.normal(20, 3, seed=1), problems.normal(15, 3, seed=2)
SOME = [RBF(0.8), Linear(), Periodic(0.9, period=4.0), Laplace(1.2), Cauchy(), White(0.2), Constant(0.4), COMPOSITE]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(SOME, SOME)), ids=str)
def test_pairs(first, second):
    a, b, diagonals = first(X), second(X), (first.diag(X), second.diag(X))
    assert_within((first + second)(X), a + b, tolerances.entry(a + b))
    assert_within((first * second)(X), a * b, tolerances.entry(a * b))
    assert_within((first + second).diag(X), sum(diagonals), tolerances.entry(a + b))
    assert_within((first * second).diag(X), np.prod(diagonals, axis=0), tolerances.entry(a * b))
    across = first(X, Z) * second(X, Z)
    assert_within((first * second)(X, Z), across, tolerances.entry(across))


@pytest.mark.parametrize("exponent", [0.5, 1, 1.5, 2, 3])
@pytest.mark.parametrize("kernel", [RBF(0.8), Matern12() + 0.5, 2.0 * Laplace(1.2)], ids=str)
def test_powers(kernel, exponent):
    expected = kernel(X) ** exponent
    assert_within((kernel**exponent)(X), expected, tolerances.entry(expected))


def test_sums_and_products_are_flat():
    assert len((RBF() + Linear() + White() + (RBF() + 1.0)).terms) == 5
    assert len((2.0 * RBF() * (Linear() * White())).factors) == 4


def test_numbers_of_numpy_and_of_python():
    for number in (2, 2.0, np.float64(2.0), np.float32(2.0), np.int64(2)):
        assert number * RBF() == 2.0 * RBF()
        assert RBF() + number == RBF() + 2.0


@pytest.mark.parametrize("other", ["kernel", None, True, np.ones(3), [1.0]])
def test_other_things_are_refused(other):
    with pytest.raises(TypeError):
        RBF() + other
    with pytest.raises(TypeError):
        other * RBF()


@pytest.mark.parametrize("number", [0.0, -1.0, np.nan])
def test_numbers_must_be_positive(number):
    with pytest.raises(ValueError, match="variance must be positive"):
        number * RBF()


def test_the_builtin_sum_of_kernels_is_an_error_that_says_why():
    """sum() starts at zero, which is no kernel."""
    with pytest.raises(ValueError, match="positive"):
        sum([RBF(), Linear()])
