"""Conjugate gradients: how a solve ends, what it reports, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE, Inverse, Jacobi
from precog import PCG, RBF, Dense, Gram, Status
from precog.solvers import NotConverged

X = problems.normal(350, 3)
A = Gram(COMPOSITE, X) + 0.1
DENSE = A.dense()
b = problems.noisy_values(X)


def true_residual(A, b, x) -> float:
    return float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))


def test_an_exact_preconditioner_takes_one_step():
    solution = PCG(rtol=1e-8).solve(A, b, precond=Inverse(DENSE))
    assert solution.ok
    assert solution.iterations == 1
    assert solution.iterations < PCG(rtol=1e-8).solve(A, b).iterations


def test_products_count_columns():
    """One product a step for each active column, one more when it claims to be done."""
    solution = PCG(rtol=1e-8).solve(A, b)
    assert solution.products == solution.iterations + 1
    both = PCG(rtol=1e-8).solve(A, np.stack([b, np.zeros(350)], axis=1))
    assert both.products == both.iterations + 1
    assert both.column_iterations.tolist() == [both.iterations, 0]


def test_columns_leave_when_they_are_done():
    B = np.stack([b, DENSE[:, 0]], axis=1)
    solution = PCG(rtol=1e-8).solve(A, B, x0=np.eye(350)[:, [0, 0]] * [0, 1])
    assert solution.column_iterations[1] == 0
    assert np.array_equal(solution.x[:, 1], np.eye(350)[0])


def test_the_shape_of_the_answer_is_that_of_the_question():
    solver = PCG(rtol=1e-3)
    assert solver.solve(A, b).x.shape == (350,)
    assert solver.solve(A, b[:, None]).x.shape == (350, 1)
    assert solver.solve(A, b[:, None]).residuals.shape == (1,)
    nothing = solver.solve(A, np.zeros((350, 0)))
    assert nothing.x.shape == (350, 0)
    assert nothing.ok
    assert nothing.products == 0
    assert solver.solve(A, b.astype(np.float32)).x.dtype == np.float64
    assert solver.solve(A, np.round(b).astype(int)).ok
    assert solver.solve(A, b.tolist()).ok


def test_the_callback_hears_every_step():
    heard = []
    solution = PCG(rtol=1e-6).solve(A, np.stack([b, 2 * b], axis=1), callback=lambda *step: heard.append(step))
    assert [step for step, _ in heard] == list(range(1, solution.iterations + 1))
    assert all(residuals.shape == (2,) for _, residuals in heard)
    assert heard[-1][1].max() <= 1e-6 * 1.01


@pytest.mark.parametrize("max_iter", [0, 1, 5])
def test_too_few_steps(max_iter):
    solution = PCG(rtol=1e-10, max_iter=max_iter).solve(A, b)
    assert solution.status is Status.MAX_ITER
    assert not solution.ok
    assert solution.iterations == max_iter
    assert abs(solution.residuals[0] - true_residual(A, b, solution.x)) <= tolerances.ACCURACY["float64"]
    with pytest.raises(NotConverged, match=f"max iter after {max_iter} iterations, .* raise max_iter"):
        solution.raise_if_failed()


def test_success_passes_through():
    solution = PCG().solve(A, b)
    assert solution.raise_if_failed() is solution
    assert "converged after" in solution.describe()
    with pytest.raises(TypeError, match=r"solution\.ok"):
        bool(solution)


def test_a_solution_that_is_reached_on_the_last_step_counts():
    steps = PCG(rtol=1e-6).solve(A, b).iterations
    assert PCG(rtol=1e-6, max_iter=steps).solve(A, b).status is Status.CONVERGED
    assert PCG(rtol=1e-6, max_iter=steps - 1).solve(A, b).status is Status.MAX_ITER


@pytest.mark.parametrize("diagonal", [[1.0, -1.0], [1.0, 0.0], [-1.0, -2.0]])
def test_an_operator_that_is_not_positive_definite(diagonal):
    solution = PCG().solve(Dense(np.diag(diagonal)), np.array([1.0, 2.0]))
    assert solution.status is Status.INDEFINITE
    with pytest.raises(NotConverged, match="not positive definite"):
        solution.raise_if_failed()


def test_an_operator_that_turns_out_not_to_be_positive_definite():
    """What is reported is the residual of what is returned, however the solve ended."""
    indefinite = Dense(np.diag(np.r_[np.linspace(1.0, 50.0, 49), -0.5]))
    rhs = np.r_[np.ones(49), 1e-6]
    solution = PCG(rtol=1e-14).solve(indefinite, rhs)
    assert solution.status is Status.INDEFINITE
    assert solution.iterations > 1
    residual = true_residual(indefinite, rhs, solution.x)
    assert abs(solution.residuals[0] - residual) <= 1e-6 * residual + tolerances.ACCURACY["float64"]


class Broken:
    """An operator whose products overflow."""

    shape = (3, 3)

    def __matmul__(self, V):
        return np.full(np.shape(V), np.inf)


def test_products_that_are_not_finite():
    solution = PCG().solve(Broken(), np.ones(3))
    assert solution.status is Status.NOT_FINITE
    assert np.isfinite(solution.x).all()


def test_a_zero_column_ignores_its_start():
    """A x = 0 has the answer 0; no relative tolerance could be met from elsewhere."""
    B = np.stack([b, np.zeros(350)], axis=1)
    solution = PCG(rtol=1e-6).solve(A, B, x0=np.ones((350, 2)))
    assert solution.status is Status.CONVERGED
    assert not solution.x[:, 1].any()


def test_an_absolute_tolerance():
    solution = PCG(rtol=1e-12, atol=1e-2).solve(A, b)
    assert solution.ok
    assert 1e-8 < np.linalg.norm(b - DENSE @ solution.x) <= 1e-2 * 1.01
    assert PCG(rtol=0.0, atol=10 * np.linalg.norm(b)).solve(A, b).iterations == 0


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8, 1e-12])
@pytest.mark.parametrize("noise", [1e-1, 1e-4])
def test_single_precision_never_claims_what_is_not_so(rtol, noise):
    """Either the residual by the operator's own products is small enough, or the status says that it is not."""
    single = Gram(RBF(1.0), X, dtype="float32") + noise
    solution = PCG(rtol=rtol, max_iter=2000).solve(single, b)
    own = true_residual(single, b, solution.x)
    # A product is repeated to the last bit, so that only the sum of squares can differ.
    assert abs(own - solution.residuals[0]) <= 1e-3 * own
    if solution.ok:
        assert own <= rtol * (1 + 1e-9)
    else:
        assert solution.status in (Status.STAGNATED, Status.MAX_ITER, Status.INDEFINITE)
        assert own > rtol
    dense = RBF(1.0)(X) + noise * np.eye(350)
    exact = float(np.linalg.norm(b - dense @ solution.x) / np.linalg.norm(b))
    allowed = tolerances.product(dense, solution.x, "float32") * np.sqrt(350) / np.linalg.norm(b)
    assert abs(exact - own) <= allowed


def test_single_precision_stagnates_and_says_so():
    single = Gram(RBF(1.0), X, dtype="float32") + 1e-2
    solution = PCG(rtol=1e-13).solve(single, b)
    assert solution.status is Status.STAGNATED
    with pytest.raises(NotConverged, match="use dtype float64"):
        solution.raise_if_failed()


def test_a_restart_regains_digits():
    """The recurrence of a float32 operator drifts from the truth; a few true residuals bring it back."""
    single = Gram(RBF(1.0), X, dtype="float32") + 1.0
    solution = PCG(rtol=2e-6).solve(single, b)
    assert solution.status is Status.CONVERGED
    assert true_residual(single, b, solution.x) <= 2e-6 * 1.001


def test_a_preconditioner_changes_the_cost():
    scaled = Dense(DENSE * np.outer(s := np.logspace(-2, 2, 350), s))
    plain = PCG(rtol=1e-6, max_iter=20_000).solve(scaled, b)
    helped = PCG(rtol=1e-6, max_iter=20_000).solve(scaled, b, precond=Jacobi(scaled))
    assert helped.ok
    assert helped.iterations < plain.iterations / 2


def test_preconditioners_are_given_only_the_active_columns():
    widths = []

    class Watched(Jacobi):
        def solve(self, V):
            widths.append(V.shape[1])
            return super().solve(V)

    PCG(rtol=1e-8).solve(A, np.stack([b, DENSE[:, 0] + DENSE[:, 1]], axis=1), precond=Watched(A))
    assert widths[0] == 2
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"rtol": 0.0}, ValueError, "rtol and atol are both 0"),
        ({"rtol": -1.0}, ValueError, "rtol must be finite and at least 0"),
        ({"rtol": "small"}, TypeError, "rtol must be a number"),
        ({"atol": np.nan}, ValueError, "atol"),
        ({"max_iter": -1}, ValueError, "max_iter must be a whole number, at least 0"),
        ({"max_iter": 1.5}, ValueError, "max_iter"),
    ],
)
def test_wrong_settings(settings, error, message):
    with pytest.raises(error, match=message):
        PCG(**settings)


def test_wrong_right_hand_sides():
    with pytest.raises(ValueError, match=r"B must have shape \(350,\) or \(350, p\), got \(3,\)"):
        PCG().solve(A, np.ones(3))
    with pytest.raises(ValueError, match="x0 has 2 columns, B 1"):
        PCG().solve(A, b, x0=np.ones((350, 2)))
    with pytest.raises(ValueError, match="B must be finite; row 5"):
        PCG().solve(A, np.where(np.arange(350) == 5, np.nan, b))
    with pytest.raises(ValueError, match="square"):
        PCG().solve(Dense(np.ones((3, 2))), np.ones(3))


def test_settings_are_a_value():
    assert PCG(rtol=1e-3) == PCG(rtol=1e-3)
    assert len({PCG(), PCG(1e-6), PCG(1e-3)}) == 2
    with pytest.raises(AttributeError):
        PCG().rtol = 1.0
