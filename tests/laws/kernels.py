"""What every kernel must do, in NumPy and in compiled loops."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import precog
import problems
import tolerances
from precog import (
    RBF,
    Constant,
    Gram,
    HistogramIntersection,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
    parameter,
)
from precog.codegen import build
from precog.kernels import Additive, DotProduct, Kernel, Stationary, Statistic
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
