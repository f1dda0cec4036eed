"""Laplace's approximation: the mode, its value and its gradient, dense and by linear solves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

import tolerances
from latent_data import CONCAVE, HEAVY, KERNEL, model, observed
from laws import Watched
from precog import RBF, Bernoulli, Gaussian, Poisson, StudentT, White
from precog.inference import Model, Targets, marginal
from precog.inference.excess import settled
from precog.inference.laplace import Dense, Solving, evaluator, mode
from precog.inference.laplace_exact import laplace
from precog.inference.latent import LatentModel, Observed
from precog.likelihoods import Observations, Softmax
from precog.precond import FAMILIES

SHARP = 1e-18
ITEMS = [*CONCAVE, *HEAVY, Softmax(3)]


def differences(m, data):
    """Return the gradient by central differences, and how far it may be from the true one."""
    # Where curvature is nearly singular, what is left of the mode's error shows in differences over short steps.
    theta, out, width = m.theta, [], tolerances.STEP if m.likelihood.concave else 30 * tolerances.STEP
    for step in width * np.eye(len(theta)):
        ends = [laplace(m.with_theta(theta + s * step), data, gradient=False, tolerance=SHARP) for s in (1, -1)]
        out.append((ends[0].value - ends[1].value) / (2 * width))
    return np.array(out), tolerances.difference(100.0 * data.n)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("likelihood", ITEMS, ids=repr)
def test_gradient_is_the_difference(likelihood, weighted):
    n = 60
    data = observed(likelihood, n, weights=np.arange(n) % 3 + 0.5 if weighted else None)
    m = model(likelihood, KERNEL + White(0.05) if weighted else KERNEL)
    expected, allowed = differences(m, data)
    tolerances.assert_within(laplace(m, data, tolerance=SHARP).gradient, expected, allowed)


@pytest.mark.parametrize("likelihood", ITEMS, ids=repr)
def test_value_is_the_integral_of_a_quadratic(likelihood):
    """ψ at a stationary point, and log |I + K W| of the second derivatives by differences of the first."""
    data, m = observed(likelihood, 40), model(likelihood)
    found = laplace(m, data, gradient=False, tolerance=SHARP)
    K = np.kron(m.kernel(data.X), np.eye(data.copies))
    evaluate, g = evaluator(m, data), found.mode.g
    assert np.allclose(K @ evaluate(g).slope, g, atol=1e-8)
    step = tolerances.STEP
    W = -np.stack([(evaluate(g + step * e).slope - evaluate(g - step * e).slope) / (2 * step) for e in np.eye(len(g))])
    if getattr(likelihood, "curvature", "") == "expected":
        W = np.diag(found.mode.local.root.scale**2)
    psi = evaluate(g).value - 0.5 * g @ np.linalg.solve(K + 1e-10 * np.eye(len(K)), g)
    sign, logdet = np.linalg.slogdet(np.eye(len(K)) + K @ W)
    assert sign == 1
    assert found.value == pytest.approx(psi - 0.5 * logdet, abs=1e-5 * abs(found.value))


def test_normal_noise_is_exact():
    data, m = observed(Gaussian(noise=0.1), 80), model(Gaussian(noise=0.1))
    found = laplace(m, data)
    targets = Targets(data.X, (data.seen.y - data.seen.offset)[:, None], np.zeros((80, 0)))
    exact = marginal(Model(KERNEL, 0.1, (1e-6, 1e2)), targets)
    assert found.mode.steps <= 2
    assert found.value == pytest.approx(exact.value, abs=1e-9)
    assert np.allclose(found.gradient, exact.gradient, atol=1e-9)


def test_agrees_with_scikit_learn():
    data, m = observed(Bernoulli("logit"), 100), model(Bernoulli("logit"))
    data = replace(data, seen=Observations(data.seen.y))
    theirs = GaussianProcessClassifier(sk.ConstantKernel(1.3) * sk.RBF([0.5, 1.0, 2.0]), optimizer=None)
    theirs = theirs.fit(data.X, data.seen.y).base_estimator_
    value, gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    ours = laplace(m, data)
    assert ours.value == pytest.approx(value, abs=1e-6)
    assert np.allclose(ours.gradient, gradient, atol=1e-5)


def test_two_classes_of_softmax_are_the_logit():
    """f₁ - f₂ has the kernel 2 k, and a linear change of variables leaves Laplace's approximation as it is."""
    data = observed(Softmax(2), 50)
    binary = Observed(data.X, Observations(1.0 - 2.0 * data.seen.y))
    two, one = laplace(model(Softmax(2)), data), laplace(model(Bernoulli("logit"), 2.0 * KERNEL), binary)
    assert two.value == pytest.approx(one.value, abs=1e-8)
    assert np.allclose(two.mode.g[::2] - two.mode.g[1::2], one.mode.g, atol=1e-7)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Poisson()], ids=repr)
def test_a_weight_is_so_many_rows(likelihood):
    weights = np.arange(50) % 3
    data = observed(likelihood, 50, weights=weights.astype(float))
    written = replace(data, X=np.repeat(data.X, weights, axis=0), seen=data.seen.take(np.repeat(range(50), weights)))
    written = replace(written, seen=replace(written.seen, weights=None))
    one, all_ = laplace(model(likelihood), data), laplace(model(likelihood), written)
    assert one.value == pytest.approx(all_.value, abs=1e-8)
    assert np.allclose(one.gradient, all_.gradient, atol=1e-7)


# The mode.


@pytest.mark.parametrize("likelihood", [*CONCAVE, *HEAVY], ids=repr)
def test_objective_never_falls(likelihood):
    data, m = observed(likelihood, 60), model(likelihood)
    system = Dense(m.kernel(data.X))
    values = [mode(system, evaluator(m, data), 60, max_iter=k).value for k in range(1, 12)]
    assert (np.diff(values) >= -1e-10).all()


@pytest.mark.parametrize("y", [np.full(60, 1e4), np.zeros(60), np.r_[np.zeros(59), 1e6]], ids=["large", "zeros", "one"])
def test_overshooting_is_halved(y):
    X = observed(Poisson(), 60).X
    found = laplace(model(Poisson()), Observed(X, Observations(y)))
    assert found.mode.converged
    assert found.mode.steps < 40
    assert np.isfinite(found.gradient).all()


def test_saddle_points_are_left():
    """Two observations that contradict each other: half way between them is a stationary point, but no mode."""
    data = Observed(np.array([[0.0], [1e-3]]), Observations(np.array([5.0, -5.0])))
    found = laplace(LatentModel(9.0 * RBF(1.0), StudentT(scale=0.1, dof=2.0)), data)
    assert abs(found.mode.g[0]) > 3
    assert found.mode.converged


@pytest.mark.parametrize("name", [None, *(n for n in FAMILIES if n not in ("ski", "regularized"))])
def test_linear_solves_find_the_dense_mode(name):
    likelihood = Bernoulli("logit")
    data, m = observed(likelihood, 150), model(likelihood)
    exact = laplace(m, data, gradient=False, tolerance=SHARP).mode
    system = Solving(data.gram(m), name)
    found = mode(system, evaluator(m, data), 150, tolerance=SHARP)
    assert found.converged
    assert np.abs(found.g - exact.g).max() < 1e-8
    assert np.abs(found.a - exact.a).max() < 1e-8
    assert found.residual < 1e-8


@pytest.mark.parametrize("likelihood", [*CONCAVE, *HEAVY, Softmax(3)], ids=repr)
def test_linear_solves_serve_every_likelihood(likelihood):
    data, m = observed(likelihood, 80), model(likelihood)
    exact = laplace(m, data, gradient=False, tolerance=SHARP)
    K = data.gram(m)
    if data.copies > 1:
        return
    found, _, more = settled(Solving(K), m, data, tolerance=SHARP, rtol=1e-10)
    assert np.abs(found.g - exact.mode.g).max() < 1e-8
    assert (more is None) == (exact.excess is None)
    if more is not None:
        assert more.logdet() == pytest.approx(exact.excess.logdet(), abs=1e-6)


def test_a_step_is_one_solve_and_two_products():
    """Single products in float64 besides those of the solves, one column each."""
    data, m = observed(Bernoulli(), 120), model(Bernoulli())
    watched = Watched(data.gram(m))
    found = mode(Solving(watched, None), evaluator(m, data), 120)
    assert {columns for _, columns in watched.log} == {1}
    solving = Solving(data.gram(m), None)
    solved = mode(solving, evaluator(m, data), 120)
    assert solved.steps == found.steps
    # A solve counts one product a step, and one for its true residual at the end.
    assert solving.products == 2 * found.steps + solving.iterations + found.steps


def test_tolerances_follow_the_decrement():
    """Early solves are rough: all of them together cost half of as many sharp ones, or less."""
    data, m = observed(Bernoulli(), 300), model(Bernoulli())
    solving = Solving(data.gram(m), None)
    found = mode(solving, evaluator(m, data), 300, tolerance=SHARP)
    sharp = Solving(data.gram(m), None)
    sharp.at(found.local.root).solve(np.ones((300, 1)), 1e-10)
    assert solving.iterations < 0.5 * found.steps * sharp.iterations


def test_warm_start_saves_steps():
    data, m = observed(Bernoulli(), 150), model(Bernoulli())
    cold = laplace(m, data)
    near = m.with_theta(m.theta + 0.01)
    warm = laplace(near, data, start=cold.mode.a)
    assert warm.mode.steps < cold.mode.steps
    assert warm.value == pytest.approx(laplace(near, data).value, abs=1e-8)


def test_what_cannot_be_computed_is_said():
    data = observed(Poisson(), 20)
    with pytest.raises(ArithmeticError, match="log likelihood of the data is not finite at the prior mean"):
        laplace(model(Poisson()), replace(data, seen=replace(data.seen, offset=1000.0)))
    heavy = observed(StudentT(), 60)
    system = Dense(model(StudentT()).kernel(heavy.X))
    with pytest.raises(MemoryError, match="observations are outliers"):
        settled(system, model(StudentT()), heavy, max_memory=100.0)
