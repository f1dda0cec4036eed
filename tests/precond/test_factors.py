"""Factors from columns of K: greedy pivots by the book, random ones with the right probabilities, exact landmarks."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import problems
import tolerances
from precog import RBF, Dense, Gram, Linear, precond
from precog.precond import factors
from precog.precond.base import problem
from tolerances import assert_within

N = 60
X = problems.normal(N, 3, seed=91)
K = Gram(RBF(0.8), X)
PROBLEM = problem(K + 0.1)
DENSE = K.dense()
TYPES = ["float32", "float64"]


def left(factor: factors.Factor, dense: np.ndarray = DENSE) -> np.ndarray:
    """Return K - F F'."""
    F = factor.F.astype(np.float64)
    return dense - F @ F.T


def allowed(dtype: str, rank: int, dense: np.ndarray = DENSE, pivots: np.ndarray | None = None) -> float:
    """Return the rounding error of K - F F': that of the columns, times how far their pivots are from independent."""
    eps = {"float32": tolerances.SINGLE, "float64": tolerances.EPS}[dtype]
    condition = 1.0 if pivots is None else float(np.linalg.cond(dense[np.ix_(pivots, pivots)]))
    return 4 * eps * max(rank, 4) * np.sqrt(condition) * float(np.abs(dense).max())


def greedy_by_the_book(A: np.ndarray, rank: int) -> tuple[list[int], np.ndarray]:
    """Return pivots and the residual matrix: eliminate the row with the largest diagonal entry, and repeat."""
    A, pivots = A.copy(), []
    for _ in range(rank):
        j = int(np.diagonal(A).argmax())
        A -= np.outer(A[:, j], A[:, j]) / A[j, j]
        pivots.append(j)
    return pivots, A


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rank", [1, 7, 25])
def test_greedy_pivots(rank, dtype):
    factor = factors.greedy(PROBLEM, rank, np.dtype(dtype))
    pivots, residual = greedy_by_the_book(DENSE, rank)
    # The diagonal of an RBF matrix is all ones: the first pivot is the first row, the others are far from a tie.
    assert factor.pivots.tolist() == pivots
    assert factor.F.dtype == dtype
    assert factor.entries == N * rank
    tolerance = allowed(dtype, rank, pivots=factor.pivots)
    assert_within(left(factor), residual, tolerance)
    assert_within(factor.d, np.diagonal(residual), tolerance)
    assert_within(factor.trace, np.trace(residual), N * tolerance)


def test_greedy_stops_at_its_tolerance():
    for tolerance in (30.0, 10.0, 3.0):
        factor = factors.greedy(PROBLEM, N, np.dtype("float64"), tolerance)
        before = factors.greedy(PROBLEM, factor.rank - 1, np.dtype("float64"))
        assert factor.trace <= tolerance < before.trace


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("method", ["landmarks", "greedy", "random"])
def test_exact_at_the_pivots(method, dtype):
    """F F' has the rows of K at the pivots, and leaves a positive semidefinite matrix with diagonal d."""
    kept, rng = np.dtype(dtype), np.random.default_rng(0)
    J = rng.choice(N, 20, replace=False)
    factor = {
        "landmarks": lambda: factors.landmarks(PROBLEM, J, kept),
        "greedy": lambda: factors.greedy(PROBLEM, 20, kept),
        "random": lambda: factors.random_pivots(PROBLEM, 20, rng, kept),
    }[method]()
    assert factor.rank == len(set(factor.pivots.tolist())) == 20
    assert method != "landmarks" or set(factor.pivots) == set(J)
    tolerance, residual = allowed(dtype, 20, pivots=factor.pivots), left(factor)
    assert_within(residual[factor.pivots], np.zeros((20, N)), tolerance)
    assert_within(factor.d, np.diagonal(residual), tolerance)
    assert np.linalg.eigvalsh(residual)[0] >= -N * tolerance
    assert factor.d.min() >= 0


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_that_depend_on_others_are_left_out(dtype):
    """Repeated rows, and a kernel of rank three: the rank is that of the matrix, and nothing is left."""
    kept, rng = np.dtype(dtype), np.random.default_rng(0)
    repeated = np.concatenate([X[:12]] * 3)
    for kernel, rows, rank in ((RBF(0.8), repeated, 12), (Linear(), X, 3)):
        dense = kernel(rows)
        given = problem(Gram(kernel, rows) + 0.1)
        for factor in (
            factors.landmarks(given, np.arange(len(rows)), kept),
            factors.greedy(given, len(rows), kept),
            factors.random_pivots(given, len(rows), rng, kept),
        ):
            assert factor.rank == rank
            assert factor.F.shape == (len(rows), rank)
            assert_within(left(factor, dense), np.zeros_like(dense), allowed(dtype, 36, dense) * 10)


# Five rows of unlike variances, some of them nearly dependent.
_SPREAD = np.array([3.0, 1.0, 0.5, 0.2, 0.05])
_CORRELATED = np.array(
    [
        [1.0, 0.9, 0.1, 0.0, 0.3],
        [0.9, 1.0, 0.2, 0.1, 0.2],
        [0.1, 0.2, 1.0, 0.6, 0.0],
        [0.0, 0.1, 0.6, 1.0, 0.1],
        [0.3, 0.2, 0.0, 0.1, 1.0],
    ]
)
FIVE = np.sqrt(np.outer(_SPREAD, _SPREAD)) * _CORRELATED
DRAWS = 4000


def sequences(A: np.ndarray, length: int) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return the probability of every sequence of pivots drawn one by one from the residual diagonal, and its trace."""
    found = {}
    for order in permutations(range(len(A)), length):
        residual, probability = A.copy(), 1.0
        for j in order:
            probability *= residual[j, j] / np.trace(residual)
            residual = residual - np.outer(residual[:, j], residual[:, j]) / residual[j, j]
        found[order] = probability, float(np.trace(residual))
    return found


@pytest.mark.parametrize("dtype", TYPES)
def test_random_pivots_have_the_probabilities_of_drawing_one_by_one(dtype):
    """Blocks of proposals with rejections change the cost, not the distribution: every sequence of two, in order."""
    given = problem(Dense(FIVE) + 1e-3)
    counts: dict[tuple[int, ...], int] = {}
    traces = []
    for seed in range(DRAWS):
        factor = factors.random_pivots(given, 2, np.random.default_rng([seed, 7]), np.dtype(dtype))
        pair = tuple(factor.pivots.tolist())
        counts[pair] = counts.get(pair, 0) + 1
        traces.append(factor.trace)
    expected = sequences(FIVE, 2)
    assert sum(p for p, _ in expected.values()) == pytest.approx(1.0)
    for order, (p, _) in expected.items():
        error = np.sqrt(p * (1.0 - p) / DRAWS)
        assert abs(counts.get(order, 0) / DRAWS - p) <= 5.0 * error + 1.0 / DRAWS
    mean = sum(p * trace for p, trace in expected.values())
    assert abs(np.mean(traces) - mean) <= 5.0 * np.std(traces) / np.sqrt(DRAWS)


def one_by_one(A: np.ndarray, rank: int, rng: np.random.Generator) -> float:
    """Return tr(K - F F') for pivots drawn one by one."""
    for _ in range(rank):
        d = np.maximum(np.diagonal(A), 0.0)
        j = rng.choice(len(A), p=d / d.sum())
        A = A - np.outer(A[:, j], A[:, j]) / A[j, j]
    return float(np.trace(A))


def test_the_trace_that_is_left_is_that_of_drawing_one_by_one():
    """Also with blocks that grow with the rank: the mean over seeds agrees, and falls with the rank."""
    seeds, means = 60, []
    for rank in (5, 15, 30):
        blocks = [
            factors.random_pivots(PROBLEM, rank, np.random.default_rng(s), np.dtype("float64")) for s in range(seeds)
        ]
        single = [one_by_one(DENSE, rank, np.random.default_rng([s, 1])) for s in range(seeds)]
        traces = [factor.trace for factor in blocks]
        error = np.sqrt((np.var(traces) + np.var(single)) / seeds)
        assert abs(np.mean(traces) - np.mean(single)) <= 5.0 * error
        means.append(np.mean(traces))
    assert means == sorted(means, reverse=True)
    best = np.linalg.eigvalsh(DENSE)[::-1][30:].sum()
    assert best <= means[-1] <= 3.0 * best


def test_random_pivots_stop_at_their_tolerance():
    """At the first block that gets there; a rank that is reached first is kept."""
    for tolerance in (30.0, 10.0, 3.0):
        factor = factors.random_pivots(PROBLEM, N, np.random.default_rng(0), np.dtype("float64"), tolerance)
        assert factor.trace <= tolerance
        assert factor.rank < N
        short = factors.random_pivots(PROBLEM, 4, np.random.default_rng(0), np.dtype("float64"), tolerance)
        assert short.rank == 4
        assert short.trace > tolerance


def test_no_matrix_no_pivots():
    given = problem(Dense(np.zeros((6, 6))) + 0.1)
    kept, rng = np.dtype("float64"), np.random.default_rng(0)
    for factor in (
        factors.landmarks(given, np.arange(4), kept),
        factors.greedy(given, 4, kept),
        factors.random_pivots(given, 4, rng, kept),
    ):
        assert factor.rank == 0
        assert factor.F.shape == (6, 0)
        assert factor.trace == 0.0


def test_few_rows_with_all_the_variance_are_found():
    """A million to one: rows below rounding are never proposed, and do not keep the search waiting."""
    d = np.full(500, 1e-12)
    d[[17, 300]] = 1.0, 2.0
    factor = factors.random_pivots(problem(Dense(np.diag(d)) + 0.1), 50, np.random.default_rng(0), np.dtype("float32"))
    assert sorted(factor.pivots.tolist()) == [17, 300]


def test_same_generator_same_pivots_in_large_blocks():
    """The sizes of blocks depend on numbers alone, not on a clock."""
    rows = problems.normal(300, 3, seed=92)
    given = problem(Gram(RBF(0.5), rows) + 0.1)
    first, second = (factors.random_pivots(given, 200, np.random.default_rng(5), np.dtype("float64")) for _ in range(2))
    assert np.array_equal(first.pivots, second.pivots)
    assert np.array_equal(first.F, second.F)
    assert first.entries == second.entries


@pytest.mark.parametrize("name", ["nystrom", "fitc", "pitc"])
def test_jitter_of_landmarks(name):
    """With all rows as landmarks the factor is K (K + jitter)⁻¹ K, which is all of it only without a jitter."""
    A = Gram(RBF(0.7), problems.normal(40, 2)) + 0.1
    K, eye = A.K.dense(), np.eye(40)
    P = precond.make(name, A, rank=40, rng=0, jitter=0.5)
    low = K @ np.linalg.solve(K + 0.5 * eye, K)
    rest = K - low
    if name == "nystrom":
        assert np.allclose(P.matmat(eye), low + 0.1 * eye)
    else:
        assert np.allclose(np.diagonal(P.matmat(eye)), np.diagonal(low + rest) + 0.1)
    with pytest.raises(ValueError, match="jitter must be finite"):
        precond.make(name, A, rank=40, jitter=-1.0)
