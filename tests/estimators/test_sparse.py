"""SparseGPRegressor: scikit-learn's rules, every way to inducing inputs, objects, and data that are hard."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import GenericKernelMixin
from sklearn.utils.estimator_checks import parametrize_with_checks

from precog import (
    RBF,
    GPRegressor,
    Graph,
    HistogramIntersection,
    Linear,
    Pairwise,
    Precomputed,
    ShortestPath,
    SparseGPRegressor,
    Spectrum,
    WeisfeilerLehman,
    White,
    weighted_sum,
)
from precog.estimators.sparse import SELECTIONS
from precog.sparse import APPROXIMATIONS

KERNEL = 1.3 * RBF([0.5, 1.0, 2.0])


# Few inducing inputs and rounds, so that all checks together take seconds.
@parametrize_with_checks([SparseGPRegressor(n_inducing=6, max_rounds=2, tol=10.0)])
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 3))
    y = 5.0 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(150)
    return X, y, rng.standard_normal((40, 3))


def fitted(X, y, **settings):
    settings = {"n_inducing": 15, "random_state": 0, "max_rounds": 3} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SparseGPRegressor(**settings).fit(X, y)


@pytest.mark.parametrize("method", APPROXIMATIONS)
def test_all_rows_are_the_exact_process(data, method):
    """SoR apart: its variance is that of functions spanned by the inducing inputs, which here are all there is."""
    X, y, Z = data
    exact = GPRegressor(KERNEL, noise=0.05, optimizer=None).fit(X, y)
    ours = fitted(X, y, kernel=KERNEL, noise=0.05, optimizer=None, method=method, inducing=X)
    mean, std = ours.predict(Z, return_std=True)
    assert np.allclose(mean, exact.predict(Z), atol=1e-5)
    assert np.allclose(ours.predict(X, return_std=True)[1], exact.predict(X, return_std=True)[1], atol=1e-5)
    if method != "sor":
        assert np.allclose(std, exact.predict(Z, return_std=True)[1], atol=1e-5)
        assert np.allclose(ours.predict(Z, return_cov=True)[1], exact.predict(Z, return_cov=True)[1], atol=1e-5)
    assert ours.objective_value_ == pytest.approx(exact.log_marginal_likelihood_value_, abs=1e-4)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_selection_learns(data, selection):
    X, y, Z = data
    model = fitted(X, y, selection=selection)
    assert model.score(X, y) > 0.9
    assert model.inducing_inputs_.shape == (15, 3)
    if selection in ("kmeans", "gradient"):
        assert model.inducing_indices_ is None
    else:
        assert np.array_equal(X[model.inducing_indices_], model.inducing_inputs_)
    assert model.objective_history_[-1] == model.objective_value_
    assert model.n_iter_ == len(model.history_) > 0
    assert selection in model.selection_.lower()
    assert (np.diff(model.objective_history_) >= -1e-9 * abs(model.objective_value_)).all()
    assert np.corrcoef(model.predict(Z), np.sin(2 * Z[:, 0]) + Z[:, 1])[0, 1] > 0.9


@pytest.mark.parametrize("method", APPROXIMATIONS)
def test_every_method_learns(data, method):
    X, y, _ = data
    model = fitted(X, y, method=method, max_iter=10)
    assert model.score(X, y) > 0.9
    mean, std = model.predict(X, return_std=True, include_noise=True)
    assert (np.abs(mean - y) < 2 * std).mean() > 0.85


def test_moving_inducing_inputs_gains(data):
    X, y, _ = data
    ours = fitted(X, y)
    refined = fitted(X, y, refine=True)
    assert refined.inducing_indices_ is None
    assert refined.objective_value_ > ours.objective_value_
    assert "CholQR" in refined.selection_
    assert "gradient" in refined.selection_


def test_given_inducing_inputs_stay(data):
    X, y, _ = data
    Z = X[:7] + 0.1
    model = fitted(X, y, inducing=Z)
    assert np.array_equal(model.inducing_inputs_, Z)
    assert model.inducing_indices_ is None
    with pytest.raises(ValueError, match="inducing has 2 columns where X has 3"):
        fitted(X, y, inducing=Z[:, :2])


def test_outputs_and_shapes(data):
    X, y, Z = data
    model = fitted(X, np.stack([y, X[:, 2]], axis=1))
    mean, std = model.predict(Z, return_std=True)
    assert mean.shape == std.shape == (40, 2)
    assert model.predict(Z, return_cov=True)[1].shape == (40, 40, 2)
    assert model.sample_y(Z, 5).shape == (40, 2, 5)
    assert fitted(X, y).sample_y(Z, 5).shape == (40, 5)
    with pytest.raises(ValueError, match="cannot both be set"):
        model.predict(Z, return_std=True, return_cov=True)


def test_samples_have_the_posterior_moments(data):
    X, y, Z = data
    model = fitted(X, y)
    mean, std = model.predict(Z, return_std=True)
    samples = model.sample_y(Z, 2000, random_state=1)
    assert (np.abs(samples.mean(axis=1) - mean) < 5 * std / np.sqrt(2000)).all()
    assert (np.abs(samples.std(axis=1) / std - 1) < 5 / np.sqrt(2 * 2000)).all()


def test_noise_in_predictions(data):
    X, y, Z = data
    model = fitted(X, y, kernel=KERNEL + White(0.1))
    with_noise = model.predict(Z, return_std=True)[1]
    without = model.predict(Z, return_std=True, include_noise=False)[1]
    assert np.allclose(with_noise**2 - without**2, model.noise_ * np.var(y))


def test_weights_are_repeated_rows(data):
    X, y, Z = data
    weights = np.arange(150) % 3
    settings = {"n_inducing": 10, "random_state": 0, "max_rounds": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = SparseGPRegressor(**settings).fit(X, y, sample_weight=weights)
        second = SparseGPRegressor(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert np.array_equal(first.predict(Z), second.predict(Z))
    assert first.objective_value_ == second.objective_value_
    assert (weights[first.inducing_indices_] > 0).all()
    assert np.array_equal(X[first.inducing_indices_], first.inducing_inputs_)


def test_clones_pickles_and_repeats(data):
    X, y, Z = data
    model = fitted(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(Z, return_std=True)[1], model.predict(Z, return_std=True)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.array_equal(clone(model).fit(X, y).predict(Z), model.predict(Z))


def test_predictions_need_the_inducing_inputs_only(data):
    X, y, _ = data
    big, small = (len(pickle.dumps(fitted(np.tile(X, (k, 1)) + 0.01 * k, np.tile(y, k)))) for k in (20, 1))
    assert big < 1.5 * small + 8 * 3 * 150


def test_reports_and_stops(data, capsys):
    X, y, _ = data
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        SparseGPRegressor(n_inducing=10, max_rounds=1, max_iter=1, verbose=True, random_state=0).fit(X, y)
    assert "SparseGPRegressor: " in capsys.readouterr().out
    with pytest.warns(ConvergenceWarning, match="time is up"):
        model = SparseGPRegressor(n_inducing=10, max_time=0.0, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_interrupted_fits_keep_the_best_point(data, monkeypatch):
    X, y, _ = data
    calls = []

    def interrupt(self, row):
        calls.append(row)
        if len(calls) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr("precog.estimators.progress.Reporter.__call__", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_histograms():
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(12), size=120)
    y = 3 * X[:, 0] - X[:, 3] + 0.01 * rng.standard_normal(120)
    model = fitted(X, y, kernel=1.0 * HistogramIntersection())
    assert model.score(X, y) > 0.8


WORDS = ["".join(letters) for letters in np.random.default_rng(0).choice(list("abcd"), (120, 6))]
VOWELS = np.array([word.count("a") + 0.5 * word.count("ab") for word in WORDS])


def shared(a, b):
    return float(sum(x == y for x, y in zip(a, b, strict=True)))


@pytest.mark.parametrize(
    "kernel", [1.0 * Spectrum(length=1) + 0.5 * Spectrum(length=2), 0.2 * Pairwise(shared)], ids=str
)
@pytest.mark.parametrize("selection", ["cholqr", "random", "greedy", "rpcholesky", "ivm"])
def test_strings(kernel, selection):
    model = fitted(WORDS, VOWELS, kernel=kernel, selection=selection, n_inducing=12)
    assert [WORDS[i] for i in model.inducing_indices_] == model.inducing_inputs_
    assert not hasattr(model, "n_features_in_")
    assert model.score(WORDS, VOWELS) > 0.3
    mean, std = model.predict(["aabbcc", "dddddd"], return_std=True)
    assert mean[0] > mean[1]
    assert (std >= 0).all()
    with pytest.raises(ValueError, match="120 objects, y 119 rows"):
        fitted(WORDS, VOWELS[:-1], kernel=kernel)


def test_columns_are_computed_once():
    calls = []

    def counted(a, b):
        calls.append((a, b))
        return shared(a, b)

    fitted(WORDS, VOWELS, kernel=1.0 * Pairwise(counted), n_inducing=5, information="random", n_information=4)
    # The diagonal and each column at most once, then the inducing words with each other for predictions.
    assert len(calls) <= 120 + 120 * 120 + 25
    calls.clear()
    fitted(WORDS, VOWELS, kernel=1.0 * Pairwise(counted), n_inducing=5, max_memory=0.0, max_rounds=1)
    assert len(calls) > 120 * 120


def test_graphs_with_learnt_weights():
    rng = np.random.default_rng(1)
    graphs, y = [], []
    for _ in range(60):
        n = int(rng.integers(1, 8))
        labels = rng.choice(list("CNO"), n)
        graphs.append(Graph([(int(rng.integers(i)), i) for i in range(1, n)], labels=labels))
        y.append(np.mean(labels == "O") + 0.05 * n)
    kernel = weighted_sum([ShortestPath(), WeisfeilerLehman()], total=True, identity=True)
    model = fitted(graphs, y, kernel=kernel, n_inducing=12)
    assert model.score(graphs, y) > 0.7
    assert all(isinstance(graph, Graph) for graph in model.inducing_inputs_)
    assert str(model.kernel_).count("ShortestPath") == 2
    assert model.theta_.shape == (5,)
    assert np.isfinite(model.predict([Graph([], labels="O")], return_std=True)[1]).all()


def test_the_identity_gives_way_as_more_is_explained():
    """Its weight falls from where it starts, while the objective only rises."""
    kernel = weighted_sum([Spectrum(length=1), Spectrum(length=2)], total=True, identity=True)
    model = fitted(WORDS, VOWELS, kernel=kernel, n_inducing=15, max_rounds=6)
    place = kernel.names.index("Constant#4.variance")
    assert model.theta_[place] < kernel.theta[place]
    assert (np.diff(model.objective_history_) >= -1e-9 * abs(model.objective_value_)).all()


class Shared(GenericKernelMixin, sk.Kernel):
    """A kernel on strings after scikit-learn's manner."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.factor * np.array([[shared(a, b) for b in (X if Y is None else Y)] for a in X])

    def diag(self, X):
        return self.factor * np.array([shared(a, a) for a in X])

    def is_stationary(self):
        return False


def test_objects_by_the_convention_of_scikit_learn():
    theirs = sk.ConstantKernel(0.2) * Shared() + sk.WhiteKernel(0.1)
    assert not theirs.requires_vector_input
    model = fitted(WORDS, VOWELS, kernel=theirs, n_inducing=10)
    ours = fitted(WORDS, VOWELS, kernel=0.2 * Pairwise(shared) + White(0.1), n_inducing=10)
    assert np.allclose(model.predict(WORDS), ours.predict(WORDS), atol=1e-6)
    assert not (0.2 * Spectrum()).requires_vector_input
    assert (1.0 * RBF()).requires_vector_input


def test_stored_matrices():
    F = np.random.default_rng(2).standard_normal((80, 6))
    kernel, rows = 1.0 * Precomputed(F @ F.T / 6), np.arange(80)
    model = fitted(rows[:60], F[:60, 0], kernel=kernel, n_inducing=8)
    assert model.score(rows[60:], F[60:, 0]) > 0.95


def apart(a, b):
    return 1.0 + abs(len(a) - len(b)) + 0.1 * (a == b)


def test_indefinite_kernels_are_shifted_only_if_asked():
    words = [w[: 1 + i % 6] + str(i) for i, w in enumerate(WORDS)]
    kernel, y = 1.0 * Pairwise(apart), [len(w) for w in words]
    with pytest.raises(ArithmeticError, match="not positive semidefinite"):
        fitted(words, y, kernel=kernel)
    model = fitted(words, y, kernel=kernel, shift="auto", optimizer=None)
    assert "White" in str(model.kernel_)
    assert np.linalg.eigvalsh(model.kernel_(words)).min() >= -1e-8
    assert fitted(WORDS, VOWELS, kernel=Spectrum(), shift="auto", optimizer=None).kernel_ == Spectrum()
    assert "0.5" in str(fitted(WORDS, VOWELS, kernel=Spectrum(), shift=0.5, optimizer=None).kernel_)


class TestHardData:
    """A right answer or a clear error, never NaN."""

    def finite(self, X, y, **settings):
        model = fitted(X, y, **settings)
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert (std >= 0).all()
        return model

    @pytest.mark.parametrize("m", [1, 100])
    def test_few_rows(self, m):
        for n in (1, 2, 5):
            X = np.random.default_rng(0).standard_normal((n, 2))
            assert len(self.finite(X, X[:, 0], n_inducing=m).inducing_inputs_) == min(m, n)

    def test_duplicated_rows(self, data):
        X, y, _ = data
        model = self.finite(np.repeat(X[:10], 4, axis=0), np.repeat(y[:10], 4), n_inducing=20)
        assert len(np.unique(model.inducing_inputs_, axis=0)) == len(model.inducing_inputs_) <= 10

    def test_rank_deficient_kernels(self, data):
        X, y, _ = data
        assert len(self.finite(X, y, kernel=1.0 * Linear()).inducing_inputs_) == 3

    def test_constant_targets_and_columns(self, data):
        X, _, _ = data
        self.finite(np.column_stack([X, np.full(150, 2.0)]), np.full(150, 3.0))

    def test_targets_far_from_zero(self, data):
        X, y, _ = data
        assert self.finite(X, 1e8 + y).score(X, 1e8 + y) > 0.9

    def test_missing_targets(self, data):
        X, y, _ = data
        with pytest.raises(ValueError, match="NaN"):
            fitted(X, np.where(np.arange(150) == 3, np.nan, y))
        with pytest.raises(ValueError, match="NaN"):
            fitted(WORDS, np.full(120, np.nan), kernel=Spectrum())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "laplace"}, "method must be one of"),
        ({"selection": "best"}, "selection must be one of"),
        ({"information": "good"}, "information must be one of"),
        ({"blocks": "rows"}, "blocks must be one of"),
        ({"optimizer": "adam"}, "optimizer must be one of"),
        ({"n_inducing": 0}, "n_inducing must be a whole number"),
        ({"n_information": 0.5}, "n_information must be a whole number"),
        ({"max_rounds": 0}, "max_rounds must be a whole number"),
        ({"max_time": -1.0}, "max_time must be finite and at least 0"),
        ({"shift": "much"}, "shift must be one of auto"),
        ({"shift": -1.0}, "shift must be finite"),
        ({"noise": 0.0}, "positive noise"),
    ],
)
def test_settings_without_sense(data, settings, message):
    X, y, _ = data
    with pytest.raises(ValueError, match=message):
        fitted(X, y, **settings)


def test_rules_for_vectors_say_so():
    for settings in ({"selection": "kmeans"}, {"selection": "gradient"}, {"refine": True}):
        with pytest.raises(TypeError, match="needs inputs that are vectors"):
            fitted(WORDS, VOWELS, kernel=Spectrum(), **settings)
