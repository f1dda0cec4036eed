"""What every likelihood must do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import precog
import tolerances
from precog import likelihoods
from precog.kernels import parameter
from precog.likelihoods import (
    Bernoulli,
    Binomial,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Observations,
    Poisson,
    StudentT,
    traced,
)
from precog.likelihoods.observations import check
from tolerances import assert_within

Array = np.ndarray[Any, Any]


class Weibull(Likelihood):
    """Times until something happens, of scale exp(f): a likelihood as a user writes it, log p and no more."""

    shape: float = parameter(default=1.5)

    support = "positive"

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        return np.log(p.shape) + (p.shape - 1) * np.log(y) - p.shape * f - (y * np.exp(-f)) ** p.shape


class Careless(Likelihood):
    """The logit as it stands in books, which overflows and cancels where it is computed as it stands."""

    support = "signs"

    def log_density(self, y: Any, f: Any, p: Any) -> Any:
        probability = 1 / (1 + np.exp(-f))
        return 0.5 * (1 + y) * np.log(probability) + 0.5 * (1 - y) * np.log(1 - probability)


LIKELIHOODS: list[Any] = [
    Bernoulli(),
    Bernoulli("logit"),
    Binomial(),
    Binomial("probit"),
    Poisson(),
    NegativeBinomial(),
    NegativeBinomial(dispersion=2.0, dispersion_bounds="fixed"),
    Gaussian(noise=0.3),
    StudentT(),
    StudentT(scale=0.7, dof=2.5, dof_bounds="fixed"),
    StudentT(scale=0.5, dof=3.0, curvature="expected"),
    Weibull(),
    Careless(),
]

F = np.array([-3.1, -0.8, 0.05, 1.3, 2.6])
TAILS = np.array([-1e3, -40.0, 40.0, 1e3])
# Trials and exposures of the rows, and draws for moments.
KNOWN = {"trials": np.array([1.0, 3.0, 7.0, 12.0, 5.0]), "exposure": np.array([0.5, 1.0, 2.0, 3.0, 0.2])}
DRAWS = 4000
# Where integrals are cut, in the sizes below.
QUADRATURE = 1e-7


def known(likelihood: Any) -> dict[str, Array]:
    return {name: KNOWN[name] for name in likelihood.known}


def at(likelihood: Any, row: Any) -> Any:
    """Return p for one row of F, or for all."""
    p = likelihood.p(Observations(F, known(likelihood)))
    return p if row is None else type(p)(**{k: v[row] if np.ndim(v) else v for k, v in vars(p).items()})


def values_of_y(likelihood: Any) -> Array:
    """Return some y for every row of F that the likelihood may give."""
    rng = np.random.default_rng(7)
    return {
        "signs": np.array([1.0, -1.0, 1.0, -1.0, 1.0]),
        "trials": np.floor(0.5 * KNOWN["trials"]) + 0.0,
        "counts": np.array([0.0, 1.0, 2.0, 9.0, 4.0]),
        "real": F + rng.standard_normal(5),
        "positive": np.exp(F) * rng.random(5),
    }[likelihood.support]


def total(likelihood: Any, g: Callable[[Any], Any], row: int) -> float:
    """Return the sum or the integral of g(y) p(y | f) over all y."""
    p, f = at(likelihood, row), F[row]

    def inside(y: Any) -> Any:
        return g(y) * np.exp(likelihood.log_density(y, f, p))

    if likelihood.support in ("real", "positive"):
        low = f if likelihood.support == "real" else 0.0
        right = scipy.integrate.quad(inside, low, np.inf, epsabs=1e-11, limit=400)[0]
        left = scipy.integrate.quad(inside, -np.inf, low, epsabs=1e-11, limit=400)[0] if low else 0.0
        return float(left + right)
    ys = {"signs": np.array([-1.0, 1.0]), "counts": np.arange(3000.0)}.get(likelihood.support)
    return float(inside(np.arange(p.trials + 1.0) if ys is None else ys).sum())


def knows_moments(likelihood: Any) -> bool:
    return type(likelihood).mean is not Likelihood.mean


def derivatives_are_differences(likelihood: Any) -> None:
    y, p = values_of_y(likelihood), at(likelihood, None)
    found = likelihood.derivatives(y, F, p)
    ends = [likelihood.derivatives(y, F + s * tolerances.STEP, p) for s in (1, -1)]
    assert_within(found[0], likelihood.log_density(y, F, p), 1e-12 * (1 + np.abs(found[0]).max()))
    for order in (1, 2, 3):
        expected = (ends[0][order - 1] - ends[1][order - 1]) / (2 * tolerances.STEP)
        assert_within(found[order], expected, tolerances.difference(1.0 + np.abs(found[order - 1]).max()))


def closed_forms_are_the_traced_ones(likelihood: Any) -> None:
    y, p = values_of_y(likelihood), at(likelihood, None)
    for mine, expected in zip(likelihood.derivatives(y, F, p), traced.derivatives(likelihood, y, F, p), strict=True):
        assert_within(mine, expected, 1e-9 * (1 + np.abs(expected).max()))


def slopes_are_differences(likelihood: Any) -> None:
    """Derivatives in hyperparameters, of log p, of its slope, and of minus what stands for its curvature."""
    y, p = values_of_y(likelihood), at(likelihood, None)
    found, theta = likelihood.slopes(y, F, p), likelihood.theta
    assert found.shape == (len(theta), 3, len(F))
    for j, step in enumerate(tolerances.STEP * np.eye(len(theta))):
        ends = []
        for s in (1, -1):
            moved = likelihood.with_theta(theta + s * step)
            q = at(moved, None)
            l0, l1, l2, _ = moved.derivatives(y, F, q)
            taken = moved.stand_in(y, F, q)
            ends.append(np.array([l0, l1, l2 if taken is None else -taken[0]]))
        expected = (ends[0] - ends[1]) / (2 * tolerances.STEP)
        assert_within(found[j], expected, tolerances.difference(1.0 + np.abs(ends).max()))


def density_adds_up_to_one(likelihood: Any) -> None:
    for row in range(len(F)):
        assert abs(total(likelihood, np.ones_like, row) - 1.0) < QUADRATURE


def moments_are_those_of_the_density(likelihood: Any) -> None:
    if not knows_moments(likelihood):
        for ask in (likelihood.mean, likelihood.variance):
            with pytest.raises(NotImplementedError, match=rf"{type(likelihood).__name__} does not say .* define"):
                ask(F, at(likelihood, None))
        return
    for row in range(len(F)):
        p = at(likelihood, row)
        mean, variance = (float(m) for m in (likelihood.mean(F[row], p), likelihood.variance(F[row], p)))
        assert abs(total(likelihood, lambda y: y, row) - mean) < QUADRATURE * (1 + abs(mean))
        spread = total(likelihood, lambda y, m=mean: (y - m) ** 2, row)
        # Tails of Student's distribution with few degrees of freedom are cut off by any quadrature.
        allowed = 1e-2 if getattr(likelihood, "dof", 9.0) < 3 else 1e-5
        assert abs(spread - variance) < allowed * (1 + variance)


def predictions_are_integrals(likelihood: Any) -> None:
    """Moments of y, and its density, for f ~ N(m, v): narrow, wide, and no width at all."""
    p, y = at(likelihood, None), values_of_y(likelihood)
    for variance in (0.0, 0.3, 4.0):
        v = np.full(len(F), variance)
        found = likelihood.log_predictive(y, F, v, p)
        for row in range(len(F)):
            expected = _integral(likelihood, lambda f, q, row=row: np.exp(likelihood.log_density(y[row], f, q)), row, v)
            assert abs(np.exp(found[row]) - expected) < 1e-6 * (1 + expected)
        if knows_moments(likelihood):
            mean, spread = likelihood.predictive(F, v, p)
            for row in range(len(F)):
                centre = _integral(likelihood, likelihood.mean, row, v)
                assert abs(mean[row] - centre) < 1e-6 * (1 + abs(centre))
                around = _integral(
                    likelihood,
                    lambda f, q, c=centre: likelihood.variance(f, q) + (likelihood.mean(f, q) - c) ** 2,
                    row,
                    v,
                )
                assert abs(spread[row] - around) < 1e-6 * (1 + around)


def _integral(likelihood: Any, g: Callable[[Any, Any], Any], row: int, variance: Array) -> float:
    """Return E g(f) for f ~ N(F[row], variance), by Simpson's rule on a fine grid."""
    p, m, s = at(likelihood, row), F[row], np.sqrt(variance[row])
    if not s:
        return float(np.ravel(g(np.array([m]), p))[0])
    f = m + s * np.linspace(-10, 10, 40_001)
    density = np.exp(-0.5 * ((f - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))
    return float(scipy.integrate.simpson(g(f, p) * density, x=f))


def predictions_of_rows_are_their_own(likelihood: Any) -> None:
    y, p, v = values_of_y(likelihood), at(likelihood, None), np.array([0.0, 0.1, 3.0, 40.0, 1e3])
    together = likelihood.log_predictive(y, F, v, p)
    for row in range(len(F)):
        one = slice(row, row + 1)
        alone = likelihood.log_predictive(y[one], F[one], v[one], known_at_rows(p, one))
        assert abs(alone[0] - together[row]) <= 1e-12 * (1 + abs(together[row]))


def known_at_rows(p: Any, rows: Any) -> Any:
    return type(p)(**{k: v[rows] if np.ndim(v) else v for k, v in vars(p).items()})


def samples_follow_the_density(likelihood: Any) -> None:
    """Means of a bounded function of y, which exist whatever the tails."""
    if type(likelihood).sample is Likelihood.sample:
        with pytest.raises(NotImplementedError, match="does not say how y is drawn"):
            likelihood.sample(F, at(likelihood, None), np.random.default_rng(0))
        return
    rng = np.random.default_rng(3)
    for row in range(len(F)):
        p, f = at(likelihood, row), F[row]
        y = likelihood.sample(np.full(DRAWS, f), p, rng)
        check(type(likelihood).__name__, likelihood.support, y, vars(p))
        centre = likelihood.mean(f, p)
        drawn = np.tanh(y - centre)
        expected = total(likelihood, lambda y, m=centre: np.tanh(y - m), row)
        assert abs(drawn.mean() - expected) <= 5 * drawn.std() / np.sqrt(DRAWS) + QUADRATURE


def tails_are_finite(likelihood: Any) -> None:
    """Far out on both sides: no NaN, no infinite slope where f is as y would have it, no curvature below zero."""
    y = values_of_y(likelihood)[:4]
    p = known_at_rows(at(likelihood, None), slice(4))
    with np.errstate(all="ignore"):
        found = likelihood.derivatives(y, TAILS, p)
    finite = np.isfinite(found[0])
    # exp(1000) is infinite, and so is what a count or a time thinks of it.
    assert finite[1:3].all()
    for order in found:
        assert np.isfinite(order[finite]).all()
    if likelihood.concave:
        assert (-found[2][finite] >= -1e-12 * np.abs(found[1][finite])).all()


def weights_repeat_rows(likelihood: Any) -> None:
    y, repeats = values_of_y(likelihood), np.array([2, 0, 1, 3, 1])
    weighted = Observations(y, known(likelihood), repeats.astype(float), 0.3)
    local = likelihood.local(weighted, F)
    each = likelihood.local(Observations(y, known(likelihood), None, 0.3), F)
    assert_within(local.slope, repeats * each.slope, 1e-12 * (1 + np.abs(each.slope).max() * 3))
    written = weighted.take(np.repeat(np.arange(5), repeats))
    one_by_one = likelihood.local(replace(written, weights=None), np.repeat(F, repeats))
    assert local.value == pytest.approx(one_by_one.value, rel=1e-12)
    assert likelihood.local_slopes(weighted, F).shape == (len(likelihood.theta), 3, 5)


def root_and_excess_are_the_curvature(likelihood: Any) -> None:
    y, p = values_of_y(likelihood), at(likelihood, None)
    local = likelihood.local(Observations(y, known(likelihood)), F)
    taken = likelihood.stand_in(y, F, p)
    w = -likelihood.derivatives(y, F, p)[2] if taken is None else taken[0]
    excess = 0.0 if local.excess is None else local.excess
    assert_within(local.root.scale**2 - excess, w, 1e-12 * np.abs(w).max())
    assert (local.steps.scale > 0).any()
    h = local.root.scale[:, None] ** 2 * np.array([[0.3]])
    bend = local.root.pull(h, local.bend)
    slope = likelihood.derivatives(y, F, p)[3] if taken is None else -taken[1]
    assert_within(bend[:, 0], 0.15 * slope, 1e-12 * (1 + np.abs(slope).max()))


def prints_and_pickles(likelihood: Any) -> None:
    names = {**vars(precog), **vars(likelihoods), "Weibull": Weibull, "Careless": Careless}
    assert eval(repr(likelihood), names) == likelihood
    assert pickle.loads(pickle.dumps(likelihood)) == likelihood
    theta = likelihood.theta
    assert len(theta) == len(likelihood.names) == len(likelihood.bounds)
    assert np.allclose(likelihood.with_theta(theta + 0.1).theta, theta + 0.1)
    assert ((likelihood.bounds[:, 0] <= theta) & (theta <= likelihood.bounds[:, 1])).all()


def refuses_what_it_cannot_have_given(likelihood: Any) -> None:
    wrong = {"signs": 0.0, "trials": 13.0, "counts": 1.5, "real": np.nan, "positive": 0.0}[likelihood.support]
    y = values_of_y(likelihood)
    y[3] = wrong
    with pytest.raises(ValueError, match=rf"y\[3\] is {wrong:g}; {type(likelihood).__name__} is a likelihood of"):
        check(type(likelihood).__name__, likelihood.support, y, vars(at(likelihood, None)))


LIKELIHOOD_LAWS: list[Callable[[Any], None]] = [
    derivatives_are_differences,
    closed_forms_are_the_traced_ones,
    slopes_are_differences,
    density_adds_up_to_one,
    moments_are_those_of_the_density,
    predictions_are_integrals,
    predictions_of_rows_are_their_own,
    samples_follow_the_density,
    tails_are_finite,
    weights_repeat_rows,
    root_and_excess_are_the_curvature,
    prints_and_pickles,
    refuses_what_it_cannot_have_given,
]
