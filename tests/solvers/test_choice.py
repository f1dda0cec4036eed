"""Dense or iterative: which ran, and why, in words."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws import Inverse, Watched
from precog import RBF, Gram, Status
from precog.solvers import PCG, Auto, Cholesky, choice

A = Gram(RBF(0.8), problems.normal(40, 3, seed=51)) + 0.1
b = problems.right_hand_sides(40)[:, 0]


def test_small_systems_get_a_dense_factor():
    watched = Watched(A)
    solution = Auto(rtol=1e-8).solve(watched, b, precond=Inverse(A.dense()))
    assert solution.ok
    assert solution.solver == "Cholesky (40 rows: up to 3000 a dense factor is faster)"
    assert watched.log == []
    assert Auto(rtol=1e-3, atol=1e-2).choose(A)[0] == Cholesky(1e-3, 1e-2)


def test_large_systems_get_conjugate_gradients(monkeypatch):
    """With the settings, the preconditioner, the start and the callback of the caller."""
    monkeypatch.setattr(choice, "DENSE_ROWS", 39)
    settings = Auto(rtol=1e-8, atol=1e-9, max_iter=77, precision="float64")
    assert settings.choose(A)[0] == PCG(1e-8, 1e-9, 77, "float64")
    solution = settings.solve(A, b)
    assert solution.solver == "conjugate gradients (40 rows: above 39 conjugate gradients are faster)"
    assert np.array_equal(solution.x, PCG(1e-8, 1e-9, 77, "float64").solve(A, b).x)
    assert solution.lanczos.alpha.shape == (solution.iterations, 1)
    heard = []
    helped = settings.solve(A, b, precond=Inverse(A.dense()), callback=lambda *step: heard.append(step))
    assert helped.iterations == len(heard) == 1
    assert settings.solve(A, b, x0=solution.x).iterations == 0
    assert Auto(rtol=1e-8, max_iter=2).solve(A, b).status is Status.MAX_ITER


@pytest.mark.parametrize(("rows", "expected"), [(3000, Cholesky), (3001, PCG)])
def test_the_boundary(rows, expected):
    class Sized:
        shape = (rows, rows)

    solver, why = Auto().choose(Sized())
    assert isinstance(solver, expected)
    assert why.startswith(f"{rows} rows: ")
