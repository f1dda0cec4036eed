"""What one family promises beyond the laws."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws.preconditioners import dense
from precog import PCG, RBF, Dense, Gram, Precomputed, precond
from precog.operators import Congruent
from precog.solvers import FlexiblePCG
from tolerances import assert_within

N = 60
X = problems.normal(N, 3, seed=101)
NOISE = np.linspace(0.05, 0.2, N)
SCALE = np.linspace(0.2, 1.5, N)
K = Gram(RBF(0.8), X)
A = K + NOISE
DENSE = A.dense()
OPERATORS = {"by row": A, "scaled": Congruent(K, SCALE) + NOISE}
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))

# Errors of factors whose landmarks are far from dependent.
ROUNDING = 1e-11


def part_of_factor(P, A):
    """Return F F' for P = F F' + D."""
    return dense(P, len(A)) - np.diag(np.broadcast_to(A.noise, len(A)))


def exact_rows(P, A):
    """Return how many rows of K the factor has exactly."""
    return int((np.abs(part_of_factor(P, A) - A.K.dense()).max(axis=1) <= ROUNDING).sum())


@every_operator
@pytest.mark.parametrize("name", ["nystrom", "pivoted_cholesky", "rpcholesky"])
def test_rows_at_the_pivots_are_exact(name, operator):
    P = precond.make(name, operator, rank=20, rng=0)
    assert P.rank == 20
    assert 20 <= exact_rows(P, operator) < N
    assert P.report().trace == pytest.approx(np.trace(operator.dense() - dense(P, N)), abs=N * ROUNDING)
    # All landmarks leave nothing.
    complete = precond.make(name, operator, rank=N, rng=0)
    assert_within(dense(complete, N), operator.dense(), ROUNDING)
    assert complete.report().trace <= N * ROUNDING


@every_operator
def test_residuals_of_the_diagonal(operator):
    """Dropped, added as a mean, or added as they are, which leaves the diagonal exact."""
    kept = {}
    for residual in ("drop", "mean", "diagonal"):
        P = precond.make("nystrom", operator, rank=20, rng=0, residual=residual)
        kept[residual] = np.diagonal(operator.dense() - dense(P, N))
    assert kept["drop"].min() >= -ROUNDING
    assert_within(kept["drop"] - kept["mean"], np.full(N, kept["drop"].mean()), ROUNDING)
    assert_within(kept["diagonal"], np.zeros(N), ROUNDING)
    with pytest.raises(ValueError, match="residual must be one of drop, mean, diagonal; got 'keep'"):
        precond.make("nystrom", operator, residual="keep")


@every_operator
def test_fitc_has_the_diagonal(operator):
    P, plain = (precond.make(name, operator, rank=20, rng=0) for name in ("fitc", "nystrom"))
    assert_within(np.diagonal(dense(P, N)), np.diagonal(operator.dense()), ROUNDING)
    off = ~np.eye(N, dtype=bool)
    assert_within(dense(P, N)[off], dense(plain, N)[off], ROUNDING)
    assert P.report().trace == pytest.approx(plain.report().trace)


def components(pattern):
    """Return the sets of rows that a symmetric pattern couples, which must be complete."""
    sets = {tuple(np.flatnonzero(row)) for row in pattern}
    assert sorted(i for some in sets for i in some) == list(range(len(pattern)))
    return sets


@every_operator
@pytest.mark.parametrize("blocks", ["contiguous", "tree", "clusters"])
def test_block_jacobi_is_the_blocks(blocks, operator):
    """Rows are parted into about √n sets; P is A within each and zero between them."""
    P = dense(precond.make("block_jacobi", operator, rng=0, blocks=blocks), N)
    sets = components(P != 0)
    assert 0.5 * np.sqrt(N) <= len(sets) <= 2 * np.sqrt(N)
    if blocks == "contiguous":
        assert all(some == tuple(range(some[0], some[-1] + 1)) for some in sets)
    assert_within(P, np.where(P != 0, operator.dense(), 0.0), ROUNDING)


@every_operator
@pytest.mark.parametrize("name", ["block_jacobi", "pitc"])
def test_blocks_by_label(name, operator):
    """Labels in any order and of any size: blocks are exact, and rows keep their places."""
    labels = np.random.default_rng(0).integers(0, 7, N) * 5 - 3
    P = precond.make(name, operator, rank=15, rng=0, blocks=labels)
    same = labels[:, None] == labels
    error = dense(P, N) - operator.dense()
    assert_within(error[same], np.zeros(int(same.sum())), ROUNDING)
    if name == "block_jacobi":
        assert not dense(P, N)[~same].any()
    else:
        # Between blocks it is the factor, which is Nyström's with the same landmarks.
        plain = precond.make("nystrom", operator, rank=15, rng=0)
        assert_within(dense(P, N)[~same], dense(plain, N)[~same], ROUNDING)
    one = precond.make(name, operator, rng=0, blocks=np.zeros(N, int))
    assert_within(dense(one, N), operator.dense(), ROUNDING)
    assert PCG(rtol=1e-6).solve(operator, problems.right_hand_sides(N), precond=one).iterations <= 2


@pytest.mark.parametrize("name", ["block_jacobi", "pitc"])
def test_wrong_blocks(name):
    with pytest.raises(ValueError, match=r'blocks must be "tree", "clusters", "contiguous" or labels of shape \(60,\)'):
        precond.make(name, A, blocks="leaves")
    for labels in (np.zeros(5, int), np.zeros(N), np.zeros((N, 2), int)):
        with pytest.raises(ValueError, match=r"blocks must be a name or whole numbers of shape \(60,\)"):
            precond.make(name, A, blocks=labels)


def test_blocks_of_objects():
    """Neighbours in order and labels need no inputs; trees do."""
    stored = Gram(Precomputed(K.dense()), np.arange(N)) + NOISE
    for blocks in ("contiguous", np.arange(N) // 9):
        P, Q = (precond.make("block_jacobi", operator, blocks=blocks) for operator in (stored, A))
        assert_within(dense(P, N), dense(Q, N), ROUNDING)


@every_operator
def test_local_is_exact_within_leaves(operator):
    """One leaf is the whole matrix; small ones have the diagonal at least, and help."""
    P = precond.make("local", operator, rank=10, rng=0, leaf=N)
    assert_within(dense(P, N), operator.dense(), ROUNDING)
    small = precond.make("local", operator, rank=10, rng=0, leaf=10)
    assert_within(np.diagonal(dense(small, N)), np.diagonal(operator.dense()), ROUNDING)
    assert exact_entries(small, operator) >= N * 7
    with pytest.raises(ValueError, match="leaf must be a whole number, at least 1"):
        precond.make("local", operator, leaf=0)


def exact_entries(P, A):
    return int((np.abs(dense(P, len(A)) - A.dense()) <= ROUNDING).sum())


@every_operator
def test_svd_is_near_the_best(operator):
    """No factor of rank k leaves less than λ_k+1 in the norm and the sum of the rest in the trace."""
    values = np.sort(np.linalg.eigvalsh(operator.K.dense()))[::-1]
    for rank in (5, 20):
        errors = []
        for power in (0, 1, 3):
            P = precond.make("svd", operator, rank=rank, rng=0, power=power)
            left = operator.K.dense() - part_of_factor(P, operator)
            errors.append(np.linalg.norm(left, 2))
            assert errors[-1] >= values[rank] - ROUNDING
            assert P.report().trace == pytest.approx(np.trace(left), abs=N * ROUNDING)
            assert P.report().trace >= values[rank:].sum() - N * ROUNDING
            assert P.report().products == (power + 2) * (rank + 10)
        assert errors[2] <= 1.05 * values[rank]
        assert errors[2] <= errors[0] + ROUNDING
    with pytest.raises(ValueError, match="power must be a whole number, at least 0"):
        precond.make("svd", operator, power=-1)


@every_operator
def test_randomized_nystrom_is_its_formula(operator):
    """P = U (Λ - λ_r) U' + λ_r + D: eigenvalues of P - D are those of the approximation, and λ_r elsewhere."""
    P = precond.make("randomized_nystrom", operator, rank=12, most=12, rng=0)
    values = np.sort(np.linalg.eigvalsh(part_of_factor(P, operator)))[::-1]
    last = values[-1]
    assert last > 0
    assert_within(values[11:], np.full(N - 11, last), ROUNDING)
    best = np.sort(np.linalg.eigvalsh(operator.K.dense()))[::-1]
    # The approximation is below K, and catches the largest eigenvalues.
    assert np.all(values[:11] <= best[:11] + ROUNDING)
    assert values[0] >= 0.95 * best[0]
    assert P.rank == P.report().products == 12


def test_randomized_nystrom_doubles_its_rank_until_the_noise():
    ranks = []
    for noise in (10.0, 0.5, 0.05, 1e-6):
        P = precond.make("randomized_nystrom", K + noise, rank=3, most=50, rng=0)
        last = np.linalg.eigvalsh(part_of_factor(P, K + noise))[0]
        assert P.rank in (3, 6, 12, 24, 48, 50)
        assert last <= noise * (1 + 1e-9) or P.rank == 50
        assert f"at rank {P.rank}, noise {noise:.2g}" in P.report().why
        ranks.append(P.rank)
    assert ranks == sorted(ranks)
    assert ranks[0] == 3
    assert ranks[-1] == 50
    assert precond.make("randomized_nystrom", K + 1e-6, rank=4, rng=0).rank == 32
    with pytest.raises(ValueError, match="most must be a whole number, at least 5"):
        precond.make("randomized_nystrom", A, rank=5, most=4)


@pytest.mark.parametrize("name", ["rpcholesky", "pivoted_cholesky"])
def test_tolerances_of_what_a_factor_leaves_out(name):
    """tr(K - F F') <= tolerance · tr D, with as little rank as that takes."""
    ranks = []
    for tolerance in (5.0, 2.0, 0.5):
        P = precond.make(name, A, rank=N, rng=0, tolerance=tolerance)
        left = np.trace(DENSE - dense(P, N))
        assert left <= tolerance * NOISE.sum() + N * ROUNDING
        assert P.report().trace == pytest.approx(left, abs=N * ROUNDING)
        ranks.append(P.rank)
    assert ranks == sorted(set(ranks))
    assert ranks[-1] < N
    assert precond.make(name, A, rank=3, rng=0, tolerance=0.5).rank == 3


@every_operator
def test_spectral_is_right_on_average(operator):
    """E P = A over draws of the frequencies; the diagonal does not vary at all."""
    draws = np.stack([dense(precond.make("spectral", operator, rank=40, rng=seed), N) for seed in range(150)])
    error = np.abs(draws.mean(axis=0) - operator.dense())
    assert np.all(error <= 5.0 * draws.std(axis=0) / np.sqrt(150) + ROUNDING)
    assert_within(draws[0].diagonal(), operator.dense().diagonal(), ROUNDING)
    assert precond.make("spectral", operator, rank=41, rng=0).rank == 40


def test_regularized_is_the_shifted_matrix():
    P = precond.make("regularized", A)
    assert_within(dense(P, N), DENSE + 10.0 * NOISE.mean() * np.eye(N), ROUNDING)
    assert f"δ = {10.0 * NOISE.mean():.2g}" in P.report().why
    P = precond.make("regularized", A, delta=0.3, rtol=1e-10)
    V = problems.right_hand_sides(N)
    exact = np.linalg.solve(DENSE + 0.3 * np.eye(N), V)
    assert np.linalg.norm(P.solve(V) - exact) <= 1e-10 * np.linalg.norm(V) / 0.3
    steps = P.inner_iterations
    assert steps > 2
    P.solve(V)
    assert P.inner_iterations == 2 * steps
    solution = FlexiblePCG(rtol=1e-8).solve(A, V, precond=P)
    assert solution.ok
    assert solution.iterations < FlexiblePCG(rtol=1e-8).solve(A, V).iterations
    with pytest.raises(ValueError, match="delta must be finite and above 0"):
        precond.make("regularized", A, delta=0.0)


def test_large_determinants_of_shifted_matrices_are_refused(monkeypatch):
    P = precond.make("regularized", A)
    monkeypatch.setitem(type(P).logdet.__globals__, "DENSE_ROWS", 59)
    with pytest.raises(
        NotImplementedError, match=r"of 60 rows would take a dense factor; estimate it with precog\.solvers"
    ):
        P.logdet()


def test_identity():
    P = precond.make("identity", A, rng=0)
    V = problems.right_hand_sides(N)
    assert np.array_equal(P.solve(V), V)
    assert P.logdet() == 0.0
    assert P.exact
    plain, helped = PCG(rtol=1e-8).solve(A, V), PCG(rtol=1e-8).solve(A, V, precond=P)
    assert np.array_equal(plain.x, helped.x)


def test_names():
    with pytest.raises(ValueError, match="unknown preconditioner 'nistrom'; there are nystrom, fitc, pitc"):
        precond.make("nistrom", A)


def test_default_ranks():
    """4 √n columns where nothing else is said, as published; √n and its doubles for the randomised ones."""
    for name in ("nystrom", "fitc", "pitc", "svd", "spectral", "pivoted_cholesky", "rpcholesky"):
        rows = problems.normal(100, 3, seed=102)
        P = precond.make(name, Gram(RBF(0.3), rows) + 0.1, rng=0)
        assert P.rank == 40


def test_help_is_worth_its_name():
    """Where a factor can help, each family takes fewer steps than none at all."""
    smooth = Gram(RBF(1.5), X) + 1e-3
    b = problems.noisy_values(X)
    plain = PCG(rtol=1e-6).solve(smooth, b).iterations
    for name in ("nystrom", "fitc", "pitc", "svd", "pivoted_cholesky", "rpcholesky", "randomized_nystrom", "local"):
        P = precond.make(name, smooth, rank=30, rng=0)
        assert PCG(rtol=1e-6).solve(smooth, b, precond=P).iterations < 0.5 * plain


def test_stored_matrices_and_kernels_give_the_same():
    """A matrix is a matrix, whoever holds it."""
    for name in ("nystrom", "svd", "pivoted_cholesky", "rpcholesky", "randomized_nystrom"):
        P, Q = (precond.make(name, operator, rank=9, rng=2) for operator in (A, Dense(K.dense()) + NOISE))
        assert_within(dense(P, N), dense(Q, N), ROUNDING)
