"""scikit-learn's kernels, translated: the same values, the same hyperparameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.gaussian_process.kernels as sk

import problems
import tolerances
from precog import RBF, Constant, Gram, Kernel, from_sklearn
from tolerances import assert_within

X, Z = problems.normal(25, 3, seed=1), problems.normal(18, 3, seed=2)

# With hyperparameters of the same names and meaning, in the same order.
ALIKE = [
    sk.RBF(0.7),
    sk.RBF([0.5, 1.0, 2.0], length_scale_bounds=(1e-2, 1e2)),
    sk.RBF([0.5, 1.0, 2.0], length_scale_bounds=[(0.1, 1.0), (0.2, 2.0), (0.3, 3.0)]),
    sk.RBF(0.7, length_scale_bounds="fixed"),
    sk.Matern(0.7, nu=0.5),
    sk.Matern([0.5, 1.0, 2.0], nu=1.5),
    sk.Matern(0.7, nu=2.5, length_scale_bounds=(0.1, 10)),
    sk.Matern(0.7, nu=math.inf),
    sk.ConstantKernel(1.7, constant_value_bounds=(0.1, 10)),
    sk.WhiteKernel(0.3, noise_level_bounds=(0.1, 10)),
    sk.ConstantKernel(1.7) * sk.RBF(0.7) + sk.WhiteKernel(0.3),
    sk.ConstantKernel(1.7, constant_value_bounds="fixed") * sk.RBF(0.7, length_scale_bounds="fixed"),
    (sk.RBF(0.7) + sk.WhiteKernel(0.3)) * (sk.Matern(1.2, nu=1.5) + 0.4),
    sk.Exponentiation(sk.RBF(0.7) + 0.3, 2),
]
# With the same values, and hyperparameters in another order or of another meaning.
OTHERWISE = [
    sk.RationalQuadratic(0.7, alpha=1.3),
    sk.RationalQuadratic(0.7, alpha=1.3, alpha_bounds="fixed"),
    sk.DotProduct(0.6),
    sk.DotProduct(0.6, sigma_0_bounds=(0.1, 10)) ** 2,
    sk.PairwiseKernel(metric="linear"),
    sk.PairwiseKernel(gamma=0.8, metric="rbf"),
    sk.PairwiseKernel(gamma=0.8, metric="poly", pairwise_kernels_kwargs={"degree": 2, "coef0": 0.5}),
    sk.PairwiseKernel(gamma=0.8, metric="polynomial"),
]


@pytest.mark.parametrize("theirs", ALIKE + OTHERWISE, ids=repr)
def test_values(theirs):
    ours = from_sklearn(theirs, X.shape[1])
    assert isinstance(ours, Kernel)
    for K, actual in ((theirs(X), ours(X)), (theirs(X, Z), ours(X, Z)), (theirs.diag(X), ours.diag(X))):
        assert_within(actual, K, tolerances.entry(K))


def test_periodic_in_one_dimension():
    theirs = sk.ExpSineSquared(0.8, periodicity=1.7, periodicity_bounds=(0.5, 5.0), length_scale_bounds="fixed")
    ours = from_sklearn(theirs, 1)
    assert_within(ours(X[:, :1]), theirs(X[:, :1]), tolerances.entry(1.0))
    assert ours.names == ("period",)
    assert np.array_equal(ours.bounds, theirs.bounds)
    assert np.array_equal(ours.theta, theirs.theta)
    assert_within(Gram(theirs, X[:, :1]).dense(), theirs(X[:, :1]), tolerances.entry(1.0))


@pytest.mark.parametrize("theirs", ALIKE, ids=repr)
def test_hyperparameters_transfer(theirs):
    ours = from_sklearn(theirs)
    assert_within(ours.theta, theirs.theta, 2 * tolerances.EPS)
    assert_within(ours.bounds, np.reshape(theirs.bounds, (-1, 2)), 20 * tolerances.EPS)
    step = np.linspace(0.1, 0.3, len(ours.theta))
    moved, expected = ours.with_theta(ours.theta + step), theirs.clone_with_theta(theirs.theta + step)(X)
    assert_within(moved(X), expected, tolerances.entry(expected))


def test_other_hyperparameters_keep_their_bounds():
    ours = from_sklearn(sk.RationalQuadratic(0.7, alpha=1.3, alpha_bounds=(0.5, 5.0), length_scale_bounds="fixed"))
    assert ours.names == ("alpha",)
    assert_within(ours.bounds, np.log([[0.5, 5.0]]), 4 * tolerances.EPS)
    dot = from_sklearn(sk.DotProduct(0.6, sigma_0_bounds=(0.1, 10)))
    assert dot.names == ("Constant.variance",)
    assert_within(dot.bounds, np.log([[0.01, 100.0]]), 8 * tolerances.EPS)
    rbf = from_sklearn(sk.PairwiseKernel(gamma=0.5, gamma_bounds=(0.02, 50.0), metric="rbf"))
    assert_within(rbf.theta, [0.0], 4 * tolerances.EPS)
    assert_within(rbf.bounds, np.log([[0.1, 5.0]]), 8 * tolerances.EPS)
    assert from_sklearn(sk.DotProduct(0.6, sigma_0_bounds="fixed")).names == ()


@pytest.mark.parametrize(
    ("theirs", "error", "message"),
    [
        (sk.CompoundKernel([sk.RBF(), sk.RBF()]), TypeError, "expected a precog kernel or one of scikit-learn's .*RBF"),
        (sk.PairwiseKernel(metric="chi2"), ValueError, "metric='chi2'"),
        (sk.Matern(nu=1.0), ValueError, r"nu=1.0 .* 0.5, 1.5, 2.5 or inf"),
        (sk.ExpSineSquared(), ValueError, "for 2 features: it is positive definite in one dimension only"),
        (sk.RBF() + sk.ExpSineSquared(), ValueError, "precog.Periodic"),
        (sk.RBF, TypeError, "expected a precog kernel"),
        ("rbf", TypeError, "expected a precog kernel"),
        (None, TypeError, "expected a precog kernel"),
    ],
    ids=repr,
)
def test_what_has_no_counterpart(theirs, error, message):
    with pytest.raises(error, match=message):
        from_sklearn(theirs, 2)


def test_periodic_of_unknown_dimension():
    with pytest.raises(ValueError, match="n_features=1"):
        from_sklearn(sk.ExpSineSquared())


def test_a_kernel_of_ours_is_returned_as_it_is():
    kernel = 2.0 * RBF()
    assert from_sklearn(kernel) is kernel


def test_both_kinds_in_one_expression():
    assert RBF(0.5) + sk.WhiteKernel(0.3) == RBF(0.5) + from_sklearn(sk.WhiteKernel(0.3))
    assert Constant(2.0) * sk.RBF(0.7) == Constant(2.0) * RBF(0.7)
