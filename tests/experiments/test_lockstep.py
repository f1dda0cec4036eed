"""Solves in lock-step: the answers of solves alone, fewer products, and an end to all where one thing goes wrong."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

import tolerances
from precog import PCG, RBF, Gram, precond
from precog.experiments.lockstep import WIDTHS, lockstep
from precog.operators import Dense, Operator
from problems import noisy_values, normal

# So well conditioned that rounding does not reach the number of steps.
ROWS, NOISE, RTOL = 200, 1.0, 1e-6
NAMES = ("identity", "nystrom", "block_jacobi")


@dataclass(eq=False)
class Watched(Operator):
    """A matrix that notes the columns of each product and the thread that asked for it, and may fail at one."""

    A: Operator
    failing: int = -1
    error: type[BaseException] = KeyboardInterrupt
    columns: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    @property
    def shape(self):
        return self.A.shape

    @property
    def dtype(self):
        return self.A.dtype

    def matmat(self, V, *, callback=None):
        self.threads.add(threading.get_ident())
        if len(self.columns) == self.failing:
            raise self.error("in a product")
        self.columns.append(V.shape[1])
        return self.A.matmat(V)

    def diag(self):
        return self.A.diag()

    def block(self, rows, columns):
        return self.A.block(rows, columns)


@pytest.fixture(scope="module")
def system():
    """A matrix, a right-hand side, and three preconditioners that need different numbers of steps."""
    X = normal(ROWS, 2)
    A = Gram(RBF(length_scale=0.4), X) + NOISE
    return A, noisy_values(X), [precond.make(name, A, rank=20, rng=0) for name in NAMES]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def outcomes(A, solves, **options):
    """Return what each solve returned or raised."""
    found = {}
    lockstep(A, solves, lambda which, outcome: found.__setitem__(which, outcome), **options)
    assert sorted(found) == list(range(len(solves)))
    return [found[which].exception() or found[which].result() for which in range(len(solves))]


def solving(b, P):
    return lambda shared: PCG(rtol=RTOL, precision="float64").solve(shared, b, precond=P)


def test_counts_and_answers_are_those_of_solves_alone(system):
    A, y, preconditioners = system
    alone = [solving(y, P)(A) for P in preconditioners]
    watched = Watched(A)
    together = outcomes(watched, [solving(y, P) for P in preconditioners])
    counts = [solution.iterations for solution in alone]
    assert len(set(counts)) == len(counts), "the solves should leave one by one"
    assert [solution.iterations for solution in together] == counts
    for one, other in zip(alone, together, strict=True):
        # Two answers with residuals of RTOL |y|: apart by twice that over the smallest eigenvalue, which is the noise.
        assert np.linalg.norm(one.x - other.x) <= 2 * RTOL * np.linalg.norm(y) / NOISE
    # One product for all, as long as the longest of them.
    assert len(watched.columns) == max(solution.products for solution in alone)
    # Three columns are filled up to eight, two and one stay.
    first, second, third = sorted(solution.products for solution in alone)
    assert watched.columns == [8] * first + [2] * (second - first) + [1] * (third - second)
    assert watched.threads == {threading.get_ident()}


def test_each_solve_gets_its_own_columns():
    dense = normal(12, 12)
    A, blocks = Dense(dense + dense.T), [normal(12, p, seed=p) for p in (1, 3, 2)]
    together = outcomes(A, [lambda shared, V=V: shared @ V for V in blocks])
    for V, product in zip(blocks, together, strict=True):
        np.testing.assert_allclose(product, A.A @ V, atol=tolerances.product(A.A, V))
        assert product.flags.c_contiguous


@pytest.mark.parametrize(
    ("count", "widths"),
    [(1, [1]), (2, [2]), (3, [8]), (8, [8]), (9, [8, 1]), (11, [8, 8]), (16, [8, 8]), (18, [8, 8, 2])],
)
def test_products_have_few_widths(count, widths):
    watched = Watched(Dense(np.eye(5)))
    V = normal(5, count)
    together = outcomes(watched, [lambda shared, j=j: shared @ V[:, j] for j in range(count)])
    assert watched.columns == widths
    assert set(widths) <= set(WIDTHS)
    for j, product in enumerate(together):
        np.testing.assert_array_equal(product, V[:, j])


def test_solve_that_fails_leaves_the_others_alone(system):
    A, y, preconditioners = system

    def failing(shared):
        shared @ (shared @ y)
        raise ArithmeticError("not this one")

    expected = solving(y, preconditioners[1])(A)
    first, second, third = outcomes(A, [failing, solving(y, preconditioners[1]), failing])
    assert str(first) == str(third) == "not this one"
    assert second.iterations == expected.iterations
    assert second.ok


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_error_in_a_product_ends_all(system, error):
    A, y, preconditioners = system
    watched, ended = Watched(A, failing=3, error=error), []
    with pytest.raises(error, match="in a product"):
        lockstep(watched, [solving(y, P) for P in preconditioners], lambda *outcome: ended.append(outcome))
    assert watched.columns == [8, 8, 8]
    assert not ended


def test_error_of_whoever_hears_of_an_end_ends_all(system):
    A, y, preconditioners = system
    heard = []

    def ended(which, outcome):
        heard.append(which)
        outcome.result()
        raise ValueError("no room on the disk")

    with pytest.raises(ValueError, match="no room"):
        lockstep(A, [solving(y, P) for P in preconditioners], ended)
    assert len(heard) == 1


def test_one_solve_needs_no_thread(system):
    A, y, preconditioners = system
    threads = []

    def solve(shared):
        threads.append(threading.get_ident())
        return solving(y, preconditioners[0])(shared)

    (solution,) = outcomes(A, [solve])
    assert threads == [threading.get_ident()]
    assert np.array_equal(solution.x, solving(y, preconditioners[0])(A).x)


def test_callback_hears_of_every_product(system):
    A, y, preconditioners = system
    for count in (1, 2):
        calls, watched = [], Watched(A)
        outcomes(watched, [solving(y, P) for P in preconditioners[:count]], callback=lambda: calls.append(1))  # noqa: B023
        assert len(calls) == len(watched.columns) > 0


def test_solves_without_a_product_end_at_once():
    assert outcomes(Dense(np.eye(2)), [lambda shared: shared.shape] * 2) == [(2, 2), (2, 2)]
    assert outcomes(Dense(np.eye(2)), []) == []


def test_shared_products_have_one_type(system):
    A, y, _ = system
    (error,) = outcomes(A, [lambda shared: PCG(precision="mixed").solve(shared, y)])
    assert isinstance(error, TypeError)
    assert 'precision="float64"' in str(error)
    (diag,) = outcomes(A, [lambda shared: (shared.diag(), shared.block([0], [1]), repr(shared))])
    np.testing.assert_array_equal(diag[0], A.diag())
    np.testing.assert_array_equal(diag[1], A.block([0], [1]))
    assert "shared" in diag[2]
