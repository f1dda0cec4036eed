"""Variances from the most correlated rows: never below the truth, as near as they say, and left where they are not."""

import numpy as np
import pytest

import problems
from precog import RBF, Gram, Matern32, Pairwise
from precog.inference import nearest
from precog.inference.nearest import Nearest, calibrated, points_between
from precog.inference.posterior import Factorised, Iterated

N, NEW = 900, 40
SHORT, LONG = 1.5 * Matern32(0.1), RBF(3.0)


def system(kernel, noise=0.05, columns=2):
    """Return A, the columns of k(X, Z), the variances before the data, and the exact quadratic forms."""
    X, Z = problems.normal(N, columns, seed=1), problems.normal(NEW, columns, seed=2)
    A, C = Gram(kernel, X) + noise, kernel(X, Z)
    return A, C, np.asarray(kernel.diag(Z)), np.einsum("ij,ij->j", C, np.linalg.solve(A.dense(), C))


@pytest.mark.parametrize("kernel", [SHORT, LONG, Matern32(0.2, columns=[0]) * RBF(2.0)], ids=str)
@pytest.mark.parametrize("size", [32, 128])
def test_from_below(kernel, size):
    A, C, prior, exact = system(kernel)
    values, _ = Nearest(A, size).forms(C, prior)
    assert (values <= exact * (1 + 1e-9)).all()


@pytest.mark.parametrize("kernel", [SHORT, LONG], ids=["short", "long"])
def test_exact_from_all_rows(kernel):
    A, C, prior, exact = system(kernel)
    values, missing = Nearest(A, N).forms(C, prior)
    assert not missing.any()
    assert np.allclose(values, exact, rtol=1e-8)


def test_as_many_rows_as_it_takes(monkeypatch):
    """Short length scales take few rows, longer ones more, and smooth kernels cannot be served."""
    monkeypatch.setattr(nearest, "SIZES", (16, 64, 256))
    sizes = {}
    for name, kernel in (("short", Matern32(0.02)), ("middle", Matern32(0.5)), ("long", LONG)):
        found = Iterated(system(kernel)[0], None, seed=0).nearest
        sizes[name] = found and found.size
    assert sizes["short"] == 16
    assert sizes["middle"] == 64
    assert sizes["long"] is None


@pytest.mark.parametrize("kernel", [SHORT, LONG], ids=["short", "long"])
def test_errors_are_what_they_say(kernel, monkeypatch):
    monkeypatch.setattr(nearest, "SIZES", (16, 64))
    A, C, prior, exact = system(kernel)
    iterated = Iterated(A, None, seed=0)
    assert (iterated.nearest is None) == (kernel is LONG)
    values, errors = iterated.quadratic(C, prior)
    assert not np.isnan(errors).any()
    # In nine of ten points, as it was measured; the smooth kernel's variances are solved for.
    assert np.mean(exact - values <= errors + 1e-9) >= 0.8
    assert ((prior - values) <= 1.1 * (prior - exact)).all()


def test_unusual_points_are_solved_for():
    A, C, prior, exact = system(SHORT)
    values, errors = Nearest(A, 32, share=0.01, usual=0.0).forms(C, prior)
    assert np.isnan(errors).any()
    doubtful = Iterated(A, None, seed=0)
    doubtful.__dict__["nearest"] = Nearest(A, 32, share=0.01, usual=0.0)
    solved, errors = doubtful.quadratic(C, prior)
    assert ((prior - solved) <= 1.02 * (prior - exact)).all()
    assert (solved >= values - 0.02 * (prior - exact)).all()


@pytest.mark.parametrize("seed", [0, None], ids=["nearest", "solves"])
@pytest.mark.parametrize("kernel", [SHORT, LONG], ids=["short", "long"])
def test_diagonal_of_the_inverse(kernel, seed):
    A, *_ = system(kernel)
    rows = np.array([5, 0, 777])
    expected = np.diagonal(np.linalg.inv(A.dense()))[rows]
    assert np.allclose(Iterated(A, None, seed=seed).inverse_diagonal(rows), expected, rtol=0.06)
    assert np.allclose(Factorised(np.linalg.cholesky(A.dense())).inverse_diagonal(rows), expected)


def test_points_lie_among_the_rows():
    X = np.sort(problems.normal(200, 1), axis=0)
    Z = points_between(Gram(RBF(), X) + 0.1, 50, np.random.default_rng(0))
    apart = np.abs(Z - X.T).min(axis=1)
    assert (X[0] <= Z).all()
    assert (X[-1] >= Z).all()
    assert np.median(apart) < 0.05


def test_nothing_is_calibrated_where_no_size_serves():
    A, C, prior, exact = system(LONG)
    assert calibrated(A, C, prior, exact + 0.1 * (prior - exact)) is None


def test_objects_and_one_row():
    words = ["tree", "trees", "three", "bee", "been", "bean"]
    shared = Pairwise(lambda a, b: float(len(set(a) & set(b))))
    A = Gram(shared, words) + 0.5
    C = shared(words, ["beer"])
    exact = float(C[:, 0] @ np.linalg.solve(A.dense(), C[:, 0]))
    assert Nearest(A, 10).forms(C, np.array([3.0]))[0][0] == pytest.approx(exact)
    assert Iterated(A, None, seed=0).nearest is None
    one = Nearest(Gram(RBF(), np.zeros((1, 2))) + 0.5, 10)
    assert one.forms(np.ones((1, 1)), np.ones(1))[0][0] == pytest.approx(1 / 1.5)
    assert one.forms(np.ones((1, 1)), np.ones(1), np.array([0]))[0][0] == 0.0


def test_says_what_is_wrong_with_a_matrix_that_has_no_factor():
    indefinite = Gram(Pairwise(lambda a, b: 1.0 if a != b else 0.1), list(range(5))) + 0.01
    with pytest.raises(ArithmeticError, match="raise the noise"):
        Nearest(indefinite, 5).forms(np.ones((5, 1)), np.ones(1))
