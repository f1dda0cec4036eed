"""Estimated likelihoods: unbiased, with true standard errors, whatever the preconditioner; the bound holds."""

import numpy as np
import pytest

import problems
from precog import RBF, precond
from precog.inference import Model, Probing, Targets, basis, estimate, lower_bound, marginal
from precog.inference.estimate import controlled
from precog.solvers import PCG

N = 300
MODEL = Model(1.3 * RBF([0.5, 1.0, 2.0]), 0.05, (1e-6, 1e2))
SOLVER = PCG(rtol=1e-8)
DRAWS = 30


@pytest.fixture(scope="module")
def data():
    X = problems.normal(N, 3, seed=1)
    Y = np.stack([problems.noisy_values(X), problems.noisy_values(X[:, ::-1])], axis=1)
    targets = Targets(X, Y, basis("constant", X, N))
    return targets, targets.operator(MODEL), marginal(MODEL, targets)


def draws(data, precond_, probing, count=DRAWS):
    targets, A, _ = data
    return [
        estimate(MODEL, targets, A, precond_, solver=SOLVER, probing=probing, rng=np.random.default_rng([1, k]))
        for k in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "options", "probing"),
    [
        (None, {}, Probing(4, 4)),
        ("nystrom", {"rank": 40}, Probing(4, 4, signs=True)),
        ("nystrom", {"rank": 40}, Probing(4, 4)),
        ("rpcholesky", {"rank": 80, "residual": "mean"}, Probing(4, 4, control=16)),
        ("local", {"rank": 40, "leaf": 100}, Probing(8, 4, control=16)),
    ],
    ids=["plain", "signs", "nystrom", "control", "local"],
)
def test_unbiased_with_true_standard_errors(data, name, options, probing):
    """Means over draws are within five standard errors of the truth, and the stated ones are of the size seen."""
    _, A, exact = data
    P = None if name is None else precond.make(name, A, rng=0, **options)
    found = draws(data, P, probing)
    gradients = np.array([e.gradient for e in found])
    seen = gradients.std(axis=0, ddof=1)
    assert (np.abs(gradients.mean(axis=0) - exact.gradient) < 5 * seen / np.sqrt(DRAWS)).all()
    stated = np.sqrt(np.mean([e.gradient_se**2 for e in found], axis=0))
    # Variances from few groups and few draws: a factor of two and a half, either way.
    assert (stated < 2.5 * seen).all()
    assert (stated > seen / 2.5).all()
    if probing.signs:
        assert np.isnan(found[0].value)
        return
    values = np.array([e.value for e in found])
    assert abs(values.mean() - exact.value) < 5 * values.std(ddof=1) / np.sqrt(DRAWS)
    assert np.mean([e.value_se for e in found]) == pytest.approx(values.std(ddof=1), rel=0.6)


def test_error_falls_like_one_over_the_root_of_the_probes(data):
    _, A, exact = data
    P = precond.make("nystrom", A, rank=40, rng=0)
    few, many = (
        np.sqrt(np.mean([(e.gradient - exact.gradient) ** 2 for e in draws(data, P, Probing(p, 2))], axis=0))
        for p in (2, 32)
    )
    # Four times smaller; two sample deviations of thirty draws each are known to a fifth.
    assert 2.5 < np.mean(few / many) < 6.0


def test_control_variate_helps_where_the_preconditioner_is_near(data):
    _, A, exact = data
    P = precond.make("rpcholesky", A, rank=120, rng=0, residual="mean")
    plain, helped = (
        np.mean([(e.gradient - exact.gradient) ** 2 for e in draws(data, P, Probing(8, 8, control=c), 12)])
        for c in (0, 64)
    )
    assert helped < plain / 2


def test_controlled_takes_out_what_is_shared():
    rng = np.random.default_rng(0)
    c, cheap = rng.standard_normal((200, 3)), rng.standard_normal((200, 3)) * 0.01
    e = 2.0 + 0.7 * c + 0.1 * rng.standard_normal((200, 3))
    mean, covariance = controlled(e, c, cheap)
    assert np.abs(mean - 2.0).max() < 5 * 0.1 / np.sqrt(200) + 0.01
    assert np.sqrt(np.diagonal(covariance)).max() < 0.02


def test_warm_start_changes_the_cost_only(data):
    targets, A, _ = data
    P = precond.make("nystrom", A, rank=40, rng=0)
    settings = {"solver": SOLVER, "probing": Probing(4, 4)}
    cold = estimate(MODEL, targets, A, P, rng=np.random.default_rng(2), **settings)
    warm = estimate(MODEL, targets, A, P, rng=np.random.default_rng(2), start=cold.solved, **settings)
    assert warm.solution.products < cold.solution.products
    assert np.allclose(warm.gradient, cold.gradient, rtol=1e-6, atol=1e-5)
    assert warm.value == pytest.approx(cold.value, abs=1e-4)


def test_bound_is_below_and_tightens(data):
    targets, A, exact = data
    rough = estimate(MODEL, targets, A, None, solver=PCG(rtol=0.3), probing=Probing(2, 2), rng=np.random.default_rng(0))
    assert rough.solution.residuals.max() > 1e-2
    bounds = [
        lower_bound(MODEL, targets, A, alpha, mean, rank=rank, rng=0)
        for rank in (20, 100, N)
        for alpha, mean in ((rough.alpha, rough.mean), (exact.alpha, exact.mean))
    ]
    assert max(bounds) <= exact.value + 1e-6
    assert bounds[1] < bounds[3] < bounds[5]
    assert bounds[0] < bounds[1]
    assert bounds[5] == pytest.approx(exact.value, abs=1e-3)
