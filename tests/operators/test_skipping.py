"""Tile pairs that vanish: what is left out cannot be seen, and nothing else changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import problems
import tolerances
from laws import COMPOSITE, KERNELS, NESTED, assert_gradient
from laws.kernels import matrix_slopes
from precog import RBF, Constant, Gram, Linear, Matern12, Matern32, Matern52, RationalQuadratic, White
from precog.codegen.layout import BLOCK
from precog.kernels import Kernel, Stationary
from precog.operators import bounds, panels, skipping
from tolerances import assert_within

Array = np.ndarray[Any, Any]

# No multiples of a tile, and along one column most tiles lie apart.
N, M = 2803, 2100
X = np.random.default_rng(1).uniform(size=(N, 3)) * np.array([8.0, 1.0, 1.0])
Z = np.random.default_rng(2).uniform(size=(M, 3)) * np.array([8.0, 1.0, 1.0])
# Leaves whose loops the laws compile, at short length scales.
SHORT: list[Kernel] = [RBF(0.02), NESTED.with_theta(np.log([0.8, 5e-3, 0.5, 0.4, 0.1, 0.2]))]
TYPES = [(SHORT[0], "float64"), (SHORT[0], "float32"), (SHORT[1], "float64")]
every_type = pytest.mark.parametrize(("kernel", "dtype"), TYPES, ids=str)


def unsorted(K: Gram) -> Gram:
    """Return the operator with its rows as they were given and nothing left out."""
    plain = Gram(K.kernel, K.X, K.Z, K.dtype, K.threads)
    plain._fused.__dict__["_sorted"] = None
    return plain


def left_out(K: Gram, *, slopes: bool = False) -> Array:
    """Return which entries a product (a sum of derivatives) with the smallest tiles leaves out, (n, m)."""
    found = K._fused._sorted
    assert found is not None
    rows, columns = (np.arange(0, n, skipping.SMALLEST_TILE) for n in K.shape)
    tiles = found.skips((0, 1), (rows, columns), slopes=slopes).astype(bool)
    order, other = found.orders
    mask = np.empty(K.shape, bool)
    mask[np.ix_(order, other)] = np.repeat(np.repeat(tiles, 256, axis=0), 256, axis=1)[: len(order), : len(other)]
    return mask


@pytest.mark.parametrize("Z", [None, Z], ids=["symmetric", "rectangular"])
@every_type
def test_products(kernel, dtype, Z):
    K = Gram(kernel, X, Z, dtype=dtype)
    assert K.skipped > skipping.WORTH
    dense = kernel(X, Z)
    V, W = problems.right_hand_sides(K.shape[1]), problems.right_hand_sides(N)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
    assert K.path == "fused"
    assert_within(K.rmatmat(W), dense.T @ W, tolerances.product(dense.T, W, dtype))


@pytest.mark.parametrize("Z", [None, Z], ids=["symmetric", "rectangular"])
@every_type
def test_what_is_left_out_is_below_the_square_of_rounding(kernel, dtype, Z):
    K = Gram(kernel, X, Z, dtype=dtype)
    lost = left_out(K)
    assert lost.mean() > skipping.WORTH
    dense = kernel(X, Z)
    entries = np.where(lost, dense, 0.0)
    # In units of the largest entry of each column, which no sum with that column can be without. Entries below the
    # smallest normal number count as zero.
    largest = np.maximum(dense.max(axis=0), np.finfo(dtype).tiny)
    allowed = np.finfo(dtype).eps ** 2 + N * np.finfo(dtype).tiny / largest.min() * (Z is not None)
    assert (entries / largest).sum(axis=1).max() <= allowed


def test_the_mean_of_a_posterior_far_from_the_data():
    """A matrix whose largest entry is 1e-60 keeps its digits: what matters is the size of the other entries."""
    away = Z[:1500] + np.array([8.0 + 16.0 * 0.1, 0.0, 0.0])
    K = Gram(RBF(0.1), X, away)
    dense, V = K.kernel(X, away), problems.right_hand_sides(len(away))
    assert 0 < dense.max() < 1e-20
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.path == "fused"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_derivatives(dtype):
    K, R = Gram(SHORT[0], X, dtype=dtype), Gram(SHORT[0], X, Z, dtype=dtype)
    A, B, C = problems.right_hand_sides(N), problems.right_hand_sides(N, seed=5), problems.right_hand_sides(M)
    assert left_out(K, slopes=True).mean() > skipping.WORTH
    assert left_out(R, slopes=True).mean() > skipping.WORTH
    assert_gradient(K, A, B)
    assert_gradient(R, A, C)


def test_derivatives_of_sums_and_products():
    K = Gram(SHORT[1], X)
    assert left_out(K, slopes=True).mean() > skipping.WORTH
    A, B = problems.right_hand_sides(N), problems.right_hand_sides(N, seed=5)
    plain = unsorted(K).grad(A, B)
    weights = np.abs(A @ B.T)
    # Entries are of size one, and so are their derivatives.
    assert_within(K.grad(A, B), plain, tolerances.entry(weights.sum()) + tolerances.rounding(N, weights.sum()))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_derivatives_in_the_inputs(dtype):
    R = Gram(SHORT[0], X, Z, dtype=dtype)
    A, B = problems.right_hand_sides(N), problems.right_hand_sides(M)
    assert left_out(R, slopes=True).mean() > skipping.WORTH
    slopes = unsorted(R).grad_inputs(A, B)
    assert_within(R.grad_inputs(A, B), slopes, 2 * tolerances.difference(float(np.abs(slopes).max()), dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_number_of_threads_changes_no_bit(dtype):
    def uses(threads: int) -> list[Array]:
        K, R = (Gram(SHORT[0], X, side, dtype=dtype, threads=threads) for side in (None, Z))
        V, W = problems.right_hand_sides(N), problems.right_hand_sides(M)
        assert K.skipped > skipping.WORTH
        assert R.skipped > skipping.WORTH
        return [K @ V, R @ W, R.rmatmat(V), K.grad(V, V[::-1]), R.grad(V, W), R.grad_inputs(V, W)]

    one, two, eight = (uses(threads) for threads in (1, 2, 8))
    assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(one, two, eight, strict=True))


@pytest.mark.parametrize("kernel", [RBF(0.8), COMPOSITE], ids=str)
def test_where_little_vanishes_nothing_changes(kernel):
    K, V = Gram(kernel, X), problems.right_hand_sides(N)
    assert K.skipped == 0.0
    assert K._fused._sorted is None
    assert np.array_equal(K @ V, unsorted(K) @ V)


@pytest.mark.parametrize(
    ("kernel", "skips"),
    [
        (RBF(0.004), True),
        (Matern52([0.001, 0.001, 1e3]), True),
        (1.3 * RBF(0.004) * Linear(), True),
        ((RBF(0.004) + 0.5 * Matern32(0.001)) ** 2 + White(0.1), True),
        (RationalQuadratic(1e-3, alpha=0.5), False),
        (RBF(0.004) + Constant(0.01), False),
        (RBF(0.004) + 1e-3 * Linear(), False),
        (RBF(0.004) + RBF(1.0), False),
        (Linear() * 2.0, False),
    ],
    ids=str,
)
def test_every_term_must_vanish(kernel, skips):
    points = X + 1.0  # away from the root of the dot product
    assert (Gram(kernel, points).skipped > 0.0) == skips


def test_kernels_of_the_user_take_part_if_they_say_so():
    class Silent(Stationary):
        def formula(self, s: Any, p: Any) -> Any:
            return np.exp(-0.5 * s)

    class Falling(Silent):
        decreasing = True

    assert Gram(Silent(0.004), X).skipped == 0.0
    assert Gram(Falling(0.004), X).skipped == Gram(RBF(0.004), X).skipped > 0.0


def test_few_rows_and_objects_leave_nothing_out():
    assert Gram(RBF(1e-4), X[:200]).skipped == 0.0
    assert Gram(RBF(1e-4), X[: skipping.FEWEST - 1]).skipped == 0.0
    assert Gram(RBF(1e-4), X[: skipping.FEWEST]).skipped > 0.0


def test_many_columns_take_the_loops_that_skip():
    """Panels leave nothing out, and take rows as they were given, whatever order other products put them in."""
    K, columns = Gram(RBF(1e-4), X), 24
    V = problems.right_hand_sides(N, columns)
    assert Gram(RBF(0.8), X).path_for(columns) == "panels"
    assert K.path_for(columns) == "fused"
    assert K.path_for(1000) == "panels"
    dense = K.kernel(X)
    by_loops = K @ V
    assert K.path == "fused"
    by_panels = panels.matmat(K._fused, V, None, transposed=False)
    for product in (by_loops, by_panels):
        assert_within(product, dense @ V, tolerances.product(dense, V))
    rows = np.arange(0, N, 3)
    assert_within(K.block(rows, slice(0, 700)), dense[rows, :700], tolerances.entry(dense))


@pytest.mark.parametrize("n", [1, 255, 256, 257, 768, 1300, 5000])
def test_spatial_order_keeps_parts_together(n):
    U = problems.normal(n, 3)
    order = skipping.spatial_order(U, 256)
    assert np.array_equal(np.sort(order), np.arange(n))
    volumes = [np.prod(np.ptp(A[i : i + 256], axis=0)) for A in (U, U[order]) for i in range(0, n, 256)]
    before, after = volumes[: len(volumes) // 2], volumes[len(volumes) // 2 :]
    assert sum(after) < sum(before) if n > 256 else np.array_equal(order, np.arange(n))


def test_tiles_of_either_length_are_parts_of_the_tree():
    """Along a line parts do not overlap, whatever the number of rows."""
    for n in (1000, 2304, 5000, 7168):
        line = problems.normal(n, 1)
        in_order = line[skipping.spatial_order(line, 256), 0]
        for tile in (256, 512):
            parts = sorted((in_order[i : i + tile].min(), in_order[i : i + tile].max()) for i in range(0, n, tile))
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(parts))


def some_ranges(kernel: Kernel, sizes: tuple[int, int]) -> tuple[Array, Array, bounds.Ranges, bounds.Ranges]:
    """Return two sides in ranges of `BLOCK` neighbours."""
    A, B = (U[np.argsort(U[:, 0])] for U in problems.sides(kernel, sizes))
    features = skipping._features(kernel, A, B)
    return A, B, *(bounds.ranges(kernel, U, f, BLOCK) for U, f in zip((A, B), features, strict=True))


def by_ranges(K: Array, rule: np.ufunc) -> Array:
    rows, columns = (np.arange(0, n, BLOCK) for n in K.shape)
    return rule.reduceat(rule.reduceat(np.abs(K), rows, axis=0), columns, axis=1)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_bounds_hold(kernel):
    A, B, rows, columns = some_ranges(kernel, problems.LARGE)
    K = kernel(A, B)
    slack = 1.0 + len(kernel.leaves()) * 16 * tolerances.EPS
    assert (by_ranges(K, np.maximum) <= bounds.upper(kernel, rows, columns) * slack).all()
    assert (by_ranges(K, np.minimum) * slack >= bounds.lower(kernel, rows, columns)).all()


PLAIN = [kernel for kernel in KERNELS if bounds.bounds_slopes(kernel)]


def test_some_kernels_have_bounds_on_their_derivatives():
    assert {RBF(0.8), Matern12(1.2), NESTED} <= set(PLAIN)
    assert COMPOSITE not in PLAIN
    assert not bounds.bounds_slopes(RBF() ** 0.5)
    assert not bounds.bounds_slopes(1.0 + RBF() * (RBF() + 2.0) ** 0.5)


@pytest.mark.parametrize("kernel", PLAIN, ids=str)
@pytest.mark.parametrize("shrunk", [1.0, 0.1])
def test_bounds_on_derivatives_hold(kernel, shrunk):
    kernel = kernel.with_theta(kernel.theta + np.log(shrunk))
    A, B, rows, columns = some_ranges(kernel, problems.SMALL)
    degree = len(kernel.leaves())
    allowed = degree * bounds.upper(kernel, rows, columns, slopes=True) * (1.0 + 1e-6)
    for slope in matrix_slopes(kernel, A, B):
        assert (by_ranges(slope, np.maximum) <= allowed + tolerances.difference(1.0)).all()
