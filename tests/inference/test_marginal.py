"""The exact log marginal likelihood: against differences, scikit-learn, and rows written out."""

import numpy as np
import pytest
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import problems
import tolerances
from precog import RBF, Linear, LogNormal, Matern32, RationalQuadratic, White
from precog.inference import Model, Prior, Targets, basis, marginal, merged

BOUNDS = (1e-6, 1e2)
MODELS = [
    Model(1.3 * RBF([0.5, 1.0, 2.0]), 0.05, BOUNDS),
    Model(0.7 * Matern32(1.2, columns=[0, 2]) + 0.2 * Linear(), 0.1, BOUNDS),
    Model(1.1 * RationalQuadratic(0.8, 1.7) + White(0.1), 0.2, None),
]


def targets(n=60, outputs=1, mean="zero", **more):
    X = problems.normal(n, 3, seed=1)
    Y = np.stack([problems.noisy_values(X, seed) for seed in range(outputs)], axis=1)
    return Targets(X, Y, basis(mean, X, n), **more)


def differences(model, data):
    """Return the gradient by central differences, and how far it may be from the true one."""
    theta, out = model.theta, []
    for step in tolerances.STEP * np.eye(len(theta)):
        ends = [marginal(model.with_theta(theta + s * step), data, gradient=False).value for s in (1, -1)]
        out.append((ends[0] - ends[1]) / (2 * tolerances.STEP))
    # The terms of the likelihood, n of them, each of the size of a squared target over the noise.
    size = float(np.vdot(data.Y, data.Y)) / min(model.noise, 1.0) + len(data.Y) * 10
    return np.array(out), tolerances.difference(size)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"outputs": 2, "mean": "constant"},
        {"mean": "linear", "weights": np.arange(60) % 3 + 0.5, "known": np.linspace(0.01, 0.2, 60)},
    ],
    ids=["plain", "outputs", "weights"],
)
def test_gradient_is_the_difference(model, more):
    data = targets(**more)
    expected, allowed = differences(model, data)
    tolerances.assert_within(marginal(model, data).gradient, expected, allowed)


@pytest.mark.parametrize("n", [100, 350])
def test_agrees_with_scikit_learn(n):
    data, model = targets(n), MODELS[0]
    kernel = sk.ConstantKernel(1.3) * sk.RBF([0.5, 1.0, 2.0]) + sk.WhiteKernel(0.05)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(data.X, data.Y[:, 0])
    value, gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    ours = marginal(model, data)
    assert ours.value == pytest.approx(value, rel=1e-9)
    assert np.allclose(ours.gradient, gradient, rtol=1e-7, atol=1e-7)


def test_is_the_density():
    data, model = targets(30), MODELS[1]
    A = model.kernel(data.X) + model.noise * np.eye(30)
    expected = scipy.stats.multivariate_normal(cov=A).logpdf(data.Y[:, 0])
    assert marginal(model, data).value == pytest.approx(expected, rel=1e-9)


def test_mean_is_profiled():
    data, model = targets(mean="linear"), MODELS[0]
    best = marginal(model, data)
    shifted = Targets(data.X, data.Y - data.H @ best.mean, data.H[:, :0])
    assert marginal(model, shifted).value == pytest.approx(best.value)
    for change in np.eye(4):
        other = Targets(data.X, data.Y - data.H @ (best.mean + 0.1 * change[:, None]), data.H[:, :0])
        assert marginal(model, other).value < best.value


@pytest.mark.parametrize("known", [None, np.linspace(0.01, 0.2, 60)])
def test_a_weight_is_so_many_rows(known):
    weights = np.arange(60) % 3 + 1
    data = targets(outputs=2, mean="constant", weights=weights.astype(float), known=known)
    X, Y, H = (np.repeat(M, weights, axis=0) for M in (data.X, data.Y, data.H))
    written = Targets(X, Y, H, None, None if known is None else np.repeat(known, weights))
    one, all_ = marginal(MODELS[0], data), marginal(MODELS[0], written)
    assert one.value == pytest.approx(all_.value, rel=1e-9)
    assert np.allclose(one.gradient, all_.gradient, rtol=1e-7, atol=1e-7)


def test_equal_rows_are_one():
    data = targets(60, outputs=2, mean="linear")
    rows = np.random.default_rng(0).integers(0, 60, 150)
    X, H = data.X[rows], data.H[rows]
    Y = data.Y[rows] + 0.1 * problems.normal(150, 2, seed=7)
    weights = np.arange(150) % 2 + 1.0
    whole = Targets(X, Y, H, weights)
    joined = merged(whole)
    assert joined.targets.n == len(np.unique(rows))
    assert np.array_equal(joined.targets.X[joined.group], X)
    one, all_ = marginal(MODELS[0], joined.targets), marginal(MODELS[0], whole)
    assert one.value == pytest.approx(all_.value, rel=1e-9)
    assert np.allclose(one.gradient, all_.gradient, rtol=1e-7, atol=1e-7)
    assert merged(targets()) is None


def test_no_factor_is_said_with_a_remedy():
    X = np.zeros((10, 3))
    with pytest.raises(ArithmeticError, match="raise the noise"):
        marginal(Model(1.0 * RBF(), 0.0, None), Targets(X, np.ones((10, 1)), np.zeros((10, 0))))


def test_prior_density():
    prior, model = Prior({"RBF.length_scale": LogNormal(0.7, 0.5), "noise": LogNormal(0.1, 1.0)}), MODELS[0]
    value, slope = prior.density(model)
    theta = model.theta
    for j, step in enumerate(tolerances.STEP * np.eye(len(theta))):
        ends = [prior.density(model.with_theta(theta + s * step))[0] for s in (1, -1)]
        assert slope[j] == pytest.approx((ends[0] - ends[1]) / (2 * tolerances.STEP), abs=1e-6)
    assert value < 0
    assert slope[0] == 0
