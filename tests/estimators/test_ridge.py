"""KernelRidge: scikit-learn's rules, and scikit-learn's answers where both can give one."""

import pickle

import numpy as np
import pytest
from sklearn import kernel_ridge
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from precog import RBF, KernelRidge, Matern52, Pairwise, Precomputed, White, from_sklearn
from precog.estimators import ridge


@parametrize_with_checks([KernelRidge()])
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 3))
    Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2], axis=1) + 0.1 * rng.standard_normal((400, 2))
    return X, Y, rng.standard_normal((150, 3))


def dense(kernel, X, y, Z, alpha, weights=None):
    noise = alpha * np.ones(len(X)) if weights is None else alpha / weights
    return kernel(Z, X) @ np.linalg.solve(kernel(X) + np.diag(noise), y)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg", "pcg"])
@pytest.mark.parametrize("rows", [100, 400])
def test_agrees_with_scikit_learn(data, rows, solver):
    X, Y, Z = data
    X, Y = X[:rows], Y[:rows]
    ours = KernelRidge(RBF(1.5), alpha=0.1, solver=solver, random_state=0).fit(X, Y)
    theirs = kernel_ridge.KernelRidge(kernel="rbf", gamma=1 / (2 * 1.5**2), alpha=0.1).fit(X, Y)
    iterative = "numpy" if rows == 100 else "fused"
    assert ours.path_ == ("dense" if solver in ("auto", "cholesky") else iterative)
    assert ours.solver_ == ("Cholesky" if ours.path_ == "dense" else "conjugate gradients")
    assert (ours.preconditioner_ == "none") == (solver != "pcg")
    assert ours.converged_
    assert np.abs(ours.predict(Z) - theirs.predict(Z)).max() < 1e-6


def test_takes_kernels_of_scikit_learn(data):
    X, Y, Z = data
    theirs = 1.3 * sk.RBF([1.0, 2.0, 0.5]) + sk.WhiteKernel(0.2)
    model = KernelRidge(theirs, alpha=0.1).fit(X[:100], Y[:100])
    assert model.kernel_ == from_sklearn(theirs)
    assert np.allclose(model.predict(Z), dense(model.kernel_, X[:100], Y[:100], Z, 0.1), atol=1e-6)


def test_each_target_has_its_own_penalty(data):
    X, Y, Z = data
    model = KernelRidge(Matern52(), alpha=[0.1, 3.0]).fit(X[:90], Y[:90])
    for target, alpha in enumerate((0.1, 3.0)):
        expected = dense(Matern52(), X[:90], Y[:90, target], Z, alpha)
        assert np.allclose(model.predict(Z)[:, target], expected, atol=1e-6)


def test_a_weight_counts_a_row_so_many_times(data):
    X, Y, Z = data
    X, y = X[:80], Y[:80, 0]
    weights = np.arange(80) % 4
    repeated = KernelRidge(alpha=0.3).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    weighted = KernelRidge(alpha=0.3).fit(X, y, sample_weight=weights)
    assert weighted.kernel_.length_scale == pytest.approx(repeated.kernel_.length_scale)
    assert np.allclose(weighted.predict(Z), repeated.predict(Z), atol=1e-6)
    assert len(weighted.X_fit_) == 60


def test_predicts_in_blocks(data, monkeypatch):
    X, Y, Z = data
    model = KernelRidge(RBF()).fit(X, Y)
    whole = model.predict(Z)
    monkeypatch.setattr(ridge, "PREDICT_ROWS", 40)
    assert np.allclose(model.predict(Z), whole, rtol=1e-12, atol=1e-12)


def test_float32_is_close(data):
    X, Y, Z = data
    single, double = (KernelRidge(RBF(), alpha=0.5, solver="cg", dtype=t).fit(X, Y) for t in ("float32", "float64"))
    assert np.abs(single.predict(Z) - double.predict(Z)).max() < 1e-3


def test_not_converging_is_said_with_a_remedy(data):
    X, Y, _ = data
    with pytest.warns(ConvergenceWarning, match=r"max iter after 2 iterations.*raise max_iter"):
        model = KernelRidge(RBF(), alpha=1e-3, solver="cg", max_iter=2).fit(X[:90], Y[:90])
    assert not model.converged_
    assert model.n_iter_ == 2


def test_weights_without_a_penalty(data):
    """Equal rows have no factor without a penalty; conjugate gradients find the weights of least length."""
    X, Y, _ = data
    X, y = np.vstack([X[:30], X[:30]]), np.append(Y[:30, 0], Y[:30, 0])
    with pytest.warns(ConvergenceWarning, match="not positive definite"):
        KernelRidge(RBF(0.5), alpha=0.0, solver="cholesky").fit(X, y)
    model = KernelRidge(RBF(0.5), alpha=0.0).fit(X, y)
    assert model.solver_ == "conjugate gradients"
    assert np.allclose(model.predict(X), y, atol=1e-5)


def test_verbose_reports(data, monkeypatch, capsys):
    X, Y, _ = data
    monkeypatch.setattr(ridge, "REPORT_SECONDS", 0.0)
    KernelRidge(RBF(), solver="cg", verbose=True).fit(X[:50], Y[:50])
    assert "largest relative residual" in capsys.readouterr().out


def test_objects_and_stored_matrices():
    words = ["tree", "trees", "three", "bee", "been", "bean"]
    shared = Pairwise(lambda a, b: float(len(set(a) & set(b))))
    y = np.array([len(w) for w in words], float)
    by_objects = KernelRidge(shared, alpha=0.5).fit(words, y).predict(["free", "tree"])
    together = [*words, "free", "tree"]
    stored = Precomputed(shared(together, together))
    by_rows = KernelRidge(stored, alpha=0.5).fit(np.arange(6), y).predict(np.arange(6, 8))
    assert np.allclose(by_objects, by_rows)


def test_clones_pickles_and_grid_search(data):
    X, Y, Z = data
    model = KernelRidge(1.5 * RBF([1.0, 2.0, 3.0]) + White(0.1), alpha=0.2).fit(X[:90], Y[:90])
    assert clone(model).kernel == model.kernel
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(Z), model.predict(Z))
    search = GridSearchCV(KernelRidge(), {"kernel": [RBF(0.01), RBF(2.0)], "alpha": [0.1]}, cv=3)
    assert search.fit(X[:90], Y[:90]).best_params_["kernel"] == RBF(2.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1.0}, "alpha must be finite and not negative"),
        ({"alpha": np.nan}, "alpha must be finite"),
        ({"alpha": [1.0, 2.0, 3.0]}, r"shape \(2,\)"),
        ({"alpha": "much"}, "alpha must be a number"),
        ({"kernel": "rbf"}, "expected a precog kernel"),
        ({"kernel": RBF([1.0, 2.0])}, "2 length scales for 3 columns of X"),
        ({"rtol": -1.0}, "rtol must be finite"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"solver": "lu"}, "solver must be one of"),
        ({"preconditioner": "best"}, "preconditioner must be one of"),
        ({"rank": 0}, "rank must be a whole number"),
        ({"solver": "cholesky", "max_memory": 1e3}, "max_memory allows"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"threads": 0}, "threads must be a whole number"),
    ],
)
def test_refuses(data, settings, message):
    X, Y, _ = data
    with pytest.raises((TypeError, ValueError, MemoryError), match=message):
        KernelRidge(**settings).fit(X, Y)


def test_refuses_weights_that_make_no_sense(data):
    X, Y, _ = data
    for weights, message in (
        (-np.ones(400), r"sample_weight\[0\] is -1"),
        (np.ones(3), r"shape \(400,\)"),
        (np.zeros(400), "at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelRidge().fit(X, Y, sample_weight=weights)
