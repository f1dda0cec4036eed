"""Block conjugate gradients: dependent columns, more columns than rows, and what company is good for."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from laws import Inverse
from precog import PCG, RBF, Dense, Gram, Status
from precog.solvers import BlockCG

N = 40
A = Gram(RBF(0.8), problems.normal(N, 3, seed=41)) + 1e-2
DENSE = A.dense()
V = problems.right_hand_sides(N, 3)

DEPENDENT = {
    "equal columns": np.stack([V[:, 0], V[:, 0], V[:, 1]], axis=1),
    "multiples in other sizes": V[:, [0, 0, 1]] * [1.0, -1e8, 1e-6],
    "a sum of others": np.stack([V[:, 0], V[:, 1], V[:, 0] - 2 * V[:, 1]], axis=1),
    "nearly equal columns": np.stack([V[:, 0], V[:, 0] + 1e-9 * V[:, 1]], axis=1),
    "a column of zeros": V * [1.0, 0.0, 1.0],
    "only zeros": np.zeros((N, 2)),
    "more columns than rows": problems.right_hand_sides(N, N + 10),
    "all unit vectors": np.eye(N),
    "columns of the matrix": DENSE[:, :5],
}


@pytest.mark.parametrize("precision", ["float64", "mixed"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_columns(name, precision):
    B = DEPENDENT[name]
    solution = BlockCG(rtol=1e-8, precision=precision).solve(Dense(DENSE), B)
    assert solution.ok
    residual, size = np.linalg.norm(B - DENSE @ solution.x, axis=0), np.linalg.norm(B, axis=0)
    slack = tolerances.residual(DENSE, solution.x)
    assert np.all(residual <= 1e-8 * size + slack)
    assert np.all(np.abs(residual - solution.residuals * size) <= slack)
    assert solution.x[:, size == 0].any() == np.False_


def test_dependent_columns_share_their_directions():
    """Copies cost products, not steps: a column is solved once, whatever stands beside it."""
    solver = BlockCG(rtol=1e-8)
    alone = solver.solve(A, V[:, 0])
    copies = solver.solve(A, V[:, [0, 0, 0]])
    assert abs(copies.iterations - alone.iterations) <= 1
    assert copies.products <= 2 * alone.products + 6
    zero = solver.solve(A, V[:, [0]] * [1.0, 0.0])
    assert zero.iterations == alone.iterations
    assert zero.column_iterations.tolist() == [alone.iterations, 0]


def test_company_saves_steps():
    """As many outlying eigenvalues as there are columns are found at once."""
    values = np.r_[np.logspace(3, 5, 12), np.linspace(1.0, 2.0, 188)]
    Q = np.linalg.qr(problems.normal(200, 200, seed=42))[0]
    M = Dense(0.5 * (((Q * values) @ Q.T) + ((Q * values) @ Q.T).T))
    B = problems.right_hand_sides(200, 6)
    block, single = BlockCG(rtol=1e-8).solve(M, B), PCG(rtol=1e-8).solve(M, B)
    assert block.ok
    assert single.ok
    assert block.iterations < 0.6 * single.iterations
    assert block.products < 0.6 * single.products


def test_more_columns_than_rows_take_one_step():
    """The common space is everything there is."""
    solution = BlockCG(rtol=1e-8).solve(A, problems.right_hand_sides(N, N + 10))
    assert solution.iterations == 1


def test_a_preconditioner_that_is_nearly_exact():
    """A residual that float32 left in the old directions is begun with anew, and found."""
    near = Inverse(DENSE * (1 + 1e-6))
    solution = BlockCG(rtol=1e-12, precision="mixed").solve(Dense(DENSE), V, precond=near)
    assert solution.ok
    assert solution.iterations <= 4


def test_an_indefinite_preconditioner_in_company():
    """Directions in which P⁻¹ is negative are not taken for dependent ones."""

    class Mirrored:
        def solve(self, R):
            return R * np.where(np.arange(N) < 20, 1.0, -1.0)[:, None]

    solution = BlockCG().solve(A, V, precond=Mirrored())
    assert solution.status is Status.INDEFINITE_PRECONDITIONER
