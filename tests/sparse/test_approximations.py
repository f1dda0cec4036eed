"""Sparse likelihoods and their derivatives against the formulas written out, and posteriors that cannot go wrong."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.stats

import problems
import tolerances
from precog import RBF, Linear, Matern32, Pairwise, Periodic, White
from precog.inference import Model, Targets, marginal
from precog.sparse import APPROXIMATIONS, DTC, FITC, PITC, SOR, VFE, Inducing, System, evaluation, gather
from precog.sparse.gather import Normal, Orthogonal
from precog.sparse.parts import Diagonal

N, M = 90, 15
BOUNDS = (1e-6, 1e2)
X = problems.normal(N, 3, seed=1)
Y = np.stack([problems.noisy_values(X), X[:, 1] ** 2], axis=1)
BLOCKS = np.array_split(np.random.default_rng(0).permutation(N), 7)
ROWS = np.random.default_rng(1).choice(N, M, replace=False)
KERNELS = [
    1.3 * RBF([0.7, 1.0, 2.0]) + 0.2 * Linear(),
    0.8 * Matern32(1.2) * Periodic(1.1, 2.0) + 0.3 * White(0.5),
]
ALL = list(APPROXIMATIONS.values())
WEIGHTS = {"weights": np.arange(N) % 3 + 0.5}
EXTRAS = [{}, WEIGHTS, WEIGHTS | {"known": np.linspace(0.01, 0.2, N)}]
every_approximation = pytest.mark.parametrize("how", ALL, ids=[how.name for how in ALL])


def targets(outputs=2, **more):
    return Targets(X, Y[:, :outputs], np.zeros((N, 0)), **more)


def places(own):
    """Return inducing inputs among the rows, or at places of their own."""
    return Inducing(X[ROWS] + 0.1) if own else Inducing.of(X, ROWS)


def matrices(model, data, inducing, jitter):
    """Return K and Q, written out."""
    K = model.kernel(data.X)
    if inducing.rows is None:
        KNM, KMM = model.kernel(data.X, inducing.Z), model.kernel(inducing.Z)
    else:
        KNM, KMM = K[:, inducing.rows], K[np.ix_(inducing.rows, inducing.rows)].copy()
    KMM = KMM + jitter * np.diag(np.diagonal(KMM))
    return K, KNM @ np.linalg.solve(KMM, KNM.T)


def written_out(how, model, data, inducing, jitter=1e-10):
    K, Q = matrices(model, data, inducing, jitter)
    D = np.broadcast_to(data.noise(model), data.n)
    rest = np.zeros_like(K)
    if how is FITC:
        rest = np.diag(np.diagonal(K - Q))
    if how is PITC:
        for rows in BLOCKS:
            rest[np.ix_(rows, rows)] = (K - Q)[np.ix_(rows, rows)]
    A = Q + rest + np.diag(D)
    value = sum(scipy.stats.multivariate_normal(np.zeros(data.n), A).logpdf(y) for y in data.Y.T)
    if how is VFE:
        value -= 0.5 * data.Y.shape[1] * float(np.sum(np.diagonal(K - Q) / D))
    return value + data.repeats(model)[0]


def system(how, model, data, inducing, **more):
    return System(how, model, data, inducing, blocks=BLOCKS, **more)


@every_approximation
@pytest.mark.parametrize("own", [False, True], ids=["rows", "own places"])
@pytest.mark.parametrize("extra", EXTRAS, ids=["plain", "weights", "known"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_value_and_derivatives(how, own, extra, kernel):
    model, data, inducing = Model(kernel, 0.05, BOUNDS), targets(**extra), places(own)
    found = evaluation(system(how, model, data, inducing), moved=own)
    assert found.value == pytest.approx(written_out(how, model, data, inducing), rel=1e-8)

    def change(theta_step, Z_step):
        ends = [
            system(
                how,
                model.with_theta(model.theta + sign * theta_step),
                data,
                Inducing(inducing.Z + sign * Z_step, inducing.rows),
            ).value()
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / (2 * tolerances.STEP)

    size = 2 * (float(np.vdot(data.Y, data.Y)) / 0.05 + 10 * N)
    steps = tolerances.STEP * np.eye(len(model.theta))
    expected = [change(step, 0.0) for step in steps]
    tolerances.assert_within(found.gradient, np.array(expected), tolerances.difference(size))
    if own:
        for place in ((0, 0), (3, 1), (7, 2)):
            step = np.zeros_like(inducing.Z)
            step[place] = tolerances.STEP
            assert found.inputs[place] == pytest.approx(change(0.0, step), abs=tolerances.difference(size))


@every_approximation
def test_without_jitter_at_well_separated_places(how):
    model, data = Model(1.0 * RBF(0.3), 0.05, BOUNDS), targets()
    found = system(how, model, data, places(own=False), jitter=0.0).value()
    assert found == pytest.approx(written_out(how, model, data, places(own=False), 0.0), rel=1e-8)


@every_approximation
def test_all_rows_as_inducing_inputs_are_exact(how):
    """Q is K then, and nothing is left of K for any of them to treat in its own way."""
    model, data = Model(1.3 * RBF(0.5), 0.05, BOUNDS), targets()
    found = evaluation(system(how, model, data, Inducing.of(X, np.arange(N))))
    exact = marginal(model, data)
    assert found.value == pytest.approx(exact.value, abs=1e-5)
    assert np.allclose(found.gradient, exact.gradient, rtol=1e-5, atol=1e-4)


def test_the_bound_is_one():
    for kernel in KERNELS:
        for noise in (1e-4, 1e-2, 1.0):
            model = Model(kernel, noise, BOUNDS)
            for m in (1, 5, 40, N):
                bound = System(VFE, model, targets(), Inducing.of(X, np.arange(m))).value()
                assert bound <= marginal(model, targets(), gradient=False).value + 1e-5 / noise


@every_approximation
def test_streamed_and_kept_are_the_same(how, monkeypatch):
    monkeypatch.setattr("precog.sparse.inducing.STRIPE", 200)
    model, data = Model(KERNELS[0], 0.05, BOUNDS), targets(**EXTRAS[2])
    whole = evaluation(system(how, model, data, places(own=True)), moved=True)
    streamed = evaluation(system(how, model, data, places(own=True), max_memory=0.0), moved=True)
    assert len(streamed.system.F.stripes) > 5
    assert streamed.system.F.kept is None
    assert streamed.value == pytest.approx(whole.value, rel=1e-12)
    assert np.allclose(streamed.gradient, whole.gradient, rtol=1e-10)
    assert np.allclose(streamed.inputs, whole.inputs, rtol=1e-9, atol=1e-9)


def test_both_ways_to_the_factor_agree():
    F, y = np.asfortranarray(problems.normal(6, 40)), problems.normal(2, 40)
    for part in (Diagonal(np.full(40, 0.3)), Diagonal(np.linspace(0.1, 2.0, 40))):
        solved = []
        for kind in (Normal, Orthogonal):
            gatherer = kind(6, 2)
            for rows in (slice(0, 3), slice(3, 40)):
                gatherer.add(np.asfortranarray(F[:, rows]), y[:, rows], Diagonal(part.values[rows]))
            solved.append(gatherer.solved())
        first, second = solved
        assert np.allclose(first.W, second.W, rtol=1e-12)
        assert np.allclose(first.rest, second.rest, rtol=1e-12)
        assert first.logdet() == pytest.approx(second.logdet(), rel=1e-13)
        assert first.size == pytest.approx(second.size, rel=1e-13)
        psi = part.whiten(F)
        assert np.allclose(first.R.T @ first.R, np.eye(6) + psi @ psi.T)


@pytest.mark.parametrize("noise", [1e-8, 1e-11])
def test_noise_so_small_that_squares_would_lose_it(noise, monkeypatch):
    """Data that Q explains to 1e-5: by squares the rest is a difference of numbers 1e10 times as large."""
    kernel, J = 1.0 * RBF(0.5), np.arange(12)
    F = Inducing.of(X, J).factor(kernel)
    mean = np.linalg.solve(F, kernel(X[J], X)).T @ problems.normal(12, 1)
    data = Targets(X, mean + np.sqrt(noise) * problems.normal(N, 1, seed=9), np.zeros((N, 0)))
    model = Model(kernel, noise, (1e-12, 1.0))
    found = evaluation(System(DTC, model, data, Inducing.of(X, J)))
    assert found.system.solved.size > gather.LARGEST
    psi = np.linalg.solve(F, kernel(X[J], X)).T / np.sqrt(noise)
    stacked = np.vstack([psi, np.eye(12)])
    Q, R = np.linalg.qr(stacked)
    y = np.append(data.Y[:, 0] / np.sqrt(noise), np.zeros(12))
    rest = float(np.sum((y - Q @ (Q.T @ y)) ** 2))
    logdet = 2 * np.log(np.abs(np.diagonal(R))).sum() + N * np.log(2 * np.pi * noise)
    assert found.value == pytest.approx(-0.5 * (rest + logdet), rel=1e-7)
    assert rest < 3 * N


@every_approximation
def test_posterior_is_the_formula(how):
    model, data, inducing = Model(KERNELS[0], 0.05, BOUNDS), targets(), places(own=True)
    Z = problems.normal(25, 3, seed=7)
    K, Q = matrices(model, data, inducing, 1e-10)
    rest = {"fitc": np.diag(np.diagonal(K - Q)), "pitc": np.zeros_like(K)}.get(how.name, np.zeros_like(K))
    if how is PITC:
        for rows in BLOCKS:
            rest[np.ix_(rows, rows)] = (K - Q)[np.ix_(rows, rows)]
    A = Q + rest + 0.05 * np.eye(N)
    KMM = model.kernel(inducing.Z)
    solved = np.linalg.solve(KMM, model.kernel(inducing.Z, X))
    cross = model.kernel(Z, inducing.Z) @ solved
    own = model.kernel(Z, inducing.Z) @ np.linalg.solve(KMM, model.kernel(inducing.Z, Z))
    prior = own if how is SOR else model.kernel(Z)
    posterior = system(how, model, data, inducing).posterior()
    covariance = prior - cross @ np.linalg.solve(A, cross.T)
    assert np.allclose(posterior.mean(Z), cross @ np.linalg.solve(A, data.Y), atol=1e-7)
    assert np.allclose(posterior.covariance(Z), covariance, atol=1e-7)
    assert np.allclose(posterior.variance(Z), np.diagonal(covariance), atol=1e-7)


@every_approximation
@pytest.mark.parametrize("noise", [1e-10, 1e-4, 1.0])
def test_variances_are_never_negative(how, noise):
    """At the data, at inducing inputs, and where they repeat each other."""
    Z = np.concatenate([X[:5], X[:5], X[:5] + 1e-9])
    model = Model(1.0 * RBF(3.0), noise, (1e-12, 1.0))
    found = evaluation(system(how, model, targets(), Inducing(Z)), moved=True)
    assert np.isfinite(found.gradient).all()
    assert np.isfinite(found.inputs).all()
    posterior = found.system.posterior()
    for places in (X, Z, X + 1e-12, 1e3 * X):
        assert (posterior.variance(places) >= 0).all()


def test_one_inducing_input_and_one_row():
    for how in ALL:
        single = Targets(X[:1], Y[:1], np.zeros((1, 0)))
        found = evaluation(System(how, Model(1.0 * RBF(), 0.1, BOUNDS), single, Inducing(X[:1]), blocks=[np.arange(1)]))
        expected = marginal(Model(1.0 * RBF(), 0.1, BOUNDS), single)
        assert found.value == pytest.approx(expected.value, abs=1e-8)
        assert np.allclose(found.gradient, expected.gradient, atol=1e-8)


def test_more_inducing_inputs_than_rows():
    Z = problems.normal(40, 3, seed=8)
    few = Targets(X[:10], Y[:10], np.zeros((10, 0)))
    model = Model(1.0 * RBF(), 0.1, BOUNDS)
    value = System(VFE, model, few, Inducing(np.concatenate([X[:10], Z]))).value()
    assert value == pytest.approx(marginal(model, few, gradient=False).value, abs=1e-6)


def test_objects_as_inducing_inputs():
    words = [w + str(i % 4) for i, w in enumerate(["kernel", "kennel", "colonel", "corner", "current", "kettle"] * 5)]
    kernel = 0.7 * Pairwise(shared_letters) + 0.1
    data = Targets(words, problems.normal(30, 1), np.zeros((30, 0)))
    model, inducing = Model(kernel, 0.3, BOUNDS), Inducing.of(words, [0, 5, 9])
    found = evaluation(System(VFE, model, data, inducing))
    assert found.value == pytest.approx(written_out(VFE, model, data, inducing), rel=1e-8)
    assert (System(FITC, model, data, inducing).posterior().variance(["new", "words"]) >= 0).all()


def shared_letters(a, b):
    return float(len(set(a) & set(b)))


def test_matrices_that_are_not_positive_semidefinite_are_named():
    """|i - j| is a distance: conditional variances fall below zero."""
    kernel = 1.0 * Pairwise(apart)
    data = Targets(list(range(8)), problems.normal(8, 1), np.zeros((8, 0)))
    for rows in ([0, 7], [3]):
        with pytest.raises(ArithmeticError, match=r"Pairwise\(function=apart\) is not positive semidefinite"):
            evaluation(System(VFE, Model(kernel, 0.1, BOUNDS), data, Inducing.of(data.X, rows)))


def apart(a, b):
    return 1.0 + abs(a - b)


def test_what_is_missing_is_said():
    model = Model(1.0 * RBF(), 0.1, BOUNDS)
    with pytest.raises(ValueError, match="pitc needs blocks"):
        System(PITC, model, targets(), places(own=True))
    with pytest.raises(ValueError, match="each of the 90 rows once"):
        System(PITC, model, targets(), places(own=True), blocks=[np.arange(5)])
    with pytest.raises(ValueError, match="positive noise"):
        System(VFE, Model(1.0 * RBF(), 0.0, None), targets(), places(own=True))


def test_memory_does_not_grow_with_the_rows(monkeypatch):
    """Streamed, what is held is a few stripes, far from the n m numbers of K_NM."""
    monkeypatch.setattr("precog.sparse.inducing.STRIPE", 10_000)
    n, m = 20_000, 50
    Z = problems.normal(n, 1)
    data, model = Targets(Z, np.sin(Z), np.zeros((n, 0))), Model(1.0 * RBF(), 0.1, BOUNDS)
    peaks = []
    for memory in (0.0, 1e9):
        tracemalloc.start()
        evaluation(System(VFE, model, data, Inducing.of(Z, np.arange(m)), max_memory=memory))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] > 8 * n * m
    assert peaks[0] < 0.5 * 8 * n * m
