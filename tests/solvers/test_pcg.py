"""Conjugate gradients: how a solve ends, what it reports, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE, Inverse, Jacobi, Watched
from precog import PCG, RBF, Dense, Gram, Status
from precog.solvers import FOM, BlockCG, FlexiblePCG, NotConverged, products

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


def test_an_operator_that_turns_out_not_to_be_positive_definite():
    """What is reported is the residual of what is returned, however the solve ended."""
    indefinite = Dense(np.diag(np.r_[np.linspace(1.0, 50.0, 49), -0.5]))
    rhs = np.r_[np.ones(49), 1e-6]
    solution = PCG(rtol=1e-14).solve(indefinite, rhs)
    assert solution.status is Status.INDEFINITE
    assert solution.iterations > 1
    residual = true_residual(indefinite, rhs, solution.x)
    assert abs(solution.residuals[0] - residual) <= 1e-6 * residual + tolerances.ACCURACY["float64"]


def test_an_absolute_tolerance():
    solution = PCG(rtol=1e-12, atol=1e-2).solve(A, b)
    assert solution.ok
    assert 1e-8 < np.linalg.norm(b - DENSE @ solution.x) <= 1e-2 * 1.01
    assert PCG(rtol=0.0, atol=10 * np.linalg.norm(b)).solve(A, b).iterations == 0


# Stored entries, so that products in float32 are what they are at any size.
VALUES = np.logspace(0, -6, 200)
_BASIS = np.linalg.qr(problems.normal(200, 200, seed=34))[0]
HARD = Dense((_BASIS * VALUES) @ _BASIS.T)
HARD_SINGLE = HARD.astype("float32")
rhs = problems.normal(200, seed=35)


def products_by_type(solver, A, b, **options):
    """Solve and count the products in each type."""
    watched = Watched(A)
    solution = solver.solve(watched, b, **options)
    return solution, {t: sum(k for dtype, k in watched.log if dtype == t) for t in ("float32", "float64")}


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("noise", [1e-1, 1e-4])
def test_mixed_precision_reaches_what_float64_does(rtol, noise):
    """Residuals are true float64 ones whatever the operator's type, to tolerances that no float32 product shows."""
    single = Gram(RBF(1.0), X, dtype="float32") + noise
    exact = RBF(1.0)(X) + noise * np.eye(350)
    solution, counts = products_by_type(PCG(rtol=rtol), single, b)
    assert solution.ok
    assert counts["float32"] >= solution.iterations - counts["float64"]
    assert counts["float32"] > 0
    assert counts["float64"] > 0
    true = float(np.linalg.norm(b - exact @ solution.x) / np.linalg.norm(b))
    slack = tolerances.product(exact, solution.x[:, None]) * np.sqrt(350) / np.linalg.norm(b)
    assert true <= rtol + slack
    assert abs(true - solution.residuals[0]) <= slack
    own = true_residual(single, b, solution.x)
    # By its own products the operator would have called most of them unsolved, or better than they are.
    assert rtol >= 1e-6 or abs(own - true) > 10 * rtol


def test_float32_products_alone_stall_where_mixed_ones_go_on():
    """The recurrence of a float32 operator by itself ends some 1e-7 |A| |x| / |b| above zero; true residuals do not."""
    x, r = np.zeros(200), rhs.copy()
    s, gamma = r.copy(), r @ r
    A32 = HARD_SINGLE.A
    for _ in range(4000):
        w = (A32 @ s.astype(np.float32)).astype(np.float64)
        alpha = gamma / (s @ w)
        x, r = x + alpha * s, r - alpha * w
        gamma, before = r @ r, gamma
        s = r + gamma / before * s
        if gamma < 1e-24 * (rhs @ rhs):
            break
    alone = true_residual(HARD, rhs, x)
    assert alone > 1e-4
    solution, counts = products_by_type(PCG(rtol=1e-10, precision="mixed", max_iter=20_000), HARD, rhs)
    assert solution.ok
    assert true_residual(HARD, rhs, solution.x) <= 1.01e-10
    assert counts["float32"] > counts["float64"]
    assert solution.precision == "mixed"


def test_precision_says_what_ran():
    """float64 for float64 operators of moderate size, mixed for float32 ones and where it is asked for."""
    for operator, precision, expected in [
        (HARD, "auto", "float64"),
        (HARD, "float64", "float64"),
        (HARD, "mixed", "mixed"),
        (HARD_SINGLE, "auto", "mixed"),
        (HARD_SINGLE, "float64", "float64"),
    ]:
        solution, counts = products_by_type(PCG(rtol=1e-6, max_iter=20_000, precision=precision), operator, rhs)
        assert solution.ok
        assert solution.precision == expected
        assert (counts["float32"] > 0) == (expected == "mixed")


def test_large_systems_are_mixed_by_themselves(monkeypatch):
    monkeypatch.setattr(products, "MIXED_ROWS", 200)
    assert PCG(rtol=1e-2).solve(HARD, rhs).precision == "mixed"
    monkeypatch.setattr(products, "MIXED_ROWS", 201)
    assert PCG(rtol=1e-2).solve(HARD, rhs).precision == "float64"


def test_float32_that_leads_nowhere_is_given_up():
    """An operator that is indefinite in float32 is solved in float64, and the solution says so."""
    values = np.r_[np.logspace(-8, -7, 20), np.linspace(1.0, 2.0, 180)]
    M = (_BASIS * values) @ _BASIS.T
    solution, counts = products_by_type(PCG(rtol=1e-6, precision="mixed"), Dense(0.5 * (M + M.T)), rhs)
    assert solution.ok
    assert solution.precision == "mixed, then float64"
    assert min(counts.values()) > 0
    assert not solution.lanczos.cold.any()
    assert true_residual(Dense(M), rhs, solution.x) <= 1.01e-6


def test_stagnation_is_that_of_float64():
    """What ends a solve before its tolerance is the rounding of products in float64, whatever was used before."""
    single = Gram(RBF(1.0), X, dtype="float32") + 1e-2
    exact = RBF(1.0)(X) + 1e-2 * np.eye(350)
    solution = PCG(rtol=1e-16).solve(single, b)
    assert solution.status is Status.STAGNATED
    assert solution.precision == "mixed, then float64"
    left = np.linalg.norm(b - exact @ solution.x)
    assert left <= tolerances.product(exact, solution.x[:, None]) * np.sqrt(350)
    assert solution.residuals[0] > 1e-16
    with pytest.raises(NotConverged, match="rounding keeps the residual from falling"):
        solution.raise_if_failed()


@pytest.mark.parametrize("solver", [PCG(rtol=1e-10), FlexiblePCG(rtol=1e-10), BlockCG(rtol=1e-10), FOM(rtol=1e-10)])
def test_a_column_that_stagnates_does_not_stop_the_others(solver):
    """Two points that are one but for noise of 1e-8: their difference is known to few digits, all else to ten."""
    twice = Dense(np.block([[1 + 1e-8, 1.0, 0.0], [1.0, 1 + 1e-8, 0.0], [0.0, 0.0, 1.0]]) + 0.0)
    B = np.array([[1.0, 0.0], [0.3, 0.0], [0.7, 1.0]])
    solution = solver.solve(twice, B)
    assert solution.status is Status.STAGNATED
    assert solution.residuals[1] <= 1e-10 < solution.residuals[0]


def test_orthogonal_residuals_take_as_few_steps_as_there_are_eigenvalues():
    """Rounding costs conjugate gradients their orthogonality, and steps; keeping it undoes that."""
    loose = PCG(rtol=1e-8, max_iter=20_000).solve(HARD, rhs)
    kept = PCG(rtol=1e-8, reorthogonalize=True).solve(HARD, rhs)
    assert loose.ok
    assert kept.ok
    assert kept.iterations <= 200 < loose.iterations
    mixed = PCG(rtol=1e-8, reorthogonalize=True, precision="mixed", max_iter=20_000).solve(HARD, rhs)
    assert mixed.ok
    assert mixed.iterations < loose.iterations


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
