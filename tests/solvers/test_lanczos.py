"""The coefficients of conjugate gradients: T has the eigenvalues of P⁻¹A, and quadrature its functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import problems
import tolerances
from laws import Inverse, Jacobi
from precog import PCG, RBF, Dense, Gram
from precog.solvers.result import NOTHING
from tolerances import assert_within

N = 30
A = Gram(RBF(0.8), problems.normal(N, 3, seed=31)) + np.linspace(0.1, 1.0, N)
DENSE = A.dense()
B = problems.right_hand_sides(N) * np.array([1.0, 30.0])
# Only orthogonal residuals find every eigenvalue once.
SOLVER = PCG(rtol=1e-13, reorthogonalize=True)
FUNCTIONS = {"1 / x": lambda x: 1 / x, "log": np.log, "x": lambda x: x}


def generalised(precond: Jacobi | None) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues of P⁻¹A and vectors with A v = λ P v, v'P v = 1."""
    P = np.eye(N) if precond is None else np.diag(precond.diag)
    return scipy.linalg.eigh(DENSE, P)


@pytest.mark.parametrize("precond", [None, Jacobi(A)], ids=["plain", "Jacobi"])
def test_eigenvalues_of_t_are_those_of_the_preconditioned_matrix(precond):
    solution = SOLVER.solve(A, B, precond=precond)
    values = generalised(precond)[0]
    for column in range(2):
        assert solution.column_iterations[column] >= N - 2
        ritz = solution.lanczos.ritz(column)
        assert len(ritz) == solution.column_iterations[column]
        assert_within(ritz[[0, -1]], values[[0, -1]], 1e-9 * values[-1])
    # Early ones lie inside, and come from within.
    spread = []
    for steps in (3, 8, 15):
        ritz = PCG(rtol=1e-13, max_iter=steps).solve(A, B, precond=precond).lanczos.ritz(1)
        assert len(ritz) == steps
        assert values[0] - 1e-12 <= ritz[0] <= ritz[-1] <= values[-1] + 1e-12
        spread.append(ritz[-1] - ritz[0])
    assert spread == sorted(spread)


@pytest.mark.parametrize("precond", [None, Jacobi(A)], ids=["plain", "Jacobi"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_quadrature(name, precond):
    """v' P^-½ f(P^-½ A P^-½) P^-½ v for each right-hand side v, in whatever company it is solved."""
    f = FUNCTIONS[name]
    lanczos = SOLVER.solve(A, B, precond=precond).lanczos
    values, vectors = generalised(precond)
    for column, b in enumerate(B.T):
        nodes, weights = lanczos.quadrature(column)
        assert_within(weights.sum(), 1.0, tolerances.rounding(N, 10.0))
        assert weights.min() >= 0
        start = b @ (b if precond is None else b / precond.diag)
        assert lanczos.start[column] == pytest.approx(start, rel=1e-12)
        expected = ((vectors.T @ b) ** 2 * f(values)).sum()
        size = ((vectors.T @ b) ** 2 * np.abs(f(values))).sum()
        assert_within(lanczos.start[column] * (weights @ f(nodes)), expected, 1e-10 * size)


def test_columns_in_company_have_the_coefficients_that_they_have_alone():
    together = PCG(rtol=1e-6).solve(A, B).lanczos
    for column, b in enumerate(B.T):
        alone = PCG(rtol=1e-6).solve(A, b).lanczos
        for mine, theirs in zip(alone.tridiagonal(0), together.tridiagonal(column), strict=True):
            assert_within(theirs, mine, 1e-7 * np.abs(mine).max())


def test_cold_and_warm_columns():
    """Coefficients belong to the first residual, which is the right-hand side in columns that start from zero only."""
    x0 = np.zeros((N, 2))
    x0[:, 1] = 1.0
    lanczos = SOLVER.solve(A, B, x0=x0).lanczos
    assert lanczos.cold.tolist() == [True, False]
    r = B[:, 1] - DENSE @ x0[:, 1]
    assert lanczos.start[1] == pytest.approx(r @ r, rel=1e-12)
    nodes, weights = lanczos.quadrature(1)
    assert lanczos.start[1] * (weights @ (1 / nodes)) == pytest.approx(r @ np.linalg.solve(DENSE, r), rel=1e-10)


def test_columns_without_a_step_have_no_coefficients():
    B = np.stack([np.zeros(N), np.ones(N)], axis=1)
    for solution in (PCG().solve(A, B), PCG(max_iter=0).solve(A, B)):
        nodes, weights = solution.lanczos.quadrature(0)
        assert nodes.shape == weights.shape == solution.lanczos.ritz(0).shape == (0,)
    assert NOTHING.alpha.shape == (0, 0)


def test_one_step_with_an_exact_preconditioner():
    lanczos = PCG(rtol=1e-8).solve(A, B, precond=Inverse(DENSE)).lanczos
    for column in range(2):
        assert_within(lanczos.ritz(column), [1.0], tolerances.rounding(N, float(np.linalg.cond(DENSE))))
        assert_within(lanczos.quadrature(column)[1], [1.0], 0.0)


def test_a_replaced_residual_ends_the_part_that_quadrature_sees():
    """Products in float32 drift; what T holds of the probe itself stays true to it."""
    values = np.logspace(0, -5, 60)
    Q = np.linalg.qr(problems.normal(60, 60, seed=32))[0]
    M = (Q * values) @ Q.T
    b = problems.normal(60, seed=33)
    solution = PCG(rtol=1e-9, precision="mixed").solve(Dense(0.5 * (M + M.T)), b)
    assert solution.ok
    assert solution.precision == "mixed"
    assert solution.products > solution.iterations + 1
    lanczos = solution.lanczos
    assert lanczos.cold.all()
    _, beside = lanczos.tridiagonal(0)
    assert (beside == 0.0).any()
    nodes, weights = lanczos.quadrature(0)
    expected = ((Q.T @ b) ** 2 * np.log(values)).sum()
    # What float32 does to the smallest eigenvalues: 3e-7 of the largest is 3 % of them.
    assert lanczos.start[0] * (weights @ np.log(nodes)) == pytest.approx(expected, rel=0.01)
