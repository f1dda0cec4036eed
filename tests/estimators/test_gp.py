"""GPRegressor: scikit-learn's rules and answers, its own ways, and data that are hard."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

from precog import RBF, GPRegressor, LogNormal, Pairwise, White
from precog.inference import posterior

KERNEL = 1.3 * RBF([0.5, 1.0, 2.0])
THEIRS = sk.ConstantKernel(1.3) * sk.RBF([0.5, 1.0, 2.0])


@parametrize_with_checks([GPRegressor()])
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 3))
    y = 5.0 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(150)
    return X, y, rng.standard_normal((40, 3))


def kept(kernel=KERNEL, noise=0.05, **settings):
    """Return an estimator that learns nothing."""
    return GPRegressor(kernel, noise=noise, optimizer=None, random_state=0, **settings)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_agrees_with_scikit_learn_at_fixed_hyperparameters(data, normalize, outputs):
    X, y, Z = data
    y = y if outputs == 1 else np.stack([y, 3.0 * X[:, 2]], axis=1)
    ours = kept(normalize_y=normalize, solver="cholesky", noise_bounds="fixed").fit(X, y)
    theirs = GaussianProcessRegressor(THEIRS, alpha=0.05, optimizer=None, normalize_y=normalize).fit(X, y)
    assert ours.solver_ == "Cholesky"
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    for flag in ("return_std", "return_cov"):
        for mine, expected in zip(ours.predict(Z, **{flag: True}), theirs.predict(Z, **{flag: True}), strict=True):
            assert mine.shape == expected.shape
            assert np.allclose(mine, expected, rtol=1e-6, atol=1e-6)


def test_understands_white_kernels(data):
    X, y, Z = data
    ours = GPRegressor(THEIRS + sk.WhiteKernel(0.05), optimizer=None).fit(X, y)
    theirs = GaussianProcessRegressor(THEIRS + sk.WhiteKernel(0.05), optimizer=None, normalize_y=True).fit(X, y)
    assert ours.noise_ == 0.05
    assert np.allclose(ours.predict(Z, return_std=True)[1], theirs.predict(Z, return_std=True)[1], rtol=1e-6)
    without = ours.predict(Z, return_std=True, include_noise=False)[1]
    assert np.allclose(without**2 + 0.05 * np.var(y), ours.predict(Z, return_std=True)[1] ** 2)
    with pytest.raises(ValueError, match="leave one of them out"):
        GPRegressor(KERNEL + White(0.1), noise=0.1).fit(X, y)


def test_learns_what_scikit_learn_learns(data):
    X, y, _ = data
    ours = GPRegressor(random_state=0).fit(X, y)
    kernel = 1.0 * sk.RBF([1.0] * 3) + sk.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    assert ours.converged_
    # The likelihood goes on rising, ever more slowly, in a length scale that the data do not need.
    assert ours.log_marginal_likelihood_value_ > theirs.log_marginal_likelihood_value_ - 0.1
    assert len(ours.history_) == ours.n_iter_


@pytest.fixture(scope="module")
def iterated():
    """The same fixed model, exact and by conjugate gradients."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((350, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(350)
    return X, y, rng.standard_normal((60, 3)), kept().fit(X, y), kept(solver="pcg", variance="solve").fit(X, y)


def test_conjugate_gradients_agree_with_the_dense_factor(iterated):
    _, _, Z, exact, ours = iterated
    assert "conjugate gradients" in ours.solver_
    assert ours.products_ > 0
    mean, std = exact.predict(Z, return_std=True)
    mine, deviation = ours.predict(Z, return_std=True)
    assert np.allclose(mine, mean, atol=1e-4)
    # One hundredth of a variance is its promise, on one side.
    assert (deviation >= std * (1 - 1e-6)).all()
    assert (deviation <= std * 1.01).all()
    assert ours.variance_error_ <= 2 * posterior.SHARE
    assert np.allclose(ours.predict(Z, return_cov=True)[1], exact.predict(Z, return_cov=True)[1], atol=1e-4)
    error = abs(ours.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_)
    assert ours.log_marginal_likelihood_se_ > 0
    assert error < 5 * ours.log_marginal_likelihood_se_
    assert ours.log_marginal_likelihood_bound_ < exact.log_marginal_likelihood_value_


def test_a_row_does_not_depend_on_its_neighbours(iterated):
    _, _, Z, exact, ours = iterated
    for model in (exact, ours):
        std = model.predict(Z, return_std=True)[1]
        for i in (0, 17):
            assert model.predict(Z[i : i + 1], return_std=True)[1][0] == pytest.approx(std[i], rel=1e-6)


def test_weights_are_repeated_rows(data):
    X, y, Z = data
    weights = np.arange(150) % 3
    learnt = [
        GPRegressor(mean="linear").fit(X, y, sample_weight=weights),
        GPRegressor(mean="linear").fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)),
    ]
    assert len(learnt[1].X_train_) == (weights > 0).sum()
    assert learnt[0].log_marginal_likelihood_value_ == pytest.approx(learnt[1].log_marginal_likelihood_value_)
    assert np.allclose(learnt[0].predict(Z), learnt[1].predict(Z), atol=1e-6)


def test_leave_one_out_is_leaving_one_out(data):
    X, y, _ = data
    X, y = np.vstack([X, X[:20]]), np.append(y, y[:20] + 0.1)
    model = kept(normalize_y=False, mean="constant").fit(X, y)
    means, deviations = model.leave_one_out()
    for row in (3, 77, 153):
        others = kept(normalize_y=False, mean="constant").fit(np.delete(X, row, axis=0), np.delete(y, row))
        mean, std = others.predict(X[row : row + 1], return_std=True, include_noise=True)
        assert means[row] == pytest.approx(mean[0], abs=1e-8)
        assert deviations[row] == pytest.approx(std[0], rel=1e-8)


@pytest.mark.parametrize("rows", [40, 1200])
def test_samples_have_the_posterior_moments(data, rows):
    X, y, _ = data
    Z = np.random.default_rng(5).standard_normal((rows, 3))
    model = kept().fit(X, y)
    mean, std = model.predict(Z, return_std=True)
    samples = model.sample_y(Z, 400, random_state=1)
    assert samples.shape == (rows, 400)
    # Of the standard error, and of the error of 1,000 random frequencies, which is of the prior's size over √1000.
    allowed = 5 * std / np.sqrt(400) + (0 if rows == 40 else 0.05 * np.std(y))
    assert (np.abs(samples.mean(axis=1) - mean) < allowed).mean() > 0.99
    ratio = samples.std(axis=1) / std
    assert np.abs(ratio - 1).mean() < 0.1


def test_known_noise_of_rows(data):
    X, y, Z = data
    noise = np.linspace(0.01, 0.3, 150)
    ours = kept(noise=None, normalize_y=False).fit(X, y, noise=noise)
    theirs = GaussianProcessRegressor(THEIRS, alpha=noise, optimizer=None).fit(X, y)
    assert np.allclose(ours.predict(Z), theirs.predict(Z), rtol=1e-6)
    with pytest.raises(ValueError, match=r"noise\[3\]"):
        kept().fit(X, y, noise=np.where(np.arange(150) == 3, 0.0, 1.0))


def test_priors_hold_hyperparameters(data):
    X, y, _ = data
    free = GPRegressor(KERNEL).fit(X, y)
    held = GPRegressor(KERNEL, priors={"noise": LogNormal(1.0, 0.01)}).fit(X, y)
    assert free.noise_ < 0.1
    assert held.noise_ == pytest.approx(1.0, rel=0.1)
    with pytest.raises(ValueError, match="no free hyperparameter 'colour'"):
        GPRegressor(KERNEL, priors={"colour": LogNormal(1.0, 1.0)}).fit(X, y)


@pytest.mark.parametrize("solver", ["cholesky", "pcg", "cg"])
def test_published_recipe(data, solver):
    X, y, Z = data
    model = GPRegressor(recipe="cutajar2016", solver=solver, max_iter=25, random_state=0).fit(X, y)
    assert ("AdaGrad, 25 steps" in model.solver_) == (solver != "cholesky")
    assert (model.preconditioner_ == "none") == (solver != "pcg")
    assert np.corrcoef(model.predict(Z), np.sin(2 * Z[:, 0]) + Z[:, 1])[0, 1] > 0.95


def test_stochastic_learning_reaches_the_exact_optimum(data):
    X, y, Z = data
    exact = GPRegressor(random_state=0).fit(X, y)
    ours = GPRegressor(solver="pcg", random_state=0, noise_bounds=(1e-4, 1.0)).fit(X, y)
    assert any(row["stage"] == "stochastic" for row in ours.history_)
    reached = exact.log_marginal_likelihood(ours.theta_)
    assert reached > exact.log_marginal_likelihood_value_ - 1.0
    assert np.allclose(ours.predict(Z), exact.predict(Z), atol=0.1)


def test_interrupted_fits_keep_the_best_point(data, monkeypatch):
    X, y, Z = data
    calls = []

    def interrupt(self, row):
        calls.append(row)
        if len(calls) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr("precog.estimators.progress.Reporter.__call__", interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = GPRegressor(random_state=0).fit(X, y)
    assert not model.converged_
    assert model.log_marginal_likelihood_value_ == pytest.approx(max(row["value"] for row in calls[:5]))
    assert np.isfinite(model.predict(Z)).all()


class Listener:
    """A callback of scikit-learn that counts, and asks for an end after some evaluations."""

    def __init__(self, last=None):
        self.last, self.heard, self.open = last, [], 0

    def setup(self, estimator, context):
        self.open += 1

    def teardown(self, estimator, context):
        self.open -= 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X):
        self.heard.append((context.task_name, X.shape))
        return self.last is not None and len(self.heard) >= self.last


def test_callbacks_of_scikit_learn(data):
    pytest.importorskip("sklearn.callback", reason="this version of scikit-learn has no callbacks")
    X, y, Z = data
    listener = Listener()
    model = GPRegressor(KERNEL, random_state=0).set_callbacks(listener).fit(X, y)
    assert [name for name, _ in listener.heard] == ["exact"] * model.n_iter_ + ["fit"]
    assert all(shape == X.shape for _, shape in listener.heard)
    assert listener.open == 0
    stopping = Listener(last=3)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        stopped = GPRegressor(KERNEL, random_state=0).set_callbacks(stopping).fit(X, y)
    assert stopped.n_iter_ == 3
    assert np.isfinite(stopped.predict(Z)).all()


def test_clones_pickles_and_starts_warm(data):
    X, y, Z = data
    model = GPRegressor(KERNEL, warm_start=True, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(Z, return_std=True)[1], model.predict(Z, return_std=True)[1])
    assert clone(model).kernel == KERNEL
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first


def test_plan_and_reports(data, capsys):
    X, y, _ = data
    assert "dense Cholesky" in str(GPRegressor().plan(X))
    assert "conjugate gradients" in str(GPRegressor(solver="pcg").plan(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        GPRegressor(KERNEL, verbose=True, max_iter=3).fit(X, y)
    assert "log likelihood" in capsys.readouterr().out


def test_objects():
    words = ["tree", "trees", "three", "bee", "been", "bean"]
    shared = Pairwise(lambda a, b: float(len(set(a) & set(b))))
    model = GPRegressor(shared, noise=0.5, optimizer=None).fit(words, [len(w) for w in words])
    assert model.predict(["trees"])[0] > model.predict(["bee"])[0]


class TestHardData:
    """A right answer or a clear error, never NaN."""

    def fitted(self, X, y, **settings):
        model = GPRegressor(random_state=0, **settings).fit(X, y)
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert (std >= 0).all()
        return model, mean

    def test_duplicated_rows(self, data):
        X, y, _ = data
        model, mean = self.fitted(np.vstack([X, X]), np.append(y, y + 0.01))
        assert len(model.X_train_) == 150
        assert np.abs(mean[:150] - y).mean() < 0.2

    def test_constant_columns(self, data):
        X, y, _ = data
        _, mean = self.fitted(np.hstack([X, np.ones((150, 1))]), y)
        assert np.abs(mean - y).mean() < 0.2

    def test_constant_targets(self, data):
        _, mean = self.fitted(data[0], np.full(150, 7.0))
        assert np.allclose(mean, 7.0)

    def test_two_points(self):
        _, mean = self.fitted(np.array([[0.0], [1.0]]), np.array([1.0, 2.0]))
        assert mean[0] < mean[1]

    def test_columns_far_apart(self, data):
        X, y, _ = data
        X = X * np.array([1e6, 1.0, 1e-3])
        with pytest.warns(UserWarning, match=r"columns 2 and 0 of X differ in scale"):
            kept(RBF(1.0)).fit(X, y)
        _, mean = self.fitted(X, y)
        assert np.abs(mean - y).mean() < 0.2

    def test_no_noise(self, data):
        X = data[0]
        y = np.sin(X[:, 0])
        _, mean = self.fitted(X, y)
        assert np.abs(mean - y).max() < 0.02

    def test_large_offset_and_scale(self, data):
        X, y, Z = data
        plain = GPRegressor(random_state=0).fit(X, y)
        for offset, scale in ((1e9, 1.0), (0.0, 1e12), (-1e9, 1e-2)):
            model, _ = self.fitted(X, offset + scale * y)
            moved = (model.predict(Z) - offset) / scale
            # The offset has taken its digits from y before it arrived here.
            assert np.allclose(moved, plain.predict(Z), atol=1e-5 + 1e3 * abs(offset) * 1e-16 / scale)

    def test_outliers(self, data):
        X, y, _ = data
        y = y.copy()
        y[3] = 1e6
        self.fitted(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean": "quadratic"}, "mean must be one of"),
        ({"solver": "lu"}, "solver must be one of"),
        ({"optimizer": "magic"}, "optimizer must be one of"),
        ({"recipe": "grandmother"}, "recipe must be one of"),
        ({"preconditioner": "none"}, "preconditioner must be one of"),
        ({"noise": -1.0}, "noise must be finite"),
        ({"noise_bounds": (2.0, 1.0)}, "noise_bounds"),
        ({"max_memory": 0}, "max_memory must be"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"kernel": White(0.1)}, "nothing but White"),
        ({"kernel": RBF([1.0, 2.0])}, "2 length scales for 3 columns of X"),
        ({"kernel": "rbf"}, "expected a precog kernel"),
    ],
)
def test_refuses(data, settings, message):
    X, y, _ = data
    with pytest.raises((TypeError, ValueError), match=message):
        GPRegressor(**settings).fit(X, y)


def test_memory_is_guarded(data):
    X, y, _ = data
    model = kept(max_memory=1e6).fit(X, y)
    with pytest.raises(MemoryError, match="raise max_memory"):
        model.predict(np.zeros((400, 3)), return_cov=True)
