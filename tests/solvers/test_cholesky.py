"""The dense solver: what it refuses, and how it ends."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws import Watched
from precog import RBF, Dense, Gram, Status
from precog.solvers import Cholesky

X = problems.normal(40, 3, seed=61)
b = problems.right_hand_sides(40)


class Untouchable(Watched):
    """An operator that must not be evaluated."""

    def block(self, rows, columns):
        raise AssertionError("evaluated")


def test_too_much_memory_is_refused_before_any_work():
    A = Untouchable(Gram(RBF(), X) + 0.1)
    with pytest.raises(MemoryError, match=r"a dense factor of 40 rows takes 0\.0 GB, max_memory allows 0\.0; use PCG"):
        Cholesky(max_memory=2 * 8 * 40**2 - 1).solve(A, b)
    with pytest.raises(AssertionError, match="evaluated"):
        Cholesky(max_memory=2 * 8 * 40**2).solve(A, b)


def test_wrong_arguments_are_refused_before_any_work():
    A = Untouchable(Gram(RBF(), X) + 0.1)
    with pytest.raises(ValueError, match="B must have shape"):
        Cholesky().solve(A, np.ones(3))
    with pytest.raises(ValueError, match="x0 must have shape"):
        Cholesky().solve(A, b, x0=np.ones(3))


def test_a_condition_that_is_too_high_is_stagnation():
    """The factor exists, its answer does not reach the tolerance, and that is what is said."""
    values = np.logspace(0, -15.5, 40)
    Q = np.linalg.qr(problems.normal(40, 40, seed=62))[0]
    M = 0.5 * (((Q * values) @ Q.T) + ((Q * values) @ Q.T).T) + 1e-16 * np.eye(40)
    solution = Cholesky(rtol=1e-14).solve(Dense(M), b)
    assert solution.status is Status.STAGNATED
    residual = np.linalg.norm(b - M @ solution.x, axis=0) / np.linalg.norm(b, axis=0)
    assert solution.residuals == pytest.approx(residual, rel=0.1)
    assert residual.max() > 1e-14
    assert solution.iterations == 1


def test_no_factor_no_answer():
    solution = Cholesky().solve(Dense(np.diag(np.r_[np.ones(39), -1.0])), b)
    assert solution.status is Status.INDEFINITE
    assert solution.iterations == 0
    assert not solution.x.any()
    assert solution.residuals.tolist() == [1.0, 1.0]


def test_a_refinement_step_takes_the_residual_to_rounding():
    A = Gram(RBF(1.0), X, dtype="float32") + 1e-6
    solution = Cholesky(rtol=1e-9).solve(A, b)
    assert solution.ok
    assert solution.precision == "float64"
    assert solution.products == 0
