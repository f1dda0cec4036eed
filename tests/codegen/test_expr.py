"""Formulas as expressions: recorded, simplified, differentiated, evaluated, refused."""

from __future__ import annotations

import numpy as np
import pytest

from precog.codegen import expr
from precog.codegen.calculus import diff
from precog.codegen.expr import ONE, ZERO, add, constant, evaluate, mul, power, substitute, symbol
from precog.codegen.plan import lower, trace, trace_leaf
from precog.kernels import (
    RBF,
    Constant,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Stationary,
    White,
    parameter,
)

S, A = symbol("s"), symbol("a")

# Every ufunc that a formula may use, in s > 0 and a > 0, and some formulas made of several.
FORMULAS = {
    "add": lambda s, a: np.add(s, a),
    "subtract": lambda s, a: np.subtract(s, a),
    "multiply": lambda s, a: np.multiply(s, a),
    "divide": lambda s, a: np.divide(a, s),
    "power": lambda s, a: np.power(s, 3),
    "float_power": lambda s, a: np.float_power(s, 1.7),
    "square": lambda s, a: np.square(s - a),
    "sqrt": lambda s, a: np.sqrt(s * s + a),
    "reciprocal": lambda s, a: np.reciprocal(s + a),
    "negative": lambda s, a: np.negative(s) * a,
    "positive": lambda s, a: np.positive(s) + a,
    "exp": lambda s, a: np.exp(-a * s),
    "exp2": lambda s, a: np.exp2(-a * s),
    "expm1": lambda s, a: np.expm1(-a * s),
    "log": lambda s, a: np.log(s + a),
    "log2": lambda s, a: np.log2(s + a),
    "log1p": lambda s, a: np.log1p(s / a),
    "sin": lambda s, a: np.sin(a * s),
    "cos": lambda s, a: np.cos(a * s),
    "tanh": lambda s, a: np.tanh(a * s - 1),
    "absolute": lambda s, a: np.absolute(a - s),
    "fabs": lambda s, a: np.fabs(a - s),
    "minimum": lambda s, a: np.minimum(s, a) * s,
    "maximum": lambda s, a: np.maximum(s, a) * s,
    "gaussian": lambda s, a: np.exp(-0.5 * s),
    "matern52": lambda s, a: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)),
    "rational": lambda s, a: (1 + s / (2 * a)) ** -a,
    "wendland": lambda s, a: np.maximum(1 - np.sqrt(s), 0) ** 4 * (4 * np.sqrt(s) + 1),
    "a power of the parameter": lambda s, a: a**s + 2**s,
    "a root of a quotient": lambda s, a: np.sqrt(s / (s + a)),
    "python operators": lambda s, a: (2 - s) / (1 + abs(s - a)) - (+s) / 3 + 1 / s,
}
POINTS = np.array([0.11, 0.37, 0.62, 0.93, 1.74, 2.9])
PARAMETER = 1.3


def values_at(points, parameter=PARAMETER):
    return {"s": points, "a": parameter}


@pytest.mark.parametrize("name", FORMULAS)
def test_recorded_formula_has_the_values_of_the_formula(name):
    formula = FORMULAS[name]
    recorded = formula(S, A)
    np.testing.assert_allclose(
        evaluate(recorded, values_at(POINTS)), formula(POINTS, PARAMETER), rtol=1e-14, atol=1e-15
    )
    np.testing.assert_allclose(
        evaluate(lower(recorded), values_at(POINTS)), formula(POINTS, PARAMETER), rtol=1e-13, atol=1e-15
    )


def test_every_available_ufunc_is_in_the_table():
    # Those of likelihoods, which are not compiled, have a table of their own in tests/likelihoods/test_traced.py.
    likelihoods = {"logaddexp", "expit", "log_expit", "ndtr", "log_ndtr", "erf", "gammaln", "psi"}
    assert set(expr._UFUNCS) - likelihoods <= set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("by", ["s", "a"])
def test_derivative_agrees_with_central_differences(name, by):
    formula, h = FORMULAS[name], 1e-5
    shift = (h, 0.0) if by == "s" else (0.0, h)
    ahead = formula(POINTS + shift[0], PARAMETER + shift[1])
    behind = formula(POINTS - shift[0], PARAMETER - shift[1])
    slope = evaluate(diff(formula(S, A), by), values_at(POINTS))
    # Truncation is h² times a third derivative below 1e3, rounding 1e-16 / h.
    np.testing.assert_allclose(slope * np.ones_like(POINTS), (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("built", "simple"),
    [
        (np.exp(-S) * np.exp(-A), np.exp(-S - A)),
        (np.exp(S) * np.exp(-S), ONE),
        (np.exp(S) ** 2, np.exp(2 * S)),
        (np.exp(S) / np.exp(A), np.exp(S - A)),
        (np.sqrt(S) * np.sqrt(S), S),
        (np.sqrt(4 * S) ** 2, 4 * S),
        (S / np.sqrt(S), np.sqrt(S)),
        (S + S, 2 * S),
        (S - S, ZERO),
        (S * 0, ZERO),
        (S * 1, S),
        (S + 0, S),
        (S**0, ONE),
        (S**1, S),
        (S * S * S, S**3),
        (S * A * S, S**2 * A),
        (2 * (S + A) - 2 * A, 2 * S),
        (3 * S / 3, S),
        (-1 * -S, S),
        (0.1 * S + 0.2 * S - 0.3 * S, ZERO),
        (np.exp(constant(0.0)), ONE),
    ],
)
def test_equal_formulas_become_equal_expressions(built, simple):
    assert built == simple
    assert hash(built) == hash(simple)


def test_product_keeps_one_exponential():
    e = np.exp(-S) * (1 + S) * np.exp(-2 * A) * S
    assert sum(a.op == "exp" for a in e.args) == 1


def test_sum_collects_like_terms():
    e = add(mul(2.0, S, A), mul(3.0, S, A), S)
    assert evaluate(e, values_at(2.0, 5.0)) == 2 * 10 + 3 * 10 + 2
    assert len(e.args) == 2


@pytest.mark.parametrize(("kernel", "at_zero"), [(Matern32(), -1.5), (Matern52(), -5 / 6), (RBF(), -0.5)])
def test_matern_derivative_is_finite_at_zero(kernel, at_zero):
    slope = diff(trace_leaf(kernel, 0), "stat0")
    assert evaluate(slope, {"stat0": 0.0}) == pytest.approx(at_zero, rel=1e-14)
    assert np.isfinite(evaluate(slope, {"stat0": np.array([0.0, 1e-300, 1e-30, 1e-8])})).all()


def test_derivative_of_matern12_times_distance_vanishes_at_zero():
    # k falls like the distance itself; what the loops need is s ∂k/∂s, which is zero at coinciding points.
    slope = diff(trace_leaf(Matern12(), 0), "stat0")
    product = evaluate(mul(symbol("stat0"), slope), {"stat0": np.array([0.0, 1.0])})
    # √FLOOR stands in for the root of zero, so zero is met to half of that.
    np.testing.assert_allclose(product, [0.0, -0.5 * np.exp(-1.0)], rtol=1e-14, atol=0.51 * np.sqrt(expr.FLOOR))


def test_second_derivative_of_matern52():
    second = diff(diff(trace_leaf(Matern52(), 0), "stat0"), "stat0")
    r = np.sqrt(5 * POINTS)
    np.testing.assert_allclose(evaluate(second, {"stat0": POINTS}), 25 / 12 * np.exp(-r), rtol=1e-12)


def test_kinks_have_the_mean_of_their_two_slopes():
    at_kink = {"s": 1.0, "a": 1.0}
    assert evaluate(diff(np.maximum(S, 1.0), "s"), at_kink) == 0.5
    assert evaluate(diff(np.minimum(S, A), "s"), at_kink) == 0.5
    assert evaluate(diff(abs(S - 1), "s"), at_kink) == 0.0


def test_substitute_simplifies_again():
    assert substitute(S * A + S, {"a": -1.0}) == ZERO
    assert substitute(np.exp(S) * A, {"a": np.exp(-S)}) == ONE
    assert substitute(np.exp(S), {"other": 2.0}) == np.exp(S)


def test_evaluate_broadcasts_arrays_and_numbers():
    e = np.exp(-S) * A + 1
    grid = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(evaluate(e, values_at(grid, 2.0)), 2 * np.exp(-grid) + 1, rtol=1e-15)
    assert evaluate(constant(3.0), {}) == 3.0


def test_constants_fold():
    assert constant(2.0) + constant(3.0) == constant(5.0)
    assert np.sqrt(constant(16.0)) == constant(4.0)
    assert np.maximum(constant(1.0), 2.0) == constant(2.0)


def test_symbols_lists_what_a_formula_reads():
    assert expr.symbols(np.exp(-S) * A + 1) == {"s", "a"}
    assert expr.symbols(constant(1.0)) == frozenset()


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda: np.arctan(S), r"np\.arctan is not available.*available: .*exp.*log1p.*sqrt"),
        (lambda: np.add.reduce(S), r"np\.add is not available"),
        (lambda: np.exp(S, where=True), r"np\.exp is not available"),
        (lambda: np.where(S, 1.0, 2.0), r"np\.where is not available.*available: .*maximum"),
        (lambda: np.sum(S), r"np\.\w+ is not available"),
        (lambda: np.clip(S, 0, 1), r"np\.clip is not available"),
        (lambda: 1.0 if S else 0.0, r"cannot branch .*np\.minimum, np\.maximum"),
        (lambda: S * np.array([1.0, 2.0]), r"numbers and its parameters.*length_scale"),
        (lambda: S + "1", r"numbers and its parameters"),
        (lambda: S * 1j, r"numbers and its parameters"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_the_way_out(write, says):
    with pytest.raises(TypeError, match=says):
        write()


@pytest.mark.parametrize(
    "compare", [lambda: S > 1, lambda: S <= A, lambda: np.greater(S, 1), lambda: S == 0, lambda: S != 0]
)
def test_comparison_with_a_value_is_refused_with_the_way_out(compare):
    with pytest.raises(TypeError, match=r"maximum.*minimum|minimum.*maximum"):
        compare()


def test_root_of_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="root of the negative number -2"):
        power(constant(-2.0), 0.5)


class FromSelf(Stationary):
    """A mistake: the parameter is read from self, so it would be compiled in."""

    alpha: float = parameter(default=1.0)

    def formula(self, s, p):
        return np.exp(-self.alpha * s)


class Misspelt(Stationary):
    """A mistake: there is no p.alfa."""

    alpha: float = parameter(default=1.0)
    beta: float = parameter(default=1.0)

    def formula(self, s, p):
        return np.exp(-p.alfa * s) * p.beta


class Branching(Stationary):
    """A mistake: an `if` on the value of an entry."""

    def formula(self, s, p):
        return 1 - s if s < 1 else 0.0


def test_parameter_read_from_self_is_refused():
    with pytest.raises(TypeError, match=r"FromSelf\.formula.*does not read p\.alpha; write p\.alpha, not self\.alpha"):
        trace_leaf(FromSelf(), 0)


def test_misspelt_parameter_names_the_available_ones():
    with pytest.raises(TypeError, match=r"Misspelt\.formula.*alfa.*p has alpha, beta"):
        trace_leaf(Misspelt(), 0)


def test_branch_in_a_formula_names_the_remedy():
    with pytest.raises(TypeError, match=r"cannot branch .*np\.maximum"):
        trace(Branching(), 2)


def test_kernels_that_differ_in_values_alone_share_a_plan():
    first = trace(1.5 * RBF(0.3) + RationalQuadratic(2.0, alpha=0.7), 3)
    second = trace(0.1 * RBF(9.0) + RationalQuadratic(0.2, alpha=3.0), 3)
    assert first is second
    assert first is not trace(1.5 * RBF(0.3) + RationalQuadratic(2.0, alpha=0.7), 4)


def test_plan_separates_statistics_parameters_and_derivatives():
    plan = trace(2.0 * RBF() + Matern32([1.0, 2.0]) * Polynomial() + White() + Constant(3.0), 2)
    assert [a.statistic.name for a in plan.accumulators] == ["squared_distance", "squared_distance", "dot"]
    assert [a.by_feature for a in plan.accumulators] == [False, True, False]
    assert "variance0" in plan.parameters
    assert (0, "variance") in plan.owners
    assert (1, "length_scale") in plan.owners


def test_isotropic_terms_share_one_distance():
    assert len(trace(RBF(1.0) + Matern52(2.0) + RationalQuadratic(3.0), 5).accumulators) == 1
    assert len(trace(RBF([1.0, 2.0]) + Matern52(2.0) + Periodic(), 2).accumulators) == 3
