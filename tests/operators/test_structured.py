"""Kronecker products and interpolation from grids, against NumPy."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
import scipy.sparse

import problems
import tolerances
from laws import OPERATOR_LAWS
from precog import RBF, Dense, Gram
from precog.operators import Operator, structured
from precog.operators.structured import Interpolated, Kronecker, grid_for, interpolation
from tolerances import assert_within


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    A = problems.normal(n, n, seed=seed)
    return A + A.T


FACTORS = [symmetric(2), symmetric(3, seed=1), symmetric(1), symmetric(5, seed=2)]
X = problems.normal(40, 3)
GRID = grid_for(X, [3, 4, 5])
W = interpolation(X, GRID)
SYMMETRIC = Kronecker([symmetric(3), symmetric(4), symmetric(5)])
# A row without weights, one with a single one, and columns nobody uses.
RAGGED = scipy.sparse.csr_array(np.where(problems.normal(30, 12) > 0.8, problems.normal(30, 12, seed=1), 0.0))

STRUCTURED: list[Operator] = [
    Kronecker(FACTORS),
    Kronecker([symmetric(7)]),
    Kronecker([A.astype(np.float32) for A in FACTORS]),
    Interpolated(W, SYMMETRIC),
    Interpolated(W, SYMMETRIC).astype("float32"),
    Interpolated(RAGGED, Dense(problems.normal(12, 12))),
    Interpolated(RAGGED, Gram(RBF(), problems.normal(12, 2))) + 0.5,
]


@pytest.mark.parametrize("law", OPERATOR_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("operator", STRUCTURED, ids=range(len(STRUCTURED)))
def test_operator(operator, law):
    law(operator)


def test_kronecker_is_the_product_of_numpy():
    K, dense = Kronecker(FACTORS), reduce(np.kron, FACTORS)
    V = problems.right_hand_sides(30)
    assert_within(K.dense(), dense, tolerances.entry(dense))
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.sizes == (2, 3, 1, 5)
    assert repr(K) == "Kronecker(<2 x 2>, <3 x 3>, <1 x 1>, <5 x 5>)"


def test_kronecker_of_many_factors():
    """More axes than an array of NumPy can have."""
    K = Kronecker([np.array([[2.0]])] * 60 + [symmetric(3)] * 2 + [np.array([[0.5]])] * 60)
    expected = np.kron(symmetric(3), symmetric(3))
    assert_within(K.dense(), expected, tolerances.entry(expected))
    assert_within(K @ np.eye(9), expected, tolerances.product(expected, np.eye(9)))


def test_interpolated_is_the_product_of_numpy():
    A, dense = Interpolated(W, SYMMETRIC), W.toarray() @ SYMMETRIC.dense() @ W.toarray().T
    V = problems.right_hand_sides(40)
    assert_within(A.dense(), dense, tolerances.entry(dense))
    assert_within(A @ V, dense @ V, tolerances.product(dense, V))
    assert_within(A.block([3, 1], slice(5, 30)), dense[[3, 1], 5:30], tolerances.entry(dense))
    assert_within(A.block(slice(5, 30), [3, 1]), dense[5:30, [3, 1]], tolerances.entry(dense))
    assert repr(A) == "Interpolated(W=<40 x 60>, K=Kronecker(<3 x 3>, <4 x 4>, <5 x 5>))"


def test_blocks_of_columns_and_rows_make_no_difference(monkeypatch):
    A, V = Interpolated(W, SYMMETRIC), problems.right_hand_sides(40, 5)
    whole = A @ V, A.dense(), A.diag()
    monkeypatch.setattr(structured, "COLUMN_BLOCK", 60)
    monkeypatch.setattr(structured, "DIAGONAL_BLOCK", 1)
    assert_within(A @ V, whole[0], tolerances.product(whole[1], V))
    assert_within(A.dense(), whole[1], tolerances.entry(whole[1]))
    assert_within(A.diag(), whole[2], tolerances.entry(whole[1]))


def test_weights_are_kept_in_one_form():
    """The order of entries and how they are split make no difference to what is stored."""
    plain = scipy.sparse.csr_array(([1.0, 2.0, 3.0], ([0, 0, 1], [0, 2, 1])), shape=(2, 3))
    split = scipy.sparse.coo_array(([2.0, 0.5, 3.0, 0.5], ([0, 0, 1, 0], [2, 0, 1, 0])), shape=(2, 3))
    one, other = Interpolated(plain, Dense(np.eye(3))), Interpolated(split, Dense(np.eye(3)))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Interpolated(2.0 * plain, Dense(np.eye(3)))
    with pytest.raises(ValueError, match="read-only"):
        one.W.data[0] = 2.0
    plain.data[0] = 1.0


def test_factors_are_kept():
    mine = symmetric(3)
    K = Kronecker([mine])
    mine[:] = 0.0
    assert Kronecker([symmetric(3)]) == K
    with pytest.raises(ValueError, match="read-only"):
        K.factors[0][0, 0] = 1.0


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([], "at least one matrix"),
        ([np.eye(2), np.ones((2, 3))], r"factors\[1\] must be square, it is 2 x 3"),
        ([np.array([[1.0, 2.0], [3.0, 1.0]])], r"symmetric; its entries \(0, 1\) and \(1, 0\) differ"),
        ([np.array([[np.nan]])], "finite"),
    ],
)
def test_wrong_factors(factors, message):
    with pytest.raises(ValueError, match=message):
        Kronecker(factors)


def test_types():
    A = Interpolated(W, SYMMETRIC)
    assert A.astype("float64") is A
    assert SYMMETRIC.astype(np.float64) is SYMMETRIC
    narrow = A.astype("float32")
    assert (narrow.dtype, narrow.W.dtype, narrow.K.dtype) == (np.float32,) * 3
    assert Interpolated(W, SYMMETRIC.astype("float32")).dtype == np.float64


def test_wrong_weights():
    with pytest.raises(ValueError, match="W has 60 columns, so K must be 60 x 60; it is 3 x 3"):
        Interpolated(W, Dense(np.eye(3)))
    with pytest.raises(ValueError, match="row 1 has nan"):
        Interpolated(scipy.sparse.csr_array([[1.0, 0.0], [0.0, np.nan]]), Dense(np.eye(2)))
    with pytest.raises(TypeError, match="real numbers"):
        Interpolated(scipy.sparse.csr_array([[1.0j]]), Dense(np.eye(1)))


def values_on(grid: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1).reshape(-1, len(grid))


@pytest.mark.parametrize("order", ["nearest", "linear", "cubic"])
def test_weights_add_up_to_one(order):
    for grid in (grid_for(X, 6, order=order), grid_for(X, [4, 1, 7], order=order)):
        weights = interpolation(X, grid, order)
        assert weights.shape == (40, np.prod([len(axis) for axis in grid]))
        assert_within(weights.sum(axis=1), np.ones(40), tolerances.rounding(64, 2.0))


# What the weights of each order are exact for, up to its degree in each column.
FUNCTIONS = {
    "nearest": lambda X: np.ones(len(X)),
    "linear": lambda X: 2.0 + X[:, 0] - 3.0 * X[:, 1] * X[:, 2],
    "cubic": lambda X: 1.0 + X[:, 0] ** 2 * X[:, 1] - 2.0 * X[:, 1] ** 2 * X[:, 2] ** 2,
}


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("order", FUNCTIONS)
def test_interpolation_is_exact_for_polynomials(order, padded):
    """At the ends of an axis too, where cubic weights have no neighbour to lean on."""
    grid = grid_for(X, 5, order=order if padded else "linear")
    f, weights = FUNCTIONS[order], interpolation(X, grid, order)
    values = f(values_on(grid))
    size = float((np.abs(weights) @ np.abs(values)).max())
    # Positions on the axes are rounded too, and weights are slopes of at most 3 in each of three columns.
    assert_within(weights @ values, f(X), 10 * tolerances.rounding(64, size))


def test_nearest_points_are_nearest():
    grid = grid_for(X, 5)
    chosen = interpolation(X, grid, "nearest") @ values_on(grid)
    for k, axis in enumerate(grid):
        nearest = axis[np.abs(X[:, k, None] - axis).argmin(axis=1)]
        assert np.array_equal(chosen[:, k], nearest)


def test_grids_cover_the_data():
    for order in ("nearest", "linear"):
        for x, axis in zip(X.T, grid_for(X, 6, order=order), strict=True):
            assert len(axis) == 6
            assert (axis[0], axis[-1]) == (x.min(), x.max())
    for x, axis in zip(X.T, grid_for(X, 6, order="cubic"), strict=True):
        assert len(axis) == 6
        assert axis[0] < axis[1] <= x.min() + tolerances.rounding(4, 10.0)
        assert x.max() <= axis[-2] + tolerances.rounding(4, 10.0) < axis[-1]


def test_constant_columns_have_one_point():
    constant = np.c_[X[:, 0], np.full(40, 2.5)]
    grid = grid_for(constant, 4)
    assert [len(axis) for axis in grid] == [4, 1]
    assert grid[1][0] == 2.5
    assert interpolation(constant, grid).shape == (40, 4)


def test_refusals():
    many = np.zeros((10, 7)) + np.arange(10)[:, None]
    with pytest.raises(ValueError, match=r"cubic interpolation in 7 columns has 16384 weights.*order=\"linear\""):
        interpolation(many, grid_for(many, 4, order="cubic"), "cubic")
    assert interpolation(many, grid_for(many, 4)).shape == (10, 4**7)
    with pytest.raises(ValueError, match="200 x 200 x 200 has 8000000 points, more than 5000000"):
        interpolation(X, grid_for(X, 200))
    with pytest.raises(ValueError, match="at least 4 points on an axis, got 3"):
        grid_for(X, 3, order="cubic")
    with pytest.raises(ValueError, match="at least 4 points on an axis, got 3"):
        interpolation(X, grid_for(X, 3), "cubic")
    with pytest.raises(ValueError, match="row 1 of X has 9 in column 0, outside the grid from 0 to 1"):
        interpolation(np.array([[0.5], [9.0]]), [np.linspace(0, 1, 3)])
    with pytest.raises(ValueError, match="order must be one of nearest, linear, cubic"):
        interpolation(X, GRID, "quintic")
    with pytest.raises(ValueError, match="the grid has 2 axes, X 3 columns"):
        interpolation(X, GRID[:2])
    with pytest.raises(ValueError, match="points has 2 entries, X 3 columns"):
        grid_for(X, [3, 4])
