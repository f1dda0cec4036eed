"""Functions of a matrix: values against a dense eigendecomposition, and errors that are what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws import Watched
from laws.solvers import Overflowing
from precog import RBF, Dense, Gram, Linear, Status
from precog.solvers import NotConverged, matrix_function
from precog.solvers.functions import FUNCTIONS

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

N = 60
X = problems.normal(N, 3, seed=71)
REPEATED = np.concatenate([X[: N // 2]] * 2)
OPERATORS = {
    "mild": Gram(RBF(0.8), X) + 0.5,
    "by row": Gram(RBF(1.5), X) + np.linspace(1e-3, 1.0, N),
    "smooth": Gram(RBF(2.0), X) + 1e-4,
    "rank three": Gram(Linear(), X) + 1e-3,
    "repeated rows, tiny noise": Gram(RBF(0.8), REPEATED) + 1e-8,
    "one point": Gram(RBF(0.8), X[:1]) + 0.1,
    "multiple of one": Dense(3.0 * np.eye(N)),
    "spread": Dense(np.diag(np.logspace(-4, 4, N))),
}
# The estimate is of the rest of a series that is not exactly geometric.
HONEST = 3.0


def truth(A, V, name):
    values, vectors = np.linalg.eigh(A.dense())
    return vectors @ (FUNCTIONS[name][0](values)[:, None] * (vectors.T @ V))


def true_error(A, V, name, x):
    """Return the error of every column, and what rounding in the dense reference may add to it."""
    values = np.linalg.eigvalsh(A.dense())
    slack = 1e-14 * values[-1] * FUNCTIONS[name][1](values[0]) * np.linalg.norm(V, axis=0)
    return np.linalg.norm(x - truth(A, V, name), axis=0), slack


@pytest.mark.parametrize("rtol", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_values_and_errors(operator, name, rtol):
    """The true error is at most a few times the estimate, and convergence is claimed only where it is true."""
    A = OPERATORS[operator]
    V = problems.right_hand_sides(len(A)) * [1.0, 1e3]
    found = matrix_function(A, V, name, rtol=rtol)
    assert found.status in (Status.CONVERGED, Status.STAGNATED)
    assert found.products == 2 * found.iterations
    error, slack = true_error(A, V, name, found.x)
    assert np.all(error <= HONEST * found.error + slack)
    if found.ok:
        assert np.all(error <= HONEST * rtol * np.linalg.norm(found.x, axis=0) + slack)
        assert found.raise_if_failed() is found
    else:
        # What is left is rounding alone.
        assert rtol < 1e-5
        assert np.all(found.error <= 1e-13 * np.linalg.cond(A.dense()) * np.linalg.norm(found.x, axis=0))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("max_iter", [1, 3, 4, 5, 7, 10, 12, 15])
def test_too_few_steps(max_iter, name):
    """A look at an error costs no step, and a second look at the same one finds no convergence."""
    A, V = OPERATORS["smooth"], problems.right_hand_sides(N)
    found = matrix_function(A, V, name, rtol=1e-12, max_iter=max_iter)
    assert found.iterations == max_iter
    assert found.status is Status.MAX_ITER
    assert np.isfinite(found.x).all()
    assert np.all(found.error > 0)
    with pytest.raises(NotConverged, match=f"max iter after {max_iter} iterations, largest estimated error"):
        found.raise_if_failed()


def test_functions_undo_each_other():
    A, V = OPERATORS["by row"], problems.right_hand_sides(N)
    root = matrix_function(A, V, "sqrt", rtol=1e-10).x
    assert np.linalg.norm(matrix_function(A, root, "sqrt", rtol=1e-10).x - A @ V) <= 1e-8 * np.linalg.norm(A @ V)
    back = matrix_function(A, root, "inverse_sqrt", rtol=1e-10).x
    assert np.linalg.norm(back - V) <= 1e-7 * np.linalg.norm(V)


def test_shapes():
    A, V = OPERATORS["mild"], problems.right_hand_sides(N)
    one = matrix_function(A, V[:, 0], "log")
    assert one.x.shape == (N,)
    assert one.error.shape == (1,)
    both = matrix_function(A, np.stack([V[:, 0], np.zeros(N)], axis=1), "log")
    assert both.ok
    assert np.linalg.norm(both.x[:, 0] - one.x) <= 1e-6 * np.linalg.norm(one.x)
    assert not both.x[:, 1].any()
    assert both.error[1] == 0.0
    nothing = matrix_function(A, np.zeros((N, 0)), "sqrt")
    assert nothing.x.shape == (N, 0)
    assert nothing.ok


def test_exhausted_spaces_end_early():
    """An eigenvector takes one step; a matrix of rank three plus a multiple of one takes four."""
    assert matrix_function(OPERATORS["multiple of one"], problems.right_hand_sides(N), "sqrt").iterations == 1
    found = matrix_function(OPERATORS["rank three"], problems.right_hand_sides(N), "log", rtol=1e-12)
    assert found.ok
    assert found.iterations == 4
    both = np.stack([np.eye(N)[0], np.ones(N)], axis=1)
    mixed = matrix_function(OPERATORS["spread"], both, "log", rtol=1e-6)
    assert mixed.ok
    assert np.linalg.norm(mixed.x - truth(OPERATORS["spread"], both, "log")) <= 1e-5 * np.linalg.norm(mixed.x)


def test_products_in_single_precision_are_part_of_the_error():
    M = Dense(OPERATORS["smooth"].dense())
    V = problems.right_hand_sides(N)
    watched = Watched(M)
    found = matrix_function(watched, V, "inverse_sqrt", rtol=1e-8, precision="mixed")
    assert {dtype for dtype, _ in watched.log} == {"float32"}
    assert found.status is Status.STAGNATED
    error, _ = true_error(M, V, "inverse_sqrt", found.x)
    assert np.all(error <= HONEST * found.error)
    assert matrix_function(M, V, "inverse_sqrt", rtol=1e-8).ok


@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrices_that_have_no_such_function(name):
    indefinite = matrix_function(Dense(np.diag(np.r_[np.ones(5), -1.0])), np.ones(6), name)
    assert indefinite.status is Status.INDEFINITE
    with pytest.raises(NotConverged, match="the operator is not positive definite"):
        indefinite.raise_if_failed()
    broken = matrix_function(Overflowing(), np.ones(3), name)
    assert broken.status is Status.NOT_FINITE
    assert np.isfinite(broken.x).all()


def test_wrong_arguments():
    A = OPERATORS["mild"]
    with pytest.raises(ValueError, match="name must be one of sqrt, inverse_sqrt, log; got 'exp'"):
        matrix_function(A, np.ones(N), "exp")
    with pytest.raises(ValueError, match="rtol must be finite and above 0"):
        matrix_function(A, np.ones(N), "log", rtol=0.0)
    with pytest.raises(ValueError, match="max_iter must be a whole number, at least 1"):
        matrix_function(A, np.ones(N), "log", max_iter=0)
    with pytest.raises(ValueError, match="V must have shape"):
        matrix_function(A, np.ones(3), "log")
    with pytest.raises(ValueError, match="precision must be one of"):
        matrix_function(A, np.ones(N), "log", precision="half")
    with pytest.raises(ValueError, match="square"):
        matrix_function(Dense(np.ones((3, 2))), np.ones(3), "log")
