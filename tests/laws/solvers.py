"""What every solver must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

import problems
import tolerances
from laws.kernels import COMPOSITE
from laws.operators import gram, positive_definite
from precog import PCG, RBF, Dense
from precog.operators import Operator

Array = np.ndarray[Any, Any]


class Inverse:
    """The exact preconditioner, by a dense Cholesky factor."""

    def __init__(self, A: Array) -> None:
        self.factor = scipy.linalg.cho_factor(A)

    def solve(self, V: Array) -> Array:
        return scipy.linalg.cho_solve(self.factor, V)


class Jacobi:
    """The diagonal as a preconditioner."""

    def __init__(self, A: Operator) -> None:
        self.diag = A.diag()

    def solve(self, V: Array) -> Array:
        return V / self.diag[:, None]


SOLVERS: list[Any] = [PCG(rtol=1e-4), PCG(rtol=1e-10), PCG(rtol=1e-30, atol=1e-7)]

# Symmetric positive definite, with kernels whose loops other laws compile.
SYSTEMS: list[Operator] = [
    gram(COMPOSITE, problems.SMALL) + 0.1,
    gram(RBF(0.8), problems.LARGE) + 0.5,
    gram(COMPOSITE, problems.LARGE) + np.linspace(0.1, 2.0, problems.LARGE[0]),
    Dense(positive_definite(30)),
]


def goal(solver: Any, b: Array) -> float:
    return max(solver.rtol * float(np.linalg.norm(b)), solver.atol)


def assert_solves(solver: Any, A: Operator, B: Array, solution: Any) -> None:
    """The true residual of every column is what the status claims and what is reported."""
    assert solution.ok
    dense = A.dense()
    for b, x, reported in zip(B.T, solution.x.T, solution.residuals, strict=True):
        true = float(np.linalg.norm(b - dense @ x))
        slack = tolerances.residual(dense, x) + tolerances.product(dense, x[:, None]) * np.sqrt(len(b))
        assert true <= goal(solver, b) + slack
        assert abs(true - reported * np.linalg.norm(b)) <= slack


def residual_is_what_is_claimed(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    assert_solves(solver, A, B, solver.solve(A, B))


def error(solver: Any, A: Operator, b: Array) -> float:
    """Return how far a solution may be from the true one: its residual over the smallest eigenvalue."""
    return goal(solver, b) / float(np.linalg.eigvalsh(A.dense())[0])


def batch_is_one_by_one(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A)) * np.array([1.0, 1e3])
    together = solver.solve(A, B)
    for k, b in enumerate(B.T):
        alone = solver.solve(A, b)
        assert alone.x.shape == b.shape
        assert alone.ok
        assert np.linalg.norm(alone.x - together.x[:, k]) <= 2.1 * error(solver, A, b)
        # Sums in another order; once rounding has cost the search directions their orthogonality, it moves the end.
        assert abs(int(together.column_iterations[k]) - alone.iterations) <= 1 + alone.iterations // 10


def preconditioner_keeps_the_answer(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    plain = solver.solve(A, B)
    for precond in (Inverse(A.dense()), Jacobi(A)):
        solution = solver.solve(A, B, precond=precond)
        assert_solves(solver, A, B, solution)
        for k, b in enumerate(B.T):
            assert np.linalg.norm(solution.x[:, k] - plain.x[:, k]) <= 2.1 * error(solver, A, b)


def warm_start(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    cold = solver.solve(A, B)
    again = solver.solve(A, B, x0=cold.x)
    assert again.iterations == 0
    assert np.array_equal(again.x, cold.x)
    nearby = solver.solve(A, B, x0=cold.x + 0.1 * problems.right_hand_sides(len(A), seed=5))
    assert_solves(solver, A, B, nearby)


def arguments_are_left_alone(solver: Any, A: Operator) -> None:
    B, x0 = problems.right_hand_sides(len(A)), problems.right_hand_sides(len(A), seed=5)
    kept = B.copy(), x0.copy()
    solver.solve(A, B, x0=x0)
    assert np.array_equal(B, kept[0])
    assert np.array_equal(x0, kept[1])
    B.flags.writeable = x0.flags.writeable = False
    assert solver.solve(A, B, x0=x0).ok


def zero_column(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    B[:, 1] = 0.0
    solution = solver.solve(A, B)
    assert_solves(solver, A, B, solution)
    assert not solution.x[:, 1].any()
    assert solution.residuals[1] == 0.0


SOLVER_LAWS: list[Callable[[Any, Operator], None]] = [
    residual_is_what_is_claimed,
    batch_is_one_by_one,
    preconditioner_keeps_the_answer,
    warm_start,
    arguments_are_left_alone,
    zero_column,
]
