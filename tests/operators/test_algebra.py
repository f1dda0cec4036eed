"""Sums, multiples and noise, and stored matrices."""

from __future__ import annotations

import numpy as np
import pytest

import problems
import tolerances
from precog import RBF, Dense, Gram, LowRank
from precog.operators import Noisy, Scaled, Sum
from tolerances import assert_within

X = problems.normal(40, 3)
K = Gram(RBF(0.8), X)
L = LowRank(problems.normal(40, 4))


def test_a_number_or_a_vector_is_noise():
    for noise in (0.5, np.linspace(0.1, 1.0, 40)):
        for A in (K + noise, noise + K):
            assert isinstance(A, Noisy)
            assert_within(A.dense(), K.dense() + np.diag(np.broadcast_to(noise, 40)), tolerances.EPS)


def test_noise_adds_up():
    assert (K + 0.5) + 0.25 == K + 0.75
    assert (K + 0.5) + np.linspace(0, 1, 40) == K + (0.5 + np.linspace(0, 1, 40))
    assert K + 0.5 != K + 0.6
    assert K + np.full(40, 0.6) != K + 0.5


def test_sums_are_flat_and_scaled_ones_print():
    assert (K + L + Dense(np.eye(40)) + (K + L)).terms == (K, L, Dense(np.eye(40)), K, L)
    assert isinstance(2 * K, Scaled)
    assert repr(2 * (K + 0.5)) == f"2.0 * ({K!r} + 0.5)"
    assert repr(K + L) == f"{K!r} + LowRank(<40 x 40>, rank=4)"
    assert sum([K, L]).shape == (40, 40)


def test_noise_is_kept():
    noise = np.linspace(0.1, 1.0, 40)
    A = K + noise
    diagonal = A.diag()
    noise[:] = 9.0
    assert np.array_equal(A.diag(), diagonal)
    with pytest.raises(ValueError, match="read-only"):
        A.noise[0] = 1.0


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (-0.1, "noise must be finite and not negative, got -0.1"),
        (np.nan, "finite"),
        (np.r_[np.ones(39), -1.0], r"noise\[39\]"),
        (np.ones(3), r"shape \(40,\)"),
        (np.ones((40, 40)), r"shape \(40,\)"),
        ("much", "noise must be a number"),
    ],
)
def test_wrong_noise(noise, message):
    with pytest.raises(ValueError, match=message):
        K + noise


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="different shapes cannot be added"):
        K + Dense(np.eye(3))
    with pytest.raises(ValueError, match="noise goes on the diagonal of a square operator; this one is 40 x 10"):
        Gram(RBF(), X, X[:10]) + 0.1
    with pytest.raises(ValueError, match="as many columns as each other"):
        LowRank(np.ones((4, 2)), np.ones((4, 3)))


@pytest.mark.parametrize("factor", ["2", True, None])
def test_factors_are_numbers(factor):
    with pytest.raises(TypeError, match="the factor of an operator"):
        factor * K


def test_factors_are_finite():
    with pytest.raises(ValueError, match="finite"):
        np.inf * K


def test_arrays_leave_the_work_to_operators():
    V = problems.right_hand_sides(40)
    assert isinstance(np.float64(2.0) * K, Scaled)
    assert isinstance(np.ones(40) + K, Noisy)
    assert_within(V.T @ K, V.T @ K.dense(), tolerances.product(K.dense(), V))


def test_stored_matrices_are_read_only():
    mine = np.eye(3)
    for stored in (Dense(mine).A, LowRank(mine).F, LowRank(mine, mine).G):
        with pytest.raises(ValueError, match="read-only"):
            stored[0, 0] = 2.0
    mine[0, 0] = 1.0


def test_rank():
    assert L.rank == 4
    assert LowRank(np.ones((5, 2)), np.ones((3, 2))).shape == (5, 3)


def test_types_of_sums():
    single = Gram(RBF(0.8), X, dtype="float32")
    assert (single + 0.5).dtype == np.float32
    assert (2.0 * single).dtype == np.float32
    assert (single + K).dtype == np.float64
    assert Sum((single, single)).dtype == np.float32
