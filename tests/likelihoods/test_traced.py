"""Formulas of likelihoods as users write them: brought into a stable form, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

from laws import Careless
from precog.codegen import calculus, expr
from precog.codegen.expr import evaluate, symbol
from precog.kernels import RBF, Stationary, parameter
from precog.likelihoods import Likelihood, Observations
from precog.likelihoods.observations import known_of
from precog.likelihoods.traced import stable
from precog.operators import Gram

F = symbol("f")
POINTS = np.array([-800.0, -30.0, -1.0, 0.0, 2.0, 30.0, 800.0])

REWRITTEN = {
    "softplus": (lambda f: np.log1p(np.exp(f)), lambda f: np.logaddexp(0, f)),
    "softplus, as a sum": (lambda f: np.log(1 + np.exp(-f)), lambda f: np.logaddexp(0, -f)),
    "sigmoid": (lambda f: 1 / (1 + np.exp(-f)), sp.expit),
    "sigmoid squared": (lambda f: 3 * (1 + np.exp(-f)) ** -2, lambda f: 3 * sp.expit(f) ** 2),
    "log sigmoid": (lambda f: np.log(1 / (1 + np.exp(-f))), sp.log_expit),
    "log of the rest": (lambda f: np.log(1 - 1 / (1 + np.exp(-f))), lambda f: sp.log_expit(-f)),
    "log of Φ": (lambda f: np.log(sp.ndtr(f)), sp.log_ndtr),
    "log of the rest of Φ": (lambda f: np.log(1 - sp.ndtr(f)), lambda f: sp.log_ndtr(-f)),
    "inside others": (lambda f: np.exp(-2 * np.log1p(np.exp(f))), lambda f: np.exp(-2 * np.logaddexp(0, f))),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_overflows_or_cancels_is_replaced(name):
    written, meant = REWRITTEN[name]
    np.testing.assert_allclose(evaluate(stable(written(F)), {"f": POINTS}), meant(POINTS), rtol=1e-12)


SPECIAL = {
    "logaddexp": lambda f: np.logaddexp(2 * f, 1.0),
    "expit": sp.expit,
    "log_expit": sp.log_expit,
    "ndtr": sp.ndtr,
    "log_ndtr": sp.log_ndtr,
    "erf": sp.erf,
    "gammaln": lambda f: sp.gammaln(f * f + 0.5),
    "psi": lambda f: sp.psi(f * f + 0.5),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_and_their_derivatives(name):
    points, step = np.array([-2.3, -0.4, 0.0, 0.7, 3.1]), 1e-5
    orders = [SPECIAL[name](F)]
    np.testing.assert_allclose(evaluate(orders[0], {"f": points}), SPECIAL[name](points), rtol=1e-12, atol=1e-14)
    for _ in range(3):
        orders.append(calculus.diff(orders[-1], "f"))
        ends = [evaluate(orders[-2], {"f": points + s * step}) for s in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(evaluate(orders[-1], {"f": points}), expected, rtol=1e-6, atol=1e-7)


def test_a_careless_formula_has_exact_tails():
    with np.errstate(all="raise"):
        local = Careless().local(Observations(np.array([1.0, -1.0, 1.0])), np.array([-700.0, -700.0, 40.0]))
    assert np.allclose(local.slope, [1.0, 0.0, 0.0], atol=1e-12)
    assert local.value == pytest.approx(-700.0)


def likelihood(formula, **fields):
    """Return a likelihood with this formula."""
    return type("Own", (Likelihood,), {"log_density": lambda self, y, f, p: formula(y, f, p), **fields})()


@pytest.mark.parametrize(
    ("formula", "fields", "message"),
    [
        (lambda y, f, p: -(y**2), {}, "does not depend on f"),
        (lambda y, f, p: -p.scale * f, {}, "no attribute 'scale'; p has nothing"),
        (
            lambda y, f, p: -((y - f) ** 2),
            {"scale": parameter(default=1.0), "__annotations__": {"scale": "float"}},
            r"does not read p\.scale",
        ),
        (lambda y, f, p: np.where(y > 0, f, -f), {}, "np.greater is not available|cannot branch"),
        (lambda y, f, p: np.arctan(f), {}, "np.arctan is not available in a formula"),
    ],
)
def test_formulas_that_cannot_be_traced(formula, fields, message):
    with pytest.raises(TypeError, match=message):
        likelihood(formula, **fields).local(Observations(np.ones(3)), np.zeros(3))


def test_kernels_have_no_special_functions():
    class Sigmoid(Stationary):
        def formula(self, s, p):
            return sp.expit(-s)

    X = np.random.default_rng(0).standard_normal((400, 2))
    assert np.isfinite(Sigmoid()(X)).all()
    with pytest.raises(TypeError, match="expit of a pair statistic is not available"):
        Gram(Sigmoid(), X) @ np.ones(400)
    assert expr.lift(RBF().formula(symbol("s"), None)).op == "exp"


def test_what_rows_bring_along_is_checked():
    assert np.array_equal(known_of("Poisson", {"exposure": 1.0}, {"exposure": 2.0}, 3)["exposure"], [2.0, 2.0, 2.0])
    for given, message in (
        ({"trials": [1.0, 2.0]}, "Poisson has no use for trials; it takes exposure"),
        ({"exposure": [1.0, 2.0]}, r"one for each of the 3 rows, got shape \(2,\)"),
        ({"exposure": [1.0, 0.0, 2.0]}, r"exposure\[1\] is 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            known_of("Poisson", {"exposure": 1.0}, given, 3)
