"""Hyperparameters: what may be given, what theta holds, what is fixed, how a kernel is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import precog
from laws import Cauchy
from precog import RBF, Constant, Linear, Periodic, Polynomial, RationalQuadratic, Stationary, White, parameter


def test_theta_holds_logarithms_in_the_order_of_the_expression():
    kernel = 2.0 * RBF([0.5, 3.0]) + White(0.1)
    assert kernel.names == ("Constant.variance", "RBF.length_scale[0]", "RBF.length_scale[1]", "White.noise")
    assert np.array_equal(kernel.theta, np.log([2.0, 0.5, 3.0, 0.1]))
    assert np.array_equal(kernel.bounds, np.log([[1e-5, 1e5]] * 4))


def test_names_number_equal_leaves():
    assert (RBF() + RBF() + RBF()).names == ("RBF.length_scale", "RBF#2.length_scale", "RBF#3.length_scale")
    assert RBF().names == ("length_scale",)


def test_with_theta_leaves_fixed_values_and_bounds():
    partly = RBF([0.5, 3.0], length_scale_bounds=["fixed", (1, 9)])
    kernel = Polynomial(offset=0.5, degree=3, offset_bounds=(0.1, 1.0)) + partly
    assert kernel.names == ("Polynomial.offset", "RBF.length_scale[1]")
    moved = kernel.with_theta(np.log([0.7, 4.0]))
    assert moved.bounds.tolist() == kernel.bounds.tolist() == np.log([[0.1, 1.0], [1.0, 9.0]]).tolist()
    assert np.allclose(np.exp(moved.theta), [0.7, 4.0], rtol=1e-15, atol=0)
    assert moved.terms[1].length_scale[0] == 0.5


def test_fix_whole_and_by_element():
    kernel = 2.0 * RBF([0.5, 3.0]) + RBF()
    assert kernel.fix("RBF.length_scale").names == ("Constant.variance", "RBF#2.length_scale")
    assert kernel.fix("RBF.length_scale[1]").names == ("Constant.variance", "RBF.length_scale[0]", "RBF#2.length_scale")
    assert kernel.fix("RBF#2.length_scale", "Constant.variance").names == ("RBF.length_scale[0]", "RBF.length_scale[1]")
    assert RBF([0.5, 3.0]).fix("length_scale").names == ()
    assert kernel.fix() == kernel
    with pytest.raises(ValueError, match=r"no hyperparameter 'RBF\.period'"):
        kernel.fix("RBF.period")


def test_dot_products_fix_their_length_scale_by_default():
    assert Linear().names == ()
    assert Linear(length_scale_bounds=(0.1, 10)).names == ("length_scale",)
    assert Polynomial().names == ("offset",)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, [1.0, -2.0], [], [[1.0]]])
def test_values_must_be_positive(value):
    with pytest.raises(ValueError, match="RBF: length_scale"):
        RBF(value)


def test_values_must_be_numbers():
    with pytest.raises(TypeError, match="RBF: length_scale must be a positive number"):
        RBF("long")
    with pytest.raises(ValueError, match=r"length_scale\[1\] must be positive and finite, got -2"):
        RBF([1.0, -2.0])


@pytest.mark.parametrize("bounds", ["free", (1.0,), (2.0, 1.0), (0.0, 1.0), (1.0, math.inf), [(1, 2), (1, 2), (1, 2)]])
def test_bounds_must_be_ordered_and_positive(bounds):
    with pytest.raises(ValueError, match="length_scale"):
        RBF([1.0, 2.0], length_scale_bounds=bounds)


@pytest.mark.parametrize(
    ("columns", "message"),
    [([0, 0], "named twice"), ([-1], "negative"), ([], "empty"), ([0.5], "flat list"), ([[0]], "flat list")],
)
def test_columns_must_be_column_numbers(columns, message):
    with pytest.raises(ValueError, match=message):
        RBF(columns=columns)


def test_length_scales_and_columns_go_together():
    with pytest.raises(ValueError, match="2 length scales for 3 columns"):
        RBF([1.0, 2.0], columns=[0, 1, 2])


@pytest.mark.parametrize("exponent", [0, -1, math.nan, True, "2"])
def test_exponents_must_be_positive(exponent):
    with pytest.raises(ValueError, match="raised to a positive number"):
        RBF() ** exponent


@pytest.mark.parametrize("degree", [0, 1.5, True])
def test_polynomial_degrees_are_whole(degree):
    with pytest.raises(ValueError, match="degree must be a whole number"):
        Polynomial(degree=degree)


def test_theta_of_the_wrong_length():
    with pytest.raises(ValueError, match=r"theta has 1 entries \(length_scale\), got shape \(2,\)"):
        RBF().with_theta([0.0, 0.0])
    with pytest.raises(ValueError, match=r"theta\[0\] is not finite"):
        RBF().with_theta([np.nan])


def test_kernels_are_frozen():
    with pytest.raises(AttributeError):
        RBF().length_scale = 2.0
    assert RBF(np.array([1, 2])).length_scale == (1.0, 2.0)
    assert RBF(np.float32(0.5)).length_scale == 0.5


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (RBF(), "RBF(length_scale=1.0)"),
        (RBF([1, 2], columns=[0, 2]), "RBF(length_scale=[1.0, 2.0], columns=[0, 2])"),
        (RBF(2, length_scale_bounds="fixed"), "RBF(length_scale=2.0, length_scale_bounds='fixed')"),
        (RBF(length_scale_bounds=(0.1, 10)), "RBF(length_scale=1.0, length_scale_bounds=(0.1, 10.0))"),
        (1.7 * RBF() + 0.3 * Linear(), "1.7 * RBF(length_scale=1.0) + 0.3 * Linear()"),
        (2.0 * (RBF() + White(0.1)), "2.0 * (RBF(length_scale=1.0) + White(noise=0.1))"),
        ((RBF() * Linear()) ** 2, "(RBF(length_scale=1.0) * Linear()) ** 2"),
        (RBF() ** 0.5, "RBF(length_scale=1.0) ** 0.5"),
        (RBF() ** 2.0, "RBF(length_scale=1.0) ** 2"),
        ((RBF() ** 2) ** 3, "(RBF(length_scale=1.0) ** 2) ** 3"),
    ],
    ids=str,
)
def test_printed_as_the_expression(kernel, text):
    assert repr(kernel) == text
    assert eval(text, dict(vars(precog.kernels))) == kernel


@pytest.mark.parametrize(
    "kernel",
    [
        Constant(2.0) * Constant(3.0),
        2.0 * (3.0 * RBF()),
        RBF() * 2.0,
        Constant(2.0, variance_bounds="fixed") * RBF(),
        RBF([1, 2], length_scale_bounds=["fixed", (0.1, 10)]),
        RBF(0.1 + 0.2) + 1 / 3,
        (2.0 * RBF()) ** 2 * Periodic(period=[0.5, 0.6], period_bounds=[(0.1, 1), "fixed"]),
        RBF() * (Linear() + 1.0) * (RBF(2.0) + White()),
        RationalQuadratic(alpha_bounds=(0.5, 0.5)),
        Linear(length_scale_bounds=(1e-5, 1e5)),
    ],
    ids=str,
)
def test_printed_text_makes_an_equal_kernel(kernel):
    again = eval(repr(kernel), dict(vars(precog.kernels)))
    assert again == kernel
    assert again.bounds.tolist() == kernel.bounds.tolist()
    assert again.names == kernel.names


def test_equal_kernels_are_one_key():
    assert len({RBF(), RBF(1), RBF(np.float64(1.0)), 1.0 * RBF(), RBF([1.0])}) == 3
    assert RBF() != Cauchy()
    assert RBF() != RBF(length_scale_bounds="fixed")
    assert RBF() + Linear() != Linear() + RBF()


def test_a_kernel_of_ones_own():
    """Fields, bounds, names and printing come with the class."""

    class Rough(Stationary):
        sharpness: float = parameter(default=2.0)

        def formula(self, s, p):
            return np.exp(-((1 + s) ** 0.5 - 1) * p.sharpness)

    kernel = Rough(0.5, sharpness=4, sharpness_bounds="fixed")
    assert kernel.names == ("length_scale",)
    assert repr(kernel) == "Rough(length_scale=0.5, sharpness=4.0, sharpness_bounds='fixed')"
    assert Rough(sharpness=3.0).names == ("length_scale", "sharpness")
    with pytest.raises(ValueError, match="Rough: sharpness must be positive"):
        Rough(sharpness=-1.0)
