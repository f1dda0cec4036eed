"""Laplace's approximation from solves alone: every term and their sum unbiased, with true standard errors."""

from __future__ import annotations

import numpy as np
import pytest

import tolerances
from latent_data import model, observed
from precog import Bernoulli, NegativeBinomial, Poisson, StudentT
from precog.inference import Probing
from precog.inference.laplace import Solving
from precog.inference.laplace_estimate import Slopes, estimate, implicit_term, quadratic_term, trace_term
from precog.inference.laplace_exact import laplace

N, DRAWS, SHARP = 150, 20, 1e-18
LIKELIHOODS = [Bernoulli(), Poisson(), NegativeBinomial(), StudentT()]


def draws(likelihood, name, options, probing, count=DRAWS):
    data, m = observed(likelihood, N), model(likelihood)
    start = laplace(m, data, gradient=False).mode.a
    found = []
    for k in range(count):
        system = Solving(data.gram(m), name, **options)
        rng = np.random.default_rng([1, k])
        settings = {"rtol": 1e-8, "probing": probing, "rng": rng, "start": start, "tolerance": 1e-14}
        found.append(estimate(m, data, system, **settings))
    return found


def assert_unbiased(values, expected):
    """The mean is within five standard errors of the truth."""
    spread = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    assert (np.abs(np.mean(values, axis=0) - expected) <= 5 * spread + 1e-6 * np.abs(expected)).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@pytest.mark.parametrize(
    ("name", "options", "probing"),
    [
        (None, {}, Probing(4, 4)),
        ("nystrom", {"rank": 40}, Probing(4, 4, signs=True)),
        ("nystrom", {"rank": 40}, Probing(4, 4)),
        ("rpcholesky", {"rank": 60}, Probing(8, 4, control=16)),
    ],
    ids=["plain", "signs", "nystrom", "control"],
)
def test_unbiased_with_true_standard_errors(likelihood, name, options, probing):
    exact = laplace(model(likelihood), observed(likelihood, N), tolerance=SHARP)
    found = draws(likelihood, name, options, probing)
    gradients = np.array([e.gradient for e in found])
    assert_unbiased(gradients, exact.gradient)
    stated = np.sqrt(np.mean([e.gradient_se**2 for e in found], axis=0))
    seen = gradients.std(axis=0, ddof=1)
    # Variances from few groups and few draws: a factor of two and a half, either way.
    assert (stated < 2.5 * seen).all()
    assert (stated > seen / 2.5).all()
    if name is not None and probing.signs:
        assert np.isnan(found[0].value)
        return
    values = np.array([e.value for e in found])
    assert_unbiased(values, exact.value)
    assert np.mean([e.value_se for e in found]) == pytest.approx(values.std(ddof=1), rel=0.6)


def derivatives_of_K(m, X):
    """Return ∂K/∂θ for every hyperparameter of the kernel by central differences, (q, n, n)."""
    theta, step = m.kernel.theta, tolerances.STEP
    ends = [[m.kernel.with_theta(theta + s * step * e)(X) for s in (1, -1)] for e in np.eye(len(theta))]
    return np.array([(up - down) / (2 * step) for up, down in ends])


@pytest.mark.parametrize("name", [None, "nystrom", "vecchia"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_every_term_alone(likelihood, name):
    """Each of the three against its matrices written out; negative curvature is part of the first and the third."""
    data, m = observed(likelihood, N), model(likelihood)
    dK, K, groups = derivatives_of_K(m, data.X), m.kernel(data.X), 4
    exact = laplace(m, data, tolerance=SHARP)
    local, a = exact.mode.local, exact.mode.a
    W = local.root.scale**2 - (0.0 if local.excess is None else local.excess)
    R = np.linalg.solve(np.eye(N) + W[:, None] * K, np.diag(W))
    covariance = np.linalg.solve(np.eye(N) + K * W, K)
    s = np.linalg.solve(np.eye(N) + W[:, None] * K, -0.5 * np.diagonal(covariance) * local.bend)
    B = np.eye(N) + local.root.scale[:, None] * K * local.root.scale
    trace = -0.5 * np.einsum("ij,kij->k", np.linalg.solve(B, np.diag(local.root.scale)) * local.root.scale[:, None], dK)
    seen = {"trace": [], "implicit": []}
    for k in range(DRAWS):
        system = Solving(data.gram(m), name, 40)
        probing = Probing(8, groups)
        rng = np.random.default_rng([2, k])
        settings = {"rtol": 1e-8, "probing": probing, "rng": rng, "start": a, "tolerance": 1e-14, "gradient": False}
        point = estimate(m, data, system, **settings)
        slopes = Slopes.of(data.gram(m))
        seen["trace"].append(trace_term(slopes, point.mode.local.root, point.probes, groups).mean(axis=0))
        through, own = implicit_term(m, data, system, slopes, point, groups, 1e-8)
        seen["implicit"].append(through.mean(axis=0))
        assert own.shape == (groups, len(likelihood.theta))
    first = quadratic_term(slopes, point.mode, point.excess)
    size = np.abs(dK).sum(axis=(1, 2)).max() * np.abs(a).max() ** 2
    rest = -0.5 * np.einsum("ij,kij->k", R, dK) - trace
    tolerances.assert_within(first, 0.5 * np.einsum("i,kij,j->k", a, dK, a) + rest, 1e-7 * size)
    assert_unbiased(seen["trace"], trace)
    assert_unbiased(seen["implicit"], np.einsum("i,kij,j->k", s, dK, a))


def test_error_falls_like_one_over_the_root_of_the_probes():
    exact = laplace(model(Bernoulli()), observed(Bernoulli(), N), tolerance=SHARP)
    few, many = (
        np.sqrt(np.mean([(e.gradient - exact.gradient) ** 2 for e in draws(Bernoulli(), "nystrom", {"rank": 40}, p)]))
        for p in (Probing(2, 2), Probing(32, 2))
    )
    # Four times smaller; two sample deviations of two dozen draws each are known to a fifth.
    assert 2.5 < few / many < 6.5


def test_known_diagonals_take_most_of_the_error_away():
    """What preconditioners tell of the diagonal of their inverse makes normal probes as good as signs for it."""

    class Hidden:
        """A preconditioner that tells less."""

        def __init__(self, P):
            self.P, self.exact, self.rank = P, P.exact, P.rank
            self.solve, self.logdet, self.sample = P.solve, P.logdet, P.sample

    data, m = observed(Bernoulli(), N), model(Bernoulli())
    exact, errors = laplace(m, data, tolerance=SHARP), {}
    for hidden in (False, True):
        found = []
        for k in range(12):
            system = Solving(data.gram(m), "rpcholesky", 60)
            B = system.at(exact.mode.local.root)
            if hidden:
                system.built[:] = [(system.built[0][0], Hidden(B.precond))]
            rng = np.random.default_rng([3, k])
            settings = {"rtol": 1e-8, "probing": Probing(8, 4), "rng": rng, "start": exact.mode.a, "tolerance": 1e-14}
            found.append(estimate(m, data, system, **settings).gradient - exact.gradient)
        errors[hidden] = np.sqrt(np.mean(np.square(found)))
    assert errors[False] < errors[True] / 2
