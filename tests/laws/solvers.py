"""What every solver must do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import precog
import problems
import tolerances
from laws.kernels import COMPOSITE
from laws.operators import gram, positive_definite
from precog import PCG, RBF, Dense, Gram, Linear, Status
from precog.operators import Operator
from precog.solvers import FOM, Auto, BlockCG, Cholesky, FlexiblePCG, NotConverged

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


class Times:
    """A diagonal matrix in the place of P⁻¹, of whatever signs."""

    def __init__(self, diag: Any) -> None:
        self.diag = np.asarray(diag)

    def solve(self, V: Array) -> Array:
        return V * self.diag[:, None]


class Given:
    """A preconditioner that hands back what it is given: the array itself."""

    def solve(self, V: Array) -> Array:
        return V


class Watched(Operator):
    """An operator that notes the type and the number of columns of every product, whatever type it is cast to."""

    def __init__(self, A: Operator, log: list[tuple[str, int]] | None = None) -> None:
        self.A, self.log = A, [] if log is None else log

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.A.dtype

    def astype(self, dtype: Any) -> Watched:
        return Watched(self.A.astype(dtype), self.log)

    def matmat(self, V: Any, *, callback: Any = None) -> Array:
        self.log.append((self.A.dtype.name, V.shape[1]))
        return self.A.matmat(V)

    def diag(self) -> Array:
        return self.A.diag()

    def block(self, rows: Any, columns: Any) -> Array:
        return self.A.block(rows, columns)


class Overflowing(Operator):
    """An operator whose entries are infinite."""

    shape = (3, 3)  # type: ignore[assignment]
    dtype = np.dtype(np.float64)  # type: ignore[assignment]

    def matmat(self, V: Any, *, callback: Any = None) -> Array:
        return np.full(np.shape(V), np.inf)

    def diag(self) -> Array:
        return np.full(3, np.inf)

    def block(self, rows: Any, columns: Any) -> Array:
        return np.full((3, 3), np.inf)[rows][:, columns]


SOLVERS: list[Any] = [
    PCG(rtol=1e-4),
    PCG(rtol=1e-10),
    PCG(rtol=1e-30, atol=1e-7),
    PCG(rtol=1e-8, reorthogonalize=True),
    PCG(rtol=1e-8, precision="mixed"),
    PCG(rtol=1e-8, precision="mixed", reorthogonalize=True),
    FlexiblePCG(rtol=1e-8),
    FlexiblePCG(rtol=1e-6, memory=3, precision="mixed"),
    BlockCG(rtol=1e-8),
    BlockCG(rtol=1e-6, precision="mixed"),
    FOM(rtol=1e-8),
    FOM(rtol=1e-6, precision="mixed"),
    Cholesky(rtol=1e-8),
    Auto(rtol=1e-8),
]
# These take all columns through one common space, so that a column takes other steps in company than alone.
SHARED = (BlockCG, FOM)
# These factorise A, whatever the start and the preconditioner.
DIRECT = (Cholesky, Auto)

_X = problems.inputs(RBF(), problems.SMALL[0], seed=1)
_REPEATED = np.concatenate([_X[:20], _X[:20]])

# Symmetric positive definite, with kernels whose loops other laws compile.
SYSTEMS: list[Operator] = [
    gram(COMPOSITE, problems.SMALL) + 0.1,
    gram(RBF(0.8), problems.LARGE, dtype="float32") + 0.5,
    gram(COMPOSITE, problems.LARGE) + np.linspace(0.1, 2.0, problems.LARGE[0]),
    Dense(positive_definite(30)),
    Dense(positive_definite(30).astype(np.float32)),
    Gram(RBF(0.8), _REPEATED) + 1e-3,
    Gram(RBF(0.8), _X) + 1e-8,
    Gram(RBF(0.8), _X[:1]) + 0.1,
    Gram(Linear(), _X) + 1e-2,
]
# So near to singular that rounding may end a solve before its tolerance.
HARD_SYSTEMS: list[Operator] = [
    Gram(RBF(0.8), _REPEATED) + 1e-8,
    Gram(Linear(), _X) + 1e-8,
    Dense(np.diag(np.logspace(0, -12, 30))),
]


@cache
def exact(A: Operator) -> Array:
    """Return the matrix in float64, by which residuals are judged whatever the operator's own type."""
    return A.astype("float64").dense()


def goal(solver: Any, b: Array) -> float:
    return max(solver.rtol * float(np.linalg.norm(b)), solver.atol)


def rounding_of(A: Operator, x: Array) -> float:
    """Return the rounding error of b - A x, in the norm."""
    dense = exact(A)
    return tolerances.residual(dense, x) + tolerances.product(dense, x[:, None]) * np.sqrt(len(x))


def norm_error(b: Array) -> float:
    """Return the rounding error of the norm of b, and of a share of it."""
    return tolerances.rounding(len(b), float(np.linalg.norm(b)))


def assert_reported(A: Operator, B: Array, solution: Any) -> None:
    """The residuals that are reported are true ones, in float64."""
    for b, x, reported in zip(B.T, solution.x.T, solution.residuals, strict=True):
        assert np.isfinite(x).all()
        true = float(np.linalg.norm(b - exact(A) @ x))
        assert abs(true - reported * np.linalg.norm(b)) <= rounding_of(A, x) + norm_error(b)


def assert_solves(solver: Any, A: Operator, B: Array, solution: Any) -> None:
    """The true residual of every column is what the status claims and what is reported."""
    assert solution.ok
    assert_reported(A, B, solution)
    for b, x in zip(B.T, solution.x.T, strict=True):
        assert np.linalg.norm(b - exact(A) @ x) <= goal(solver, b) + rounding_of(A, x)


def error(solver: Any, A: Operator, b: Array) -> float:
    """Return how far a solution may be from the true one: its residual over the smallest eigenvalue."""
    return goal(solver, b) / float(np.linalg.eigvalsh(exact(A))[0])


def residual_is_what_is_claimed(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    assert_solves(solver, A, B, solver.solve(A, B))


def batch_is_one_by_one(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A)) * np.array([1.0, 1e3])
    together = solver.solve(A, B)
    for k, b in enumerate(B.T):
        alone = solver.solve(A, b)
        assert alone.x.shape == b.shape
        assert alone.ok
        assert np.linalg.norm(alone.x - together.x[:, k]) <= 2.1 * error(solver, A, b)
        if not isinstance(solver, SHARED) and np.linalg.cond(exact(A)) < 1e6:
            # Sums in another order; once rounding has cost the directions their orthogonality, it moves the end.
            assert abs(int(together.column_iterations[k]) - alone.iterations) <= 1 + alone.iterations // 10


def preconditioner_keeps_the_answer(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    plain = solver.solve(A, B)
    for precond in (Inverse(exact(A)), Jacobi(A), Given()):
        solution = solver.solve(A, B, precond=precond)
        assert_solves(solver, A, B, solution)
        for k, b in enumerate(B.T):
            assert np.linalg.norm(solution.x[:, k] - plain.x[:, k]) <= 2.1 * error(solver, A, b)


def exact_preconditioner_takes_a_step(solver: Any, A: Operator) -> None:
    """One step, and one more where products or the condition leave something to refine."""
    B = problems.right_hand_sides(len(A))
    assert solver.solve(A, B, precond=Inverse(exact(A))).iterations <= (1 if solver.rtol >= 1e-4 else 3)


def warm_start(solver: Any, A: Operator) -> None:
    B = problems.right_hand_sides(len(A))
    cold = solver.solve(A, B)
    again = solver.solve(A, B, x0=cold.x)
    assert np.array_equal(again.x, cold.x)
    assert again.iterations == (1 if isinstance(solver, DIRECT) else 0)
    nearby = solver.solve(A, B, x0=cold.x + 0.1 * problems.right_hand_sides(len(A), seed=5))
    assert_solves(solver, A, B, nearby)


def arguments_are_left_alone(solver: Any, A: Operator) -> None:
    B, x0 = problems.right_hand_sides(len(A)), problems.right_hand_sides(len(A), seed=5)
    kept = B.copy(), x0.copy()
    solver.solve(A, B, x0=x0)
    assert np.array_equal(B, kept[0])
    assert np.array_equal(x0, kept[1])
    B.flags.writeable = x0.flags.writeable = False
    solution = solver.solve(A, B, x0=x0)
    assert solution.ok
    assert not np.shares_memory(solution.x, x0)
    assert not np.shares_memory(solution.x, B)


def zero_column(solver: Any, A: Operator) -> None:
    """A x = 0 has the answer 0, wherever the search begins: no relative tolerance could be met from elsewhere."""
    B = problems.right_hand_sides(len(A))
    B[:, 1] = 0.0
    for x0 in (None, np.ones_like(B)):
        solution = solver.solve(A, B, x0=x0)
        assert_solves(solver, A, B, solution)
        assert not solution.x[:, 1].any()
        assert solution.residuals[1] == 0.0
        assert isinstance(solver, DIRECT) or solution.column_iterations[1] == 0


def shape_of_the_answer(solver: Any, A: Operator) -> None:
    """A vector for a vector, columns for columns, and float64 for everything."""
    b = np.round(4 * problems.right_hand_sides(len(A))[:, 0])
    expected = solver.solve(A, b)
    assert expected.x.shape == (len(A),)
    assert expected.residuals.shape == expected.column_iterations.shape == (1,)
    for same in (b[:, None], b.astype(np.float32), b.astype(int), b.tolist()):
        solution = solver.solve(A, same)
        assert solution.x.shape == np.shape(same)
        assert solution.x.dtype == np.float64
        assert np.array_equal(solution.x.ravel(), expected.x)
    nothing = solver.solve(A, np.zeros((len(A), 0)))
    assert nothing.ok
    assert nothing.x.shape == (len(A), 0)
    assert nothing.iterations == nothing.products == 0


def callback_hears(solver: Any, A: Operator) -> None:
    """Every step in order, and the residuals of all columns, the last of which are those that are reported."""
    B, heard = problems.right_hand_sides(len(A)), []
    solution = solver.solve(A, B, callback=lambda step, residuals: heard.append((step, residuals.copy())))
    assert [step for step, _ in heard] == list(range(1, solution.iterations + 1))
    assert all(residuals.shape == (2,) for _, residuals in heard)
    for b, last, reported in zip(B.T, heard[-1][1], solution.residuals, strict=True):
        assert max(last, reported) * np.linalg.norm(b) <= goal(solver, b) * (1 + 1e-6)


def too_few_steps(solver: Any, A: Operator) -> None:
    """The status says so, and what there is has the residual that is reported."""
    if isinstance(solver, DIRECT):
        return
    B = problems.right_hand_sides(len(A))
    enough = solver.solve(A, B).iterations
    for steps in sorted({0, min(1, enough - 1), enough - 1}):
        solution = replace(solver, max_iter=steps).solve(A, B)
        assert solution.status is Status.MAX_ITER
        assert solution.iterations == steps
        assert_reported(A, B, solution)
        with pytest.raises(NotConverged, match=f"max iter after {steps} iterations, .* raise max_iter"):
            solution.raise_if_failed()
    assert replace(solver, max_iter=enough).solve(A, B).ok


def counts_are_true(solver: Any, A: Operator) -> None:
    """`products` counts columns, `precision` says in what they were multiplied, no column takes more than all steps."""
    B = problems.right_hand_sides(len(A))
    watched = Watched(A)
    solution = solver.solve(watched, B, x0=0.1 * problems.right_hand_sides(len(A), seed=5))
    assert solution.products == sum(columns for _, columns in watched.log)
    used = {dtype for dtype, _ in watched.log}
    assert ("float32" in used) == solution.precision.startswith("mixed")
    assert solution.precision in ("float64", "mixed", "mixed, then float64")
    assert solution.column_iterations.max() == solution.iterations
    assert solution.column_iterations.min() >= 1
    if not isinstance(solver, DIRECT):
        assert solution.products >= solution.column_iterations.sum() + 2
        single = {"mixed": True, "float64": False, "auto": A.dtype == np.float32}[solver.precision]
        assert ("float32" in used) == single
    assert solution.solver


SOLVER_LAWS: list[Callable[[Any, Operator], None]] = [
    residual_is_what_is_claimed,
    batch_is_one_by_one,
    preconditioner_keeps_the_answer,
    exact_preconditioner_takes_a_step,
    warm_start,
    arguments_are_left_alone,
    zero_column,
    shape_of_the_answer,
    callback_hears,
    too_few_steps,
    counts_are_true,
]


def honest_at_the_limit(solver: Any, A: Operator) -> None:
    """Either the tolerance is met, or rounding in float64 is all that is left of the residual."""
    for B in (problems.right_hand_sides(len(A)), exact(A) @ problems.right_hand_sides(len(A))):
        solution = solver.solve(A, B)
        if solution.ok:
            assert_solves(solver, A, B, solution)
        else:
            assert solution.status in (Status.STAGNATED, Status.MAX_ITER)
            assert_reported(A, B, solution)
            if solution.status is Status.STAGNATED:
                for b, x in zip(B.T, solution.x.T, strict=True):
                    left = np.linalg.norm(b - exact(A) @ x)
                    assert left <= max(goal(solver, b), rounding_of(A, x)) + norm_error(b)
                with pytest.raises(NotConverged, match="rounding keeps the residual from falling"):
                    solution.raise_if_failed()


def indefinite_operator(solver: Any) -> None:
    """Never a wrong answer that is called converged; the status names the remedy."""
    late = np.diag(np.r_[np.linspace(1.0, 50.0, 49), -0.5])
    for dense, b in [
        (np.diag([1.0, -1.0]), np.array([1.0, 2.0])),
        (np.diag([1.0, 0.0]), np.array([1.0, 2.0])),
        (np.diag([-1.0, -2.0]), np.array([1.0, 2.0])),
        (late, np.r_[np.ones(49), 1e-2]),
    ]:
        solution = replace(solver, atol=0.0, rtol=1e-10).solve(Dense(dense), b)
        assert solution.status is Status.INDEFINITE
        assert_reported(Dense(dense), b[:, None], replace(solution, x=solution.x[:, None]))
        with pytest.raises(NotConverged, match=r"operator is not positive definite.*: add noise to the diagonal"):
            solution.raise_if_failed()


def products_that_are_not_finite(solver: Any) -> None:
    solution = solver.solve(Overflowing(), np.ones((3, 2)))
    assert solution.status is Status.NOT_FINITE
    assert np.isfinite(solution.x).all()
    warm = solver.solve(Overflowing(), np.ones((3, 2)), x0=np.ones((3, 2)))
    assert warm.status is Status.NOT_FINITE
    with pytest.raises(NotConverged, match="a product returned NaN or infinity"):
        solution.raise_if_failed()


def broken_preconditioner(solver: Any) -> None:
    """An indefinite one is named, or does not matter; one that returns NaN is named."""
    A = Dense(np.diag(np.linspace(1.0, 2.0, 20)))
    B = problems.right_hand_sides(20)
    for diag in (-np.ones(20), np.r_[np.ones(19), -1.0], np.where(np.arange(20) % 2, 1.0, -1.0)):
        solution = solver.solve(A, B, precond=Times(diag))
        assert_reported(A, B, solution)
        if solution.ok:
            assert isinstance(solver, (*DIRECT, FlexiblePCG))
        else:
            assert solution.status is Status.INDEFINITE_PRECONDITIONER
            assert "the preconditioner is not positive definite" in solution.describe()
    solution = solver.solve(A, B, precond=Times(np.r_[np.ones(19), np.nan]))
    assert solution.ok if isinstance(solver, DIRECT) else solution.status is Status.NOT_FINITE
    assert_reported(A, B, solution)


def wrong_right_hand_sides(solver: Any) -> None:
    A, b = Dense(positive_definite(30)), np.ones(30)
    with pytest.raises(ValueError, match=r"B must have shape \(30,\) or \(30, p\), got \(3,\)"):
        solver.solve(A, np.ones(3))
    with pytest.raises(ValueError, match="x0 has 2 columns, B 1"):
        solver.solve(A, b, x0=np.ones((30, 2)))
    with pytest.raises(ValueError, match="B must be finite; row 5"):
        solver.solve(A, np.where(np.arange(30) == 5, np.nan, b))
    with pytest.raises(ValueError, match="square"):
        solver.solve(Dense(np.ones((3, 2))), np.ones(3))
    for size in (1e160, 1e-160):
        with pytest.raises(ValueError, match="in column 1, whose squares leave the range of floats; scale it"):
            solver.solve(A, np.stack([b, size * b], axis=1))


def wrong_settings(solver: Any) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"rtol": 0.0, "atol": 0.0}, ValueError, "rtol and atol are both 0"),
        ({"max_memory": 0.0}, ValueError, "max_memory must be finite and above 0"),
        ({"memory": 0}, ValueError, "memory must be a whole number, at least 1"),
        ({"rtol": -1.0}, ValueError, "rtol must be finite and at least 0"),
        ({"rtol": "small"}, TypeError, "rtol must be a number"),
        ({"atol": np.nan}, ValueError, "atol"),
        ({"max_iter": -1}, ValueError, "max_iter must be a whole number, at least 0"),
        ({"max_iter": 1.5}, ValueError, "max_iter"),
        ({"precision": "float16"}, ValueError, "precision must be one of auto, mixed, float64"),
    ]
    for settings, problem, message in cases:
        if all(hasattr(solver, name) for name in settings):
            with pytest.raises(problem, match=message):
                replace(solver, **settings)


def settings_are_a_value(solver: Any) -> None:
    assert solver == replace(solver)
    assert len({solver, replace(solver), replace(solver, rtol=0.1)}) == 2
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert eval(repr(solver), vars(precog.solvers)) == solver
    with pytest.raises(AttributeError):
        solver.rtol = 1.0


TROUBLE_LAWS: list[Callable[[Any], None]] = [
    indefinite_operator,
    products_that_are_not_finite,
    broken_preconditioner,
    wrong_right_hand_sides,
    wrong_settings,
    settings_are_a_value,
]
