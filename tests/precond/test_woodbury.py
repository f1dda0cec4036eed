"""P = E + F F' in its stable form: with noise that is tiny next to F, in float32, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from precog import RBF, Dense, Gram, precond
from precog.precond import woodbury
from precog.precond.base import Report
from precog.precond.parts import Diagonal
from precog.precond.woodbury import orthogonalise, storage
from tolerances import assert_within

N, RANK = 80, 12
FACTOR = np.linalg.qr(problems.normal(N, RANK, seed=111))[0] * np.logspace(1, -2, RANK)


def build(noise, dtype="float64"):
    E = Diagonal(np.full(N, noise))
    return woodbury.woodbury(E, FACTOR.astype(dtype), Report("test", RANK), Dense(np.eye(N)) + noise)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6])
def test_orthogonalise(size):
    """[G; I] = [Q; R⁻¹] R with orthonormal columns, by a second pass where one is not enough."""
    G = size * FACTOR
    Q = G.copy()
    R = orthogonalise(Q)
    assert np.array_equal(R, np.triu(R))
    assert_within(Q @ R, G, tolerances.rounding(RANK, 10 * size * np.abs(FACTOR).max()))
    inverse = np.linalg.inv(R)
    assert_within(Q.T @ Q + inverse.T @ inverse, np.eye(RANK), 1e-7 if size <= 1e2 else 1e-9)
    assert_within(R.T @ R, np.eye(RANK) + G.T @ G, tolerances.rounding(N, 1.0 + (G**2).sum()))


@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-8, 1e-12])
def test_tiny_noise(noise):
    """P⁻¹ on the range of F, where two numbers of size 1 / noise cancel, keeps the digits that the condition leaves."""
    P, exact = build(noise), FACTOR @ FACTOR.T + noise * np.eye(N)
    assert_within(P.matmat(np.eye(N)), exact, 1e-13 * exact.max() * N)
    along = FACTOR / np.linalg.norm(FACTOR, axis=0)
    expected = along / ((FACTOR**2).sum(axis=0) + noise)
    assert_within(P.solve(along), expected, 1e-14 / noise)
    values = np.linalg.eigvalsh(0.5 * (P.solve(np.eye(N)) + P.solve(np.eye(N)).T))
    if noise >= 1e-12:
        assert values[0] > 0
    logdet = (N - RANK) * np.log(noise) + np.log((FACTOR**2).sum(axis=0) + noise).sum()
    assert P.logdet() == pytest.approx(logdet, rel=1e-9)


def test_a_factor_that_is_too_large_for_its_noise():
    with pytest.raises(ArithmeticError, match="too large for its noise: add noise, or lower the rank"):
        orthogonalise(np.ones((N, 2)) * 1e12)


@pytest.mark.parametrize("blocks", [None, "contiguous"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_solve_gives_float64_for_everything(dtype, blocks):
    """Whatever the factors and the right-hand sides are stored in; rows that do not fit are refused."""
    A = Gram(RBF(0.8), problems.normal(N, 3, seed=112)) + 0.1
    if blocks:
        P = precond.make("pitc", A, rng=0, dtype=dtype, blocks=blocks)
    else:
        P = precond.make("nystrom", A, rng=0, dtype=dtype)
    assert P.H.dtype == P.report().dtype == dtype
    V = np.round(4 * problems.right_hand_sides(N))
    expected = P.solve(V)
    assert expected.dtype == np.float64
    for same in (np.asfortranarray(V), V[::-1][::-1], V.astype(np.float32)):
        assert P.solve(same).dtype == np.float64
        assert_within(P.solve(same), expected, 1e-5 * np.abs(expected).max())
    with pytest.raises(ValueError, match=f"V has 3 rows, the preconditioner {N}"):
        P.solve(np.ones((3, 1)))
    assert P.shape == (N, N)
    assert "preconditioner of rank" in repr(P)


def test_storage(monkeypatch):
    """float32 from some thousand rows on, and only where it is definite."""
    rows, ratio = woodbury.SINGLE_ROWS, woodbury.SINGLE_RATIO
    noise = np.array([0.5, 1.0])
    assert storage("auto", 1.0, noise, rows) == np.float32
    assert storage("auto", 1.0, noise, rows - 1) == np.float64
    assert storage("auto", 0.51 * ratio, noise, rows) == np.float64
    assert storage("auto", 0.49 * ratio, noise, rows) == np.float32
    assert storage("float32", 1.0, noise, 5) == np.float32
    assert storage("float64", 1.0, noise, rows) == np.float64
    with pytest.raises(ValueError, match=r'not be positive definite at noise 0\.5, .*; use dtype="auto" or "float64"'):
        storage("float32", 0.51 * ratio, noise, rows)
    monkeypatch.setattr(woodbury, "SINGLE_ROWS", 50)
    A = Gram(RBF(0.8), problems.normal(N, 3, seed=112)) + 0.1
    assert precond.make("nystrom", A, rng=0).report().dtype == "float32"
    with pytest.raises(ValueError, match="dtype must be one of auto, float32, float64; got 'float16'"):
        precond.make("nystrom", A, dtype="float16")


def test_a_condition_that_cannot_be_estimated_is_none():
    """A factor of NaN lets conjugate gradients take no step."""
    P = build(0.1)
    P.H[...] = np.nan
    assert P.report().condition is None
