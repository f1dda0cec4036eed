"""What every preconditioner must do, whatever its family."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import problems
import tolerances
from precog import PCG, RBF, Dense, Gram, Linear, LowRank, Precomputed, White, precond
from precog.operators import Congruent, Operator
from precog.precond import FAMILIES, woodbury
from precog.solvers import FlexiblePCG, Status
from tolerances import assert_within

Array = np.ndarray[Any, Any]
Item = tuple[str, dict[str, Any]]

# Every family as it comes, and some with options.
PRECONDITIONERS: list[Item] = [
    *((name, {}) for name in FAMILIES),
    ("nystrom", {"rank": 7, "residual": "mean"}),
    ("nystrom", {"dtype": "float32"}),
    ("spectral", {"rank": 21}),
    ("svd", {"rank": 5, "power": 0}),
    ("ski", {"order": "cubic"}),
    ("ski", {"order": "nearest", "grid": 3}),
    ("block_jacobi", {"blocks": "tree"}),
    ("block_jacobi", {"blocks": "clusters", "dtype": "float32"}),
    ("pitc", {"blocks": "contiguous", "dtype": "float32"}),
    ("regularized", {"delta": 0.5}),
    ("pivoted_cholesky", {"rank": 8, "residual": "diagonal"}),
    ("rpcholesky", {"rank": 20, "dtype": "float32"}),
    ("rpcholesky", {"tolerance": 0.5, "residual": "mean"}),
    ("randomized_nystrom", {"rank": 3, "most": 10}),
    ("local", {"leaf": 12}),
]
# Their rank is a number of grid points or of features, which may be larger than n.
UNBOUNDED = ("ski", "spectral")
# These never look at rows of inputs.
OF_ANY_MATRIX = (
    "nystrom",
    "fitc",
    "svd",
    "pivoted_cholesky",
    "rpcholesky",
    "randomized_nystrom",
    "regularized",
    "identity",
    "auto",
)

N = 60
_X = problems.normal(N, 3, seed=21)
_SCALE = np.linspace(0.0, 2.0, N)
TINY = 1e-8

PRECONDITIONED: dict[str, Operator] = {
    "uniform": Gram(RBF(0.8), _X) + 0.1,
    "by row": Gram(1.7 * RBF([0.7, 1.2, 0.9]) + White(0.05), _X) + np.linspace(0.05, 1.0, N),
    "scaled": Congruent(Gram(RBF(0.8), _X), _SCALE) + 1.0,
    "scaled by row": Congruent(Gram(1.7 * RBF(0.8) + White(0.05), _X), _SCALE) + np.linspace(0.05, 1.0, N),
    "one point": Gram(RBF(0.8), _X[:1]) + 0.1,
    "repeated rows, tiny noise": Gram(RBF(0.8), np.concatenate([_X[: N // 2]] * 2)) + TINY,
    "rank one": Gram(Linear(columns=[1]), _X) + 0.1,
}


def label(item: Item) -> str:
    name, options = item
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


def single(item: Item) -> bool:
    return item[1].get("dtype") == "float32"


def refused(item: Item, A: Operator) -> bool:
    """Return whether factors in float32 are asked for where they would not be positive definite."""
    return single(item) and float(np.min(A.noise)) <= TINY  # type: ignore[attr-defined]


_MADE: dict[tuple[str, int], Any] = {}


def made(item: Item, A: Operator) -> Any:
    """Return the preconditioner, built once for all laws."""
    key = (label(item), id(A))
    if key not in _MADE:
        _MADE[key] = build(item, A, rng=0)
    return _MADE[key]


def build(item: Item, A: Operator, *, rng: Any = 0, **changed: Any) -> Any:
    name, options = item
    return precond.make(name, A, rng=rng, **{**options, **changed})


def dense(P: Any, n: int) -> Array:
    return np.asarray(P.matmat(np.eye(n)))


@cache
def exact(A: Operator) -> Array:
    return A.dense()


class Sizes:
    """The eigenvalues of P at both ends, and the relative errors of solving and of what is random in P⁻¹."""

    def __init__(self, item: Item, A: Operator) -> None:
        P = made(item, A)
        self.dense = dense(P, len(A))
        values = np.linalg.eigvalsh(0.5 * (self.dense + self.dense.T))
        self.low, self.high = float(values[0]), float(values[-1])
        self.condition = self.high / self.low
        stored = tolerances.SINGLE if single(item) else tolerances.EPS
        # Some ten products one after the other, each with sums over the rows or over the columns of a factor.
        self.eps = stored * 25 * np.sqrt(len(A) + P.rank)
        self.inner = 0.0 if P.exact else 1.01 * item[1].get("rtol", 1e-6)


def assert_small(error: Array, allowed: float) -> None:
    __tracebackhide__ = True
    size = float(np.linalg.norm(error))
    assert size <= allowed, f"error {size:.2e}, allowed {allowed:.2e}"


def symmetric_and_definite(item: Item, A: Operator) -> None:
    sizes = Sizes(item, A)
    assert sizes.low > 0
    assert_within(sizes.dense, sizes.dense.T, sizes.eps * sizes.high)


def solve_is_the_inverse(item: Item, A: Operator) -> None:
    """P⁻¹ (P V) = V and P (P⁻¹ V) = V."""
    P, sizes, V = made(item, A), Sizes(item, A), problems.right_hand_sides(len(A))
    allowed = (sizes.eps + sizes.inner) * sizes.condition * float(np.linalg.norm(V))
    assert_small(P.solve(P.matmat(V)) - V, allowed)
    # An inner solve stops at its residual, or where rounding stops it.
    left = sizes.eps * sizes.condition + sizes.inner
    assert_small(P.matmat(P.solve(V)) - V, left * float(np.linalg.norm(V)))


def solve_is_linear(item: Item, A: Operator) -> None:
    """One symmetric positive definite map for all right-hand sides, in all sizes: what conjugate gradients ask for."""
    P, sizes, n = made(item, A), Sizes(item, A), len(A)
    if not P.exact:
        return
    V, W = problems.right_hand_sides(n), problems.right_hand_sides(n, seed=5)
    size = (np.linalg.norm(V) + 3 * np.linalg.norm(W)) / sizes.low
    solved = P.solve(V)
    assert_small(P.solve(V - 3 * W) - (solved - 3 * P.solve(W)), sizes.eps * float(size))
    assert_small(W.T @ solved - P.solve(W).T @ V, sizes.eps * float(size * np.linalg.norm(W)))
    for scale in (1e-60, 1e60):
        assert_small(P.solve(scale * V) / scale - solved, sizes.eps * float(size))
    inverse = P.solve(np.eye(n))
    assert np.linalg.eigvalsh(0.5 * (inverse + inverse.T))[0] > 0


def arguments_and_results(item: Item, A: Operator) -> None:
    """Right-hand sides are left alone, results are new float64 arrays of the same shape, no columns are none."""
    P, V = made(item, A), problems.right_hand_sides(len(A))
    V.flags.writeable = False
    kept = V.copy()
    for result in (P.solve(V), P.matmat(V)):
        assert result.dtype == np.float64
        assert result.shape == V.shape
        result[...] = np.nan
    assert np.array_equal(V, kept)
    assert np.isfinite(P.solve(V)).all()
    assert P.solve(V[:, :0]).shape == (len(A), 0)
    assert not P.solve(np.zeros_like(V)).any()


def log_determinant(item: Item, A: Operator) -> None:
    P, sizes = made(item, A), Sizes(item, A)
    sign, expected = np.linalg.slogdet(sizes.dense)
    assert sign == 1
    # The relative error of every eigenvalue is up to eps times the condition number.
    assert_within(P.logdet(), expected, len(A) * sizes.eps * max(sizes.condition, 10.0))


def inverse_diagonal(item: Item, A: Operator) -> None:
    """Where a preconditioner tells the diagonal of its inverse, it is that."""
    P = made(item, A)
    if hasattr(P, "inverse_diagonal"):
        inverse = P.solve(np.eye(len(A)))
        found = P.inverse_diagonal()
        assert found.dtype == np.float64
        assert_within(found, np.diagonal(inverse), (1e-4 if single(item) else 1e-6) * float(np.abs(inverse).max()))


def sample_is_normal(item: Item, A: Operator) -> None:
    """Columns of `sample` have covariance P within five standard errors, which fall like one over the root of k."""
    P, sizes, n = made(item, A), Sizes(item, A), len(A)
    values, vectors = np.linalg.eigh(0.5 * (sizes.dense + sizes.dense.T))
    whiten = vectors / np.sqrt(values)
    most = 2000 if P.exact else 200
    for k in (most // 10, most):
        W = whiten.T @ P.sample(np.random.default_rng(k), k)
        error = W @ W.T / k - np.eye(n)
        # Products of independent standard normal numbers have variance one, squares two. Beyond five standard errors
        # their sums have the tails of χ², x² <= 2 √(kt) + 2t with probability e^-t [Laurent and Massart], t = 5² / 2.
        variance = (1.0 + np.eye(n)) / k
        assert np.all(np.abs(error) <= 5.0 * np.sqrt(variance) + 25.0 / k + sizes.eps * sizes.condition)
        if n > 1:
            # The mean square over n (n + 1) / 2 free entries, which are not independent where k is small.
            spread = np.sqrt(4.0 / (n * (n + 1))) + 2.0 / np.sqrt(n * k)
            assert abs(np.sum(error**2) / variance.sum() - 1.0) <= 5.0 * spread
    first, second = (P.sample(np.random.default_rng(1), 3) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == (n, 3)
    assert first.dtype == np.float64


def conjugate_gradients_find_the_answer(item: Item, A: Operator) -> None:
    """The preconditioner changes the cost, never the answer."""
    P, rtol = made(item, A), 1e-6
    solver = PCG(rtol=rtol) if P.exact else FlexiblePCG(rtol=rtol, max_iter=1000)
    X = problems.right_hand_sides(len(A))
    B = exact(A) @ X
    solution = solver.solve(A, B, precond=P)
    if not P.exact and not solution.ok:
        # A coarse grid at a noise of 1e-8 is little help, and its inner solves end where rounding ends them.
        assert solution.status in (Status.MAX_ITER, Status.STAGNATED)
        return
    assert solution.ok
    residual = np.linalg.norm(B - exact(A) @ solution.x, axis=0)
    assert np.all(residual <= 1.01 * rtol * np.linalg.norm(B, axis=0))
    low = float(np.linalg.eigvalsh(exact(A))[0])
    assert_small(solution.x - X, 1.01 * rtol * float(np.linalg.norm(B)) / low)


def report_is_sensible(item: Item, A: Operator) -> None:
    P = made(item, A)
    report = P.report()
    assert report.name == item[0] or (item[0] == "auto" and report.name in FAMILIES)
    assert report.rank == P.rank >= 0
    assert report.seconds >= 0
    assert report.products >= 0
    assert report.entries >= 0
    assert report.dtype == item[1].get("dtype", "float64")
    largest = float(np.trace(exact(A)))
    assert report.trace is None or abs(report.trace) <= largest * (1 + 1e-9)
    if report.condition is not None and P.exact:
        values = np.linalg.eigvals(P.solve(exact(A))).real
        true = float(values.max() / values.min())
        # Lanczos sees the spectrum from inside: never more, but for rounding, and within a small factor.
        slack = 1e-6 + len(A) * Sizes(item, A).eps * Sizes(item, A).condition
        assert true > 1e3 or 0.2 * true <= report.condition * (1 + slack)
        assert report.condition <= true * (1 + slack)


def same_generator_same_matrix(item: Item, A: Operator) -> None:
    """A seed, and a generator in the same state, give the same P to the last bit."""
    first = dense(build(item, A, rng=3), len(A))
    assert np.array_equal(dense(build(item, A, rng=3), len(A)), first)
    assert np.array_equal(dense(build(item, A, rng=np.random.default_rng(3)), len(A)), first)


def large_rank_is_clipped(item: Item, A: Operator) -> None:
    if "most" in item[1]:
        return
    P, V = build(item, A, rank=10 * len(A)), problems.right_hand_sides(len(A))
    assert P.rank <= len(A) or item[0] in UNBOUNDED
    Q = dense(P, len(A))
    sizes, values = Sizes(item, A), np.linalg.eigvalsh(Q)
    allowed = (sizes.eps + sizes.inner) * float(values[-1] / values[0])
    assert_small(P.solve(Q @ V) - V, allowed * float(np.linalg.norm(V)))


PRECONDITIONER_LAWS: list[Callable[[Item, Operator], None]] = [
    symmetric_and_definite,
    solve_is_the_inverse,
    solve_is_linear,
    arguments_and_results,
    log_determinant,
    inverse_diagonal,
    sample_is_normal,
    conjugate_gradients_find_the_answer,
    report_is_sensible,
    same_generator_same_matrix,
    large_rank_is_clipped,
]


def bad_arguments(item: Item) -> None:
    A = PRECONDITIONED["uniform"]
    with pytest.raises(TypeError, match=f"'{item[0]}' has no option 'ranks'; it takes rank, rng"):
        build(item, A, ranks=3)
    least = 0 if item[0] == "vecchia" else 1
    for rank in (least - 1, -1, 1.5, True, "all"):
        with pytest.raises(ValueError, match=f"rank must be a whole number, at least {least}"):
            build(item, A, rank=rank)
    with pytest.raises(TypeError, match=r"a preconditioner is built for K \+ noise, got Gram"):
        build(item, A.K)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="positive noise on every row; row 2 has 0"):
        build(item, A.K + np.where(np.arange(N) == 2, 0.0, 0.1))  # type: ignore[attr-defined]


def matrices_without_inputs(item: Item) -> None:
    """On a stored matrix of low rank and on objects it works, or says that inputs are needed and what does without."""
    F = problems.normal(N, 4, seed=22)
    for A in (LowRank(F) + 0.1, Dense(F @ F.T) + 0.1, Gram(Precomputed(F @ F.T), np.arange(N)) + 0.1):
        refusal = None
        try:
            P = build(item, A)
        except TypeError as error:
            refusal = str(error)
        if refusal is not None:
            assert item[0] not in OF_ANY_MATRIX
            assert "needs the inputs of a kernel on vectors" in refusal
            assert "such as 'rpcholesky'" in refusal
            continue
        V = problems.right_hand_sides(N)
        values = np.linalg.eigvalsh(dense(P, N))
        stored = tolerances.SINGLE if single(item) else tolerances.EPS
        allowed = (4 * stored * np.sqrt(2 * N) + (0.0 if P.exact else 1e-6)) * values[-1] / values[0]
        assert_small(P.solve(P.matmat(V)) - V, float(allowed * np.linalg.norm(V)))


def single_precision_is_stable_or_refused(item: Item) -> None:
    """Stored in float32, P⁻¹ is positive definite as computed, or P is refused with what to do instead."""
    if not single(item):
        return
    for noise in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10):
        A = Gram(RBF(2.0), _X) + noise
        if N / noise > woodbury.SINGLE_RATIO:
            with pytest.raises(
                ValueError, match=r'would not be positive definite at noise .*; use dtype="auto" or "float64"'
            ):
                build(item, A)
            continue
        P = build(item, A)
        assert P.report().dtype == "float32"
        inverse = P.solve(np.eye(N))
        assert np.linalg.eigvalsh(0.5 * (inverse + inverse.T))[0] > 0
        B = exact(A) @ problems.right_hand_sides(N)
        assert PCG(rtol=1e-6).solve(A, B, precond=P).ok


FAMILY_LAWS: list[Callable[[Item], None]] = [
    bad_arguments,
    matrices_without_inputs,
    single_precision_is_stable_or_refused,
]
