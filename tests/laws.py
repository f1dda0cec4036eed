"""What every kernel, operator and solver must do. To give an item every law, append it to its list.

A law takes an item and asserts. The lists hold values only; the test files next to this one apply laws to them.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

import precog
import problems
import tolerances
from precog import (
    PCG,
    RBF,
    Constant,
    Dense,
    Gram,
    HistogramIntersection,
    Linear,
    LowRank,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    White,
    parameter,
)
from precog.codegen import build
from precog.kernels import Additive, DotProduct, Kernel, Stationary, Statistic
from precog.operators import Operator
from tolerances import assert_within

Array = np.ndarray[Any, Any]


class Cauchy(Stationary):
    """A stationary kernel with a hyperparameter of its own."""

    alpha: float = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return 1 / (1 + s / p.alpha)


class Exponential(DotProduct):
    """A kernel of the dot product, with a length scale that is learnt."""

    slope: float = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(p.slope * s)


ABSOLUTE = Statistic("l1", lambda u, w: np.abs(u - w), degree=1.0, nonnegative=True)


class Laplace(Additive):
    """A kernel of a statistic that the package does not have."""

    statistic: ClassVar[Statistic] = ABSOLUTE

    def formula(self, s: Any, p: Any) -> Any:
        return np.exp(-s)


COMPOSITE = 1.7 * RBF([0.7, 1.2], columns=[0, 2]) + 0.3 * Linear() + White(0.1)
NESTED = (0.8 * Matern32(0.9) + 0.5 * White(0.4)) * (RBF(1.5) + 0.2)

KERNELS: list[Kernel] = [
    RBF(0.8),
    RBF([0.5, 1.0, 2.0]),
    Matern12(1.2),
    Matern32([0.9, 0.6, 1.4]),
    Matern52(0.9, columns=[2, 0]),
    RationalQuadratic(0.9, alpha=0.7),
    Periodic([0.8, 1.1, 1.5], period=[4.0, 5.0, 6.0]),
    Linear(),
    Linear([1.0, 2.0, 0.7], length_scale_bounds=(1e-3, 1e3)),
    Polynomial(1.5, offset=0.5, degree=3, length_scale_bounds=(1e-3, 1e3)),
    HistogramIntersection(),
    HistogramIntersection([0.5, 1.0, 2.0], length_scale_bounds=(1e-3, 1e3)),
    Constant(1.7),
    White(0.3),
    COMPOSITE,
    NESTED,
    RBF(0.6) + 0.5 * Matern52(1.7) + RationalQuadratic(2.5, alpha=1.3),
    (RBF(1.1) + 0.4) ** 2 * Periodic(1.0, period=4.0, columns=[1]),
    (Linear(columns=[0]) + White(0.2)) ** 2,
    Cauchy(0.9, alpha=1.6),
    Exponential(2.5, slope=0.6, length_scale_bounds=(1e-3, 1e3)),
    Laplace([0.9, 1.5, 2.0]),
]

# Compiled laws run in float64 for all, in float32 for one of each statistic and for composites.
SINGLE_PRECISION: list[Kernel] = [
    RBF(0.8),
    Matern12(1.2),
    Linear(),
    HistogramIntersection(),
    Laplace([0.9, 1.5, 2.0]),
    COMPOSITE,
]
COMPILED: list[tuple[Kernel, str]] = [
    *((kernel, "float64") for kernel in KERNELS),
    *((kernel, "float32") for kernel in SINGLE_PRECISION),
]

NAMESPACE = {**vars(precog.kernels), "Cauchy": Cauchy, "Exponential": Exponential, "Laplace": Laplace}


def loops_asked_for() -> int:
    """Return how often a compiled loop was looked up: it grows where the fused path runs, and nowhere else."""
    info = build.compiled.cache_info()
    return info.hits + info.misses


def matrix_slopes(kernel: Kernel, X: Array, Z: Array | None) -> list[Array]:
    """Return central differences of the kernel matrix in every entry of theta."""
    h, theta = tolerances.STEP, kernel.theta
    steps = h * np.eye(len(theta))
    return [(kernel.with_theta(theta + e)(X, Z) - kernel.with_theta(theta - e)(X, Z)) / (2 * h) for e in steps]


def assert_gradient(K: Gram, A: Array, B: Array) -> None:
    """Compare `K.grad` with sums over central differences of the dense matrix."""
    weights = np.reshape(A, (len(A), -1)) @ np.reshape(B, (len(B), -1)).T
    slopes = matrix_slopes(K.kernel, K.X, K.Z)
    largest = max(float(np.abs(M).max()) for M in [K.kernel(K.X, K.Z), *slopes])
    expected = np.array([np.sum(weights * slope) for slope in slopes])
    assert_within(K.grad(A, B), expected, tolerances.difference(largest * np.abs(weights).sum(), K.dtype))


def assert_input_gradient(K: Gram, A: Array, B: Array) -> None:
    """Compare `K.grad_inputs` with central differences in the rows of Z."""
    Z, h = K.Z if K.Z is not None else K.X, tolerances.STEP
    weights = A @ B.T
    expected, largest = np.empty(Z.shape), float(np.abs(K.kernel(K.X, Z)).max())
    for k in range(Z.shape[1]):
        step = np.zeros(Z.shape[1])
        step[k] = h
        slope = (K.kernel(K.X, Z + step) - K.kernel(K.X, Z - step)) / (2 * h)
        expected[:, k] = np.sum(weights * slope, axis=0)
        largest = max(largest, float(np.abs(slope).max()))
    size = largest * np.abs(weights).sum(axis=0).max()
    assert_within(K.grad_inputs(A, B), expected, tolerances.difference(size, K.dtype))


# Kernels in NumPy


def symmetric(kernel: Kernel) -> None:
    X = problems.inputs(kernel, 40)
    K = kernel(X)
    assert np.array_equal(K, K.T)


def positive_semidefinite(kernel: Kernel) -> None:
    K = kernel(problems.inputs(kernel, 40))
    assert np.linalg.eigvalsh(K).min() >= -tolerances.eigenvalue(K)


def diagonal(kernel: Kernel) -> None:
    X = problems.inputs(kernel, 40)
    K = kernel(X)
    assert_within(kernel.diag(X), np.diagonal(K), tolerances.entry(K))


def rows_one_by_one(kernel: Kernel) -> None:
    """An entry depends on its own two rows only."""
    X, Z = problems.sides(kernel, problems.SMALL)
    K = kernel(X, Z)
    some = [[kernel(X[i : i + 1], Z[j : j + 1])[0, 0] for j in range(5)] for i in range(5)]
    assert_within(some, K[:5, :5], tolerances.entry(K))


def transposed(kernel: Kernel) -> None:
    X, Z = problems.sides(kernel, problems.SMALL)
    K = kernel(X, Z)
    assert_within(kernel(Z, X), K.T, tolerances.entry(K))


def scaling(kernel: Kernel) -> None:
    X, Z = problems.sides(kernel, problems.SMALL)
    assert_within((2.5 * kernel)(X, Z), 2.5 * kernel(X, Z), tolerances.entry(2.5 * kernel(X, Z)))
    assert_within((kernel * 2.5)(X), 2.5 * kernel(X), tolerances.entry(2.5 * kernel(X)))
    assert_within((kernel + 2.5)(X), kernel(X) + 2.5, tolerances.entry(kernel(X) + 2.5))


def squared(kernel: Kernel) -> None:
    X = problems.inputs(kernel, 40)
    assert_within((kernel**2)(X), kernel(X) ** 2, tolerances.entry(kernel(X) ** 2))


def theta_round_trip(kernel: Kernel) -> None:
    again = kernel.with_theta(kernel.theta)
    assert again.names == kernel.names
    assert_within(again.theta, kernel.theta, 4 * tolerances.EPS * np.abs(kernel.theta).max(initial=1.0))
    moved = kernel.with_theta(kernel.theta + 0.5)
    assert_within(moved.theta, kernel.theta + 0.5, 4 * tolerances.EPS * np.abs(moved.theta).max(initial=1.0))
    assert moved.bounds.tolist() == kernel.bounds.tolist()


def names_and_bounds(kernel: Kernel) -> None:
    q = len(kernel.theta)
    assert len(kernel.names) == len(set(kernel.names)) == q
    assert kernel.bounds.shape == (q, 2)
    assert np.all(kernel.bounds[:, 0] <= kernel.theta)
    assert np.all(kernel.theta <= kernel.bounds[:, 1])


def fixing_each(kernel: Kernel) -> None:
    """Fixing a hyperparameter takes its entry out of theta and leaves the values alone."""
    X = problems.inputs(kernel, 10)
    for i, name in enumerate(kernel.names):
        fixed = kernel.fix(name)
        assert fixed.names == kernel.names[:i] + kernel.names[i + 1 :]
        assert np.array_equal(fixed.theta, np.delete(kernel.theta, i))
        assert np.array_equal(fixed(X), kernel(X))
        assert fixed != kernel


def printed_and_read_back(kernel: Kernel) -> None:
    again = eval(repr(kernel), dict(NAMESPACE))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert repr(again) == repr(kernel)


def pickled(kernel: Kernel) -> None:
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert copy.deepcopy(kernel) == kernel


def unequal(kernel: Kernel) -> None:
    others = [kernel + 1.0, 2.0 * kernel, kernel**2, "kernel"]
    if len(kernel.theta):
        others.append(kernel.with_theta(kernel.theta + 0.1))
    assert all(kernel != other for other in others)


def numpy_gradient(kernel: Kernel) -> None:
    X, Z = problems.sides(kernel, problems.SMALL)
    A, B = problems.right_hand_sides(len(X)), problems.right_hand_sides(len(X), seed=5)
    before = loops_asked_for()
    assert_gradient(Gram(kernel, X), A, B)
    assert_gradient(Gram(kernel, X, Z), A, problems.right_hand_sides(len(Z)))
    assert loops_asked_for() == before


def numpy_input_gradient(kernel: Kernel) -> None:
    X, Z = problems.sides_apart(kernel, problems.SMALL)
    before = loops_asked_for()
    assert_input_gradient(Gram(kernel, X, Z), problems.right_hand_sides(len(X)), problems.right_hand_sides(len(Z)))
    assert loops_asked_for() == before


KERNEL_LAWS: list[Callable[[Kernel], None]] = [
    symmetric,
    positive_semidefinite,
    diagonal,
    rows_one_by_one,
    transposed,
    scaling,
    squared,
    theta_round_trip,
    names_and_bounds,
    fixing_each,
    printed_and_read_back,
    pickled,
    unequal,
    numpy_gradient,
    numpy_input_gradient,
]


# Kernels in compiled loops


def _large(kernel: Kernel, dtype: str, *, rectangular: bool) -> Gram:
    X, Z = problems.sides(kernel, problems.LARGE)
    return Gram(kernel, X, Z if rectangular else None, dtype=dtype)


def fused_product(kernel: Kernel, dtype: str) -> None:
    K = _large(kernel, dtype, rectangular=False)
    dense, V = kernel(K.X), problems.right_hand_sides(len(K))
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
    assert K.path == "fused"


def fused_rectangular_product(kernel: Kernel, dtype: str) -> None:
    K = _large(kernel, dtype, rectangular=True)
    dense, V = kernel(K.X, K.Z), problems.right_hand_sides(K.shape[1])
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
    assert K.path == "fused"


def fused_transposed_product(kernel: Kernel, dtype: str) -> None:
    K = _large(kernel, dtype, rectangular=True)
    dense, V = kernel(K.X, K.Z), problems.right_hand_sides(K.shape[0])
    assert_within(K.rmatmat(V), dense.T @ V, tolerances.product(dense.T, V, dtype))
    assert K.path == "fused"


def fused_block(kernel: Kernel, dtype: str) -> None:
    for rectangular in (False, True):
        K = _large(kernel, dtype, rectangular=rectangular)
        before, dense = loops_asked_for(), kernel(K.X, K.Z)
        assert_within(K.dense(), dense, tolerances.entry(dense, dtype))
        assert loops_asked_for() > before
        assert K.dense().dtype == K.dtype


def fused_gradient(kernel: Kernel, dtype: str) -> None:
    for rectangular in (False, True):
        K = _large(kernel, dtype, rectangular=rectangular)
        before = loops_asked_for()
        A, B = problems.right_hand_sides(K.shape[0]), problems.right_hand_sides(K.shape[1], seed=5)
        assert_gradient(K, A, B)
        assert loops_asked_for() > before


def fused_input_gradient(kernel: Kernel, dtype: str) -> None:
    X, Z = problems.sides_apart(kernel, problems.LARGE)
    before = loops_asked_for()
    K = Gram(kernel, X, Z, dtype=dtype)
    assert_input_gradient(K, problems.right_hand_sides(len(X)), problems.right_hand_sides(len(Z)))
    assert loops_asked_for() > before


COMPILED_LAWS: list[Callable[[Kernel, str], None]] = [
    fused_product,
    fused_rectangular_product,
    fused_transposed_product,
    fused_block,
    fused_gradient,
    fused_input_gradient,
]


# Operators


def _gram(kernel: Kernel, sizes: tuple[int, int], *, rectangular: bool = False, dtype: str = "float64") -> Gram:
    X, Z = problems.sides(kernel, sizes)
    return Gram(kernel, X, Z if rectangular else None, dtype=dtype)


def _positive_definite(n: int) -> Array:
    F = problems.normal(n, n, seed=6)
    return F @ F.T / n + np.eye(n)


_SQUARE = problems.normal(30, 30, seed=7)
_FACTOR = problems.normal(30, 4, seed=8)
_STORED = Gram(0.5 + 2.0 * Precomputed(_positive_definite(30)) + White(0.3), np.arange(30))

OPERATORS: list[Operator] = [
    _gram(COMPOSITE, problems.SMALL),
    _gram(COMPOSITE, problems.SMALL, dtype="float32"),
    _gram(COMPOSITE, problems.SMALL, rectangular=True),
    _gram(COMPOSITE, problems.LARGE),
    _gram(COMPOSITE, problems.LARGE, dtype="float32"),
    _gram(COMPOSITE, problems.LARGE, rectangular=True),
    _gram(NESTED, problems.LARGE),
    _gram(Periodic(0.8, period=4.0), problems.LARGE, rectangular=True),
    _STORED,
    Gram(Precomputed(_positive_definite(30)), np.arange(20), np.arange(5, 30)),
    Dense(_positive_definite(30)),
    Dense(_SQUARE),
    Dense(_SQUARE.astype(np.float32)),
    Dense(_SQUARE[:20]),
    LowRank(_FACTOR),
    LowRank(_FACTOR, problems.normal(20, 4, seed=9)),
    _gram(COMPOSITE, problems.SMALL) + 0.5,
    _gram(COMPOSITE, problems.LARGE) + np.linspace(0.1, 2.0, problems.LARGE[0]),
    _STORED + 0.5,
    _STORED + Dense(_positive_definite(30)) + LowRank(_FACTOR),
    2.5 * _gram(COMPOSITE, problems.LARGE, rectangular=True),
    -0.5 * (Dense(_positive_definite(30)) + np.linspace(0.1, 2.0, 30)) + LowRank(_FACTOR),
    Dense(_SQUARE) + 0.5,
    Gram(RBF(0.8), problems.normal(30, 3, seed=10), problems.normal(30, 3, seed=11)) + np.linspace(0.1, 2.0, 30),
]


def _check_product(A: Operator, V: Any, actual: Array) -> None:
    dense = A.dense().astype(np.float64)
    # Both sides carry the error of an entry: the dense one was rounded to the operator's type as well.
    assert_within(actual, dense @ V, 2 * tolerances.product(dense, V, A.dtype))


def product_is_dense_product(A: Operator) -> None:
    V = problems.right_hand_sides(A.shape[1])
    _check_product(A, V, A.matmat(V))
    _check_product(A, V, A @ V)
    _check_product(A, V[:, 0], A.matvec(V[:, 0]))
    _check_product(A, V[:, 0], A @ V[:, 0])
    _check_product(A, V[:, :1], A.matvec(V[:, :1]))


def transposed_product_is_dense_product(A: Operator) -> None:
    V, dense = problems.right_hand_sides(A.shape[0]), A.dense().astype(np.float64)
    allowed = 2 * tolerances.product(dense.T, V, A.dtype)
    assert_within(A.rmatmat(V), dense.T @ V, allowed)
    assert_within(V.T @ A, V.T @ dense, allowed)
    assert_within(A.rmatvec(V[:, 0]), dense.T @ V[:, 0], allowed)
    assert_within(V[:, 0] @ A, V[:, 0] @ dense, allowed)


def linear(A: Operator) -> None:
    V, W = problems.right_hand_sides(A.shape[1]), problems.right_hand_sides(A.shape[1], seed=5)
    allowed = 3 * tolerances.product(A.dense(), np.abs(V) + 3 * np.abs(W), A.dtype)
    assert_within(A @ (V - 3 * W), A @ V - 3 * (A @ W), allowed)


def adjoint(A: Operator) -> None:
    """w'(A v) = v'(A' w), and the same without the transpose where the matrix is symmetric."""
    v, w = problems.right_hand_sides(A.shape[1])[:, 0], problems.right_hand_sides(A.shape[0], seed=5)[:, 0]
    dense = A.dense()
    allowed = 2 * tolerances.product(dense, v[:, None], A.dtype) * np.abs(w).sum()
    assert_within(w @ (A @ v), v @ A.rmatvec(w), allowed)
    if np.array_equal(dense, dense.T):
        assert_within(w @ (A @ v), v @ (A @ w), allowed)


def number_types(A: Operator) -> None:
    """The result is as precise as the operator and the right-hand side together."""
    V = problems.right_hand_sides(A.shape[1])
    assert (A @ V).dtype == np.float64
    assert (A @ V.astype(np.float32)).dtype == A.dtype
    assert A.dense().dtype == A.dtype
    assert len(A) == A.shape[0]
    assert A.ndim == 2


def no_columns(A: Operator) -> None:
    assert A.matmat(np.zeros((A.shape[1], 0))).shape == (A.shape[0], 0)
    assert A.rmatmat(np.zeros((A.shape[0], 0))).shape == (A.shape[1], 0)


def any_right_hand_side(A: Operator) -> None:
    """Memory order, strides, whole numbers and float32 make no difference."""
    m = A.shape[1]
    V = np.round(problems.right_hand_sides(m) * 4)
    strided = np.zeros((2 * m, 6))
    strided[::2, ::3] = V
    expected = A @ V
    for same in (np.asfortranarray(V), strided[::2, ::3], V[::-1][::-1], V.astype(int), V.tolist()):
        assert np.array_equal(A @ same, expected)
    _check_product(A, V, A @ V.astype(np.float32))


def blocks_of_dense(A: Operator) -> None:
    n, m = A.shape
    dense, mask = A.dense(), problems.normal(n, seed=12) > 0
    some, others = [3, 0, 3, n - 1], np.array([-1, 2, -m])
    pairs: list[tuple[Any, Any, Any]] = [
        (slice(2, 9), slice(None), dense[2:9]),
        (slice(None, None, -3), slice(1, None, 2), dense[::-3, 1::2]),
        (mask, slice(None), dense[mask]),
        (some, others, dense[some][:, others]),
        (mask, others, dense[mask][:, others]),
        (-2, 1, dense[-2:-1, 1:2]),
        (np.array([], int), slice(None), dense[:0]),
        ([], [], dense[:0, :0]),
    ]
    for rows, columns, expected in pairs:
        actual = A.block(rows, columns)
        assert_within(actual, expected, 2 * tolerances.entry(dense, A.dtype))
        assert actual.dtype == A.dtype
    assert_within(A.columns(others), dense[:, others], 2 * tolerances.entry(dense, A.dtype))


def diagonal_of_dense(A: Operator) -> None:
    dense = A.dense()
    assert_within(A.diag(), np.diagonal(dense), 2 * tolerances.entry(dense, A.dtype))


def results_are_new(A: Operator) -> None:
    """Writing to what an operator returned changes neither the operator nor its arguments."""
    V = problems.right_hand_sides(A.shape[1])
    V.flags.writeable = False
    first = [A @ V, A.diag(), A.dense(), A.block(slice(3), slice(3))]
    kept = copy.deepcopy(first)
    for result in first:
        result[...] = np.nan
    second = [A @ V, A.diag(), A.dense(), A.block(slice(3), slice(3))]
    assert all(np.array_equal(a, b) for a, b in zip(second, kept, strict=True))


def pickled_operator(A: Operator) -> None:
    again, v = pickle.loads(pickle.dumps(A)), problems.right_hand_sides(A.shape[1])
    assert again == A
    assert hash(again) == hash(A)
    assert repr(again) == repr(A)
    assert np.array_equal(again @ v, A @ v)


def unequal_operator(A: Operator) -> None:
    assert A == A
    assert A != 2.0 * A
    assert A + A != A
    assert A != "operator"
    assert A.dense().tolist() != A


def scipy_operator(A: Operator) -> None:
    V, W = problems.right_hand_sides(A.shape[1]), problems.right_hand_sides(A.shape[0])
    wrapped = scipy.sparse.linalg.aslinearoperator(A)
    assert wrapped.shape == A.shape
    assert wrapped.dtype == A.dtype
    _check_product(A, V[:, 0], wrapped @ V[:, 0])
    _check_product(A, V, wrapped @ V)
    assert_within(wrapped.rmatvec(W[:, 0]), A.rmatvec(W[:, 0]), 0.0)


def sums_and_multiples(A: Operator) -> None:
    dense = A.dense().astype(np.float64)
    allowed = 8 * tolerances.entry(dense, A.dtype)
    assert_within((A + A).dense(), 2 * dense, allowed)
    assert_within((3 * A).dense(), 3 * dense, allowed)
    assert_within((A * np.float64(-0.5)).diag(), -0.5 * np.diagonal(dense), allowed)
    if A.shape[0] == A.shape[1]:
        noise = np.linspace(1.0, 2.0, len(A))
        assert_within((A + noise).dense(), dense + np.diag(noise), allowed + tolerances.entry(2.0, A.dtype))
        assert_within((0.25 + A).dense(), dense + 0.25 * np.eye(len(A)), allowed + tolerances.entry(0.25, A.dtype))


OPERATOR_LAWS: list[Callable[[Operator], None]] = [
    product_is_dense_product,
    transposed_product_is_dense_product,
    linear,
    adjoint,
    number_types,
    no_columns,
    any_right_hand_side,
    blocks_of_dense,
    diagonal_of_dense,
    results_are_new,
    pickled_operator,
    unequal_operator,
    scipy_operator,
    sums_and_multiples,
]


# Solvers


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
    _gram(COMPOSITE, problems.SMALL) + 0.1,
    _gram(RBF(0.8), problems.LARGE) + 0.5,
    _gram(COMPOSITE, problems.LARGE) + np.linspace(0.1, 2.0, problems.LARGE[0]),
    Dense(_positive_definite(30)),
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
