"""Structured kernel interpolation as a preconditioner."""

from __future__ import annotations

import importlib
from functools import reduce

import numpy as np
import pytest

import problems
import tolerances
from precog import RBF, Constant, Gram, Linear, Matern32, Periodic, Polynomial, RationalQuadratic, White
from precog.kernels import Kernel
from precog.operators import Congruent
from precog.operators.structured import grid_for, interpolation
from precog.precond.base import problem
from precog.precond.ski import Ski, kronecker_factors, ski
from precog.solvers import NotConverged
from tolerances import assert_within

# The package offers the function under the name of its module.
module = importlib.import_module("precog.precond.ski")
RNG = np.random.default_rng(0)
X = np.random.default_rng(5).uniform(-1.0, 1.0, (60, 3))
NOISE = np.linspace(0.05, 0.2, 60)
SCALE = np.linspace(0.5, 1.5, 60)
AXES = (np.linspace(-1.0, 1.0, 4), np.linspace(-2.0, 1.0, 3), np.linspace(0.0, 1.0, 5))
POINTS = np.stack(np.meshgrid(*AXES, indexing="ij"), axis=-1).reshape(-1, 3)

PRODUCTS: list[Kernel] = [
    RBF(0.8),
    RBF([0.5, 1.0, 2.0]),
    RBF([0.5, 1.0], columns=[2, 0]),
    Periodic([0.8, 1.1, 1.5], period=[4.0, 5.0, 6.0]),
    1.7 * RBF(0.9) * Periodic(0.7, period=3.0, columns=[1]),
    (0.5 * RBF(0.8, columns=[0]) ** 3 * Matern32(0.6, columns=[2])) ** 2,
    RationalQuadratic(0.9, alpha=0.7, columns=[1]) * Linear(columns=[0]) * Constant(0.3),
    (RBF(0.4, columns=[1]) + 0.5 * Polynomial(columns=[1]) + 0.1) * RBF(1.2, columns=[2]),
    Constant(1.3),
]


def build(kernel: Kernel, *, scaled: bool = False, **options) -> Ski:
    K = Gram(kernel, X)
    return ski(problem((Congruent(K, SCALE) if scaled else K) + NOISE), rank=None, rng=RNG, **options)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
def test_factors_make_the_kernel(kernel):
    expected, dense = kernel(POINTS), reduce(np.kron, kronecker_factors(kernel, AXES))
    assert_within(dense, expected, tolerances.entry(expected))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("order", ["nearest", "linear", "cubic"])
def test_matrix(order, scaled):
    """P is S W k(grid) W' S + D, spelt out."""
    kernel = 1.7 * RBF([0.5, 1.0, 2.0])
    axes = grid_for(X, 5, order=order)
    W = interpolation(X, axes, order).toarray()
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    S = np.diag(SCALE) if scaled else np.eye(60)
    dense = S @ W @ kernel(grid) @ W.T @ S + np.diag(NOISE)
    P, V = build(kernel, scaled=scaled, order=order, grid=5), problems.right_hand_sides(60)
    allowed = tolerances.product(np.abs(S @ W) @ kernel(grid) @ np.abs(S @ W).T, np.abs(V))
    assert_within(P.matmat(V), dense @ V, allowed + tolerances.product(dense, V))
    assert_within(P.jacobi.values, np.diagonal(dense), 10 * tolerances.entry(dense))
    left_out = (np.diagonal(S) ** 2 * kernel.diag(X)).sum() - np.trace(dense - np.diag(NOISE))
    assert P.report().trace == pytest.approx(left_out, abs=60 * tolerances.entry(dense))
    assert P.rank == P.report().rank == 125
    assert P.shape == (60, 60)
    assert not P.exact


@pytest.mark.parametrize("order", ["nearest", "linear", "cubic"])
def test_solves_to_its_tolerance(order):
    V = problems.right_hand_sides(60)
    for rtol in (1e-4, 1e-9):
        P = build(RBF([0.5, 1.0, 2.0]), scaled=True, order=order, rtol=rtol)
        residual = np.linalg.norm(P.matmat(P.solve(V)) - V, axis=0)
        assert np.all(residual <= 1.001 * rtol * np.linalg.norm(V, axis=0))
        steps = P.inner_iterations
        assert steps >= 2
        P.solve(V)
        assert P.inner_iterations == 2 * steps
        assert f"{2 * steps} inner iterations" in P.report().why
        assert P.unfinished == 0


def test_a_solve_that_got_nowhere_is_an_error():
    P = build(RBF(), max_iter=1)
    with pytest.raises(NotConverged, match="inner solve of the preconditioner 'ski': max iter after 1 iterations"):
        P.solve(problems.right_hand_sides(60))


def test_a_solve_that_rounding_ends_is_reported():
    P, v = ski(problem(Gram(RBF(2.0), X) + 1e-8), rtol=1e-15), np.ones((60, 1))
    residual = np.linalg.norm(P.matmat(P.solve(v)) - v) / np.linalg.norm(v)
    assert 1e-15 < residual <= np.sqrt(1e-15)
    assert P.unfinished == 1
    assert P.report().why.endswith("; 1 inner solves ended before rtol")


def dense(P: Ski) -> np.ndarray:
    return P.matmat(np.eye(P.shape[0]))


def test_log_determinant(monkeypatch):
    """Over the rows where there are fewer of them, else over the grid."""
    for grid in (3, 5):
        P = build(1.7 * RBF([0.5, 1.0, 2.0]), scaled=True, grid=grid)
        expected = np.linalg.slogdet(dense(P))[1]
        assert (P.rank < 60) == (grid == 3)
        assert P.logdet() == pytest.approx(expected, rel=1e-10)
    monkeypatch.setattr(module, "DETERMINANT_ROWS", 50)
    assert P.logdet() == pytest.approx(expected, rel=1e-10)
    monkeypatch.setattr(module, "DETERMINANT_POINTS", 100)
    with pytest.raises(NotImplementedError, match=r"at most 50 rows or 100 grid points, here are 60 and 125; estimate"):
        P.logdet()


def test_samples(monkeypatch):
    draws = 4000
    P = build(1.7 * RBF([0.5, 1.0, 2.0]), scaled=True, order="cubic", grid=5)
    covariance = dense(P)
    # Columns in several blocks.
    monkeypatch.setattr(module, "BLOCK", 1000 * P.rank)
    G = P.sample(np.random.default_rng(1), draws)
    assert G.shape == (60, draws)
    # The variance of a product of two normal numbers, C_ii C_jj + C_ij².
    variance = np.outer(np.diagonal(covariance), np.diagonal(covariance)) + covariance**2
    assert np.all(np.abs(G @ G.T / draws - covariance) <= 5.0 * np.sqrt(variance / draws))
    assert np.array_equal(P.sample(np.random.default_rng(1), 3), P.sample(np.random.default_rng(1), 3))


@pytest.mark.parametrize(("order", "grid", "error"), [("linear", 100, 2e-3), ("cubic", 40, 2e-4)])
@pytest.mark.parametrize("d", [1, 2])
def test_a_fine_grid_gives_the_kernel(d, order, grid, error):
    """Errors h²/8 |k''| and, for cubic weights, of third order with a small constant, for each column and side."""
    K = Gram(RBF(0.5), X[:, :d])
    P = ski(problem(K + 0.1), order=order, grid=grid)
    assert_within(dense(P), (K + 0.1).dense(), error)
    assert_within(P.report().trace, 0.0, 60 * error)


def test_default_grid():
    """n^(3 / 2d) points for each column, as far as the axes can be stored."""
    big = problems.normal(1030, 8)
    assert ski(problem(Gram(RBF(), big) + 0.1)).K.sizes == (4,) * 8
    assert build(RBF()).K.sizes == (8, 8, 8)
    assert ski(problem(Gram(RBF(columns=[1, 2]), big) + 0.1)).K.sizes == (1, 182, 182, 1, 1, 1, 1, 1)
    assert ski(problem(Gram(RBF(), big[:, :1]) + 0.1)).K.sizes == (1000,)
    assert build(Constant(1.3)).K.sizes == (1, 1, 1)


def test_given_grids():
    named = RBF(columns=[2, 0])
    assert build(RBF(), grid=3).K.sizes == (3, 3, 3)
    assert build(named, grid=[3, 5]).K.sizes == (3, 1, 5)
    assert build(named, grid=6, order="cubic").K.sizes == (6, 1, 6)
    assert ski(problem(Gram(RBF(), X) + 0.1), rank=64).K.sizes == (4, 4, 4)
    assert ski(problem(Gram(RBF(), X) + 0.1), rank=5).K.sizes == (2, 2, 2)
    assert ski(problem(Gram(RBF(), X) + 0.1), rank=5, order="cubic").K.sizes == (4, 4, 4)
    assert "linear interpolation from a grid of 3 x 5 points" in build(named, grid=[3, 5]).report().why


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (Matern32(0.5), "Matern32(length_scale=0.5) looks at 3 of them"),
        (2.0 * RBF() * RationalQuadratic(columns=[0, 1]), "RationalQuadratic"),
        (RBF(columns=[0]) + RBF(columns=[1]), "RBF(length_scale=1, columns=[1]) looks at 2 of them"),
        ((RBF() + 0.5) ** 2, "RBF(length_scale=1) + Constant(variance=0.5) looks at 3 of them"),
        (RBF() * (RBF() + White(0.1)), "White(noise=0.1) has no values between rows"),
    ],
    ids=str,
)
def test_kernels_that_are_no_products(kernel, part):
    with pytest.raises(ValueError, match="the preconditioner 'ski'") as caught:
        build(kernel)
    assert part in str(caught.value)
    assert "another preconditioner" in str(caught.value)


def test_refusals():
    with pytest.raises(TypeError, match="needs the inputs of a kernel on vectors"):
        ski(problem(2.0 * Gram(RBF(), X) + 0.1))
    with pytest.raises(ValueError, match="grid has 2 entries; the kernel looks at 3 columns"):
        build(RBF(), grid=[3, 4])
    with pytest.raises(ValueError, match="grid must be a whole number, at least 4; got 3"):
        build(RBF(), grid=3, order="cubic")
    wide = problems.normal(10, 20)
    with pytest.raises(ValueError, match="linear interpolation in 20 columns has 1048576 weights"):
        ski(problem(Gram(RBF(), wide) + 0.1))
    with pytest.raises(ValueError, match=r"Matern32.* looks at 20 of them"):
        ski(problem(Gram(Matern32(), wide) + 0.1))
    with pytest.raises(ValueError, match="axis 0 of the grid has 6000 points; at most 5000"):
        ski(problem(Gram(RBF(columns=[0]), X) + 0.1), grid=6000)
    with pytest.raises(ValueError, match="order must be one of nearest, linear, cubic"):
        build(RBF(), order="quadratic")
