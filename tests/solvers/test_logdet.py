"""Log-determinants by quadrature: near the dense ones, with standard errors that mean what they say."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws import Inverse
from precog import RBF, Dense, Gram, Linear, precond
from precog.operators import Congruent
from precog.solvers import NotConverged, logdet
from precog.solvers.logdet import log_mean

N = 60
X = problems.normal(N, 3, seed=81)
OPERATORS = {
    "uniform": Gram(RBF(0.8), X) + 0.1,
    "by row": Gram(1.7 * RBF([0.7, 1.2, 0.9]), X) + np.linspace(0.05, 1.0, N),
    "scaled": Congruent(Gram(RBF(0.8), X), np.linspace(0.0, 2.0, N)) + 1.0,
    "rank three": Gram(Linear(), X) + 0.1,
    "small noise": Gram(RBF(0.8), X) + 1e-4,
}
NAMES = [None, "rpcholesky", "nystrom", "fitc", "block_jacobi"]


class Exact(Inverse):
    """P = A, with what the quadrature asks of it."""

    def __init__(self, A):
        super().__init__(A)
        self.root = np.linalg.cholesky(A)

    def logdet(self):
        return 2.0 * float(np.log(np.diagonal(self.root)).sum())

    def sample(self, rng, k):
        return self.root @ rng.standard_normal((len(self.root), k))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_within_five_standard_errors(operator, name):
    A = OPERATORS[operator]
    P = None if name is None else precond.make(name, A, rank=15, rng=0)
    found = logdet(A, precond=P, probes=40, rng=1, rtol=1e-6)
    expected = np.linalg.slogdet(A.dense())[1]
    # A low-rank matrix and its factor leave nothing to vary, and then it is the tolerance that is seen.
    assert abs(found.value - expected) <= 5.0 * found.standard_error + 1e-6 * N
    assert found.probes == 40
    assert found.products >= 40 * 2
    assert found.standard_error <= 0.2 * abs(expected)


def test_standard_errors_are_the_spread_of_estimates():
    """Over many seeds the estimates spread as one of them says that they do, around the true value."""
    A = OPERATORS["uniform"]
    P = precond.make("rpcholesky", A, rank=15, rng=0)
    expected = np.linalg.slogdet(A.dense())[1]
    for use in (None, P):
        found = [logdet(A, precond=use, probes=8, rng=seed, rtol=1e-6) for seed in range(100)]
        values = np.array([one.value for one in found])
        stated = np.sqrt(np.mean([one.standard_error**2 for one in found]))
        # 700 degrees of freedom in one, 99 in the other.
        assert 0.6 * stated <= values.std(ddof=1) <= 1.5 * stated
        assert abs(values.mean() - expected) <= 5.0 * values.std(ddof=1) / 10.0 + 1e-6 * N


def test_standard_error_falls_like_one_over_the_root():
    A = OPERATORS["uniform"]
    few, many = (logdet(A, probes=k, rng=0, rtol=1e-6).standard_error for k in (25, 2500))
    assert few / many == pytest.approx(10.0, rel=0.4)


def test_a_good_preconditioner_leaves_little_to_vary():
    A = OPERATORS["uniform"]
    plain, helped = (
        logdet(A, precond=P, probes=20, rng=0, rtol=1e-6) for P in (None, precond.make("rpcholesky", A, rank=40, rng=0))
    )
    assert helped.standard_error < 0.5 * plain.standard_error
    assert helped.iterations < 0.5 * plain.iterations


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_exact_preconditioner_gives_the_exact_value(operator):
    dense = OPERATORS[operator].dense()
    found = logdet(Dense(dense), precond=Exact(dense), probes=4, rng=0)
    rounding = N * 1e-15 * np.linalg.cond(dense)
    assert found.value == pytest.approx(np.linalg.slogdet(dense)[1], abs=rounding)
    assert found.standard_error <= rounding
    assert found.iterations == 1


def test_one_row():
    found = logdet(Gram(RBF(), X[:1]) + 0.5, probes=3, rng=0)
    assert found.value == pytest.approx(np.log(1.5), rel=1e-12)
    assert found.standard_error <= 1e-12


def test_same_seed_same_value():
    A = OPERATORS["uniform"]
    first = logdet(A, rng=3)
    assert logdet(A, rng=3) == first == logdet(A, rng=np.random.default_rng(3))
    assert logdet(A, rng=4) != first


def test_a_probe_that_began_anew_is_not_believed():
    """Where float32 leads nowhere its coefficients belong to a later residual: all is done again in float64."""
    values = np.r_[np.logspace(-9, -7, 20), np.linspace(1.0, 2.0, 20)]
    Q = np.linalg.qr(problems.normal(40, 40, seed=82))[0]
    M = (Q * values) @ Q.T
    A = Dense(0.5 * (M + M.T))
    found = logdet(A, probes=30, rng=0, rtol=1e-6, precision="mixed")
    expected = np.linalg.slogdet(A.dense())[1]
    assert abs(found.value - expected) <= 5.0 * found.standard_error
    same = logdet(A, probes=30, rng=0, rtol=1e-6, precision="float64")
    assert found.value == same.value
    assert found.products > same.products


def test_few_steps_are_an_estimate_all_the_same():
    """Quadrature with few nodes: from above for the logarithm, as Gauss's rule is."""
    A = OPERATORS["small noise"]
    values = [logdet(A, probes=200, rng=0, max_iter=steps).value for steps in (2, 5, 10, 20)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > np.linalg.slogdet(A.dense())[1] - 5.0 * logdet(A, probes=200, rng=0).standard_error


def test_refusals():
    with pytest.raises(NotConverged, match="the operator is not positive definite"):
        logdet(Dense(np.diag(np.r_[np.ones(5), -1.0])), rng=0)
    with pytest.raises(ValueError, match="probes must be a whole number, at least 2"):
        logdet(OPERATORS["uniform"], probes=1)
    with pytest.raises(ValueError, match="max_iter must be a whole number, at least 1"):
        logdet(OPERATORS["uniform"], max_iter=0)


def test_nodes_that_rounding_made_negative_are_left_out():
    assert log_mean(np.array([-1e-18, 1.0, np.e]), np.array([0.2, 0.4, 0.4])) == pytest.approx(0.5)
