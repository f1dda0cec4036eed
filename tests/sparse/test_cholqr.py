"""CholQR: its post-conditions after thousands of operations, and objectives from its factors against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

import problems
from laws import FACTOR_LAWS
from precog import RBF, Dense, Gram, Linear, Matern12, Pairwise, White
from precog.inference import Model, Targets
from precog.operators import Congruent
from precog.sparse import DTC, FITC, VFE, Inducing, System
from precog.sparse.cholqr import PANEL, CholQR
from precog.sparse.objective import Objective

N = 120
X = problems.normal(N, 3, seed=31)
# A third of the rows is there twice.
REPEATED = np.concatenate([X[:80], X[:40]])
Y = np.stack([problems.noisy_values(X), X[:, 1]], axis=1)

# Name: an operator, and its noise.
MATRICES = {
    "smooth": (Gram(1.3 * RBF(1.0), X), 0.05),
    "rough": (Gram(0.5 * Matern12(0.3), X), 1.0),
    "repeated rows": (Gram(RBF(1.0), REPEATED), 1e-3),
    "rank three": (Gram(Linear(), X), 0.1),
    "nearly singular, little noise": (Gram(RBF(8.0), X), 1e-8),
    "large": (Gram(1e6 * RBF(1.0), X), 1e3),
    "identity added": (Gram(RBF(1.0) + 0.5 * White(1.0), X), 0.1),
    "scaled": (Congruent(Gram(RBF(1.0), X), np.linspace(0.1, 2.0, N)), 0.1),
    "one row": (Gram(RBF(1.0), X[:1]), 0.1),
}
every_matrix = pytest.mark.parametrize("name", MATRICES)


def lawful(factors: CholQR, K: np.ndarray) -> None:
    for law in FACTOR_LAWS:
        law(factors, K)


@every_matrix
def test_after_thousands_of_operations(name):
    K, noise = MATRICES[name]
    dense, rng = K.dense(), np.random.default_rng(5)
    n = len(dense)
    factors, refused, most = CholQR(K, noise, capacity=1), 0, 0
    for step in range(3000):
        kind = rng.random()
        if kind < 0.25:
            refused += not factors.one_step(int(rng.integers(n)))
        elif kind < 0.3:
            factors.m_step(rng.integers(n, size=3))
        elif kind < 0.8 and factors.m:
            factors.permute_to_right(int(rng.integers(factors.m)))
        elif factors.m:
            pivot = factors.pivots[-1]
            assert factors.remove_last() == pivot
        most = max(most, factors.m)
        if factors.m >= 30:
            for _ in range(20):
                factors.remove_last()
        if step % 500 == 0:
            lawful(factors, dense)
    lawful(factors, dense)
    assert refused > 0
    assert factors.drift() < 1e-9
    assert most >= min(np.linalg.matrix_rank(dense), 20)
    before = factors.pivots
    factors.refactor()
    assert factors.pivots == before
    lawful(factors, dense)


@every_matrix
def test_many_at_once_are_many_one_by_one(name):
    K, noise = MATRICES[name]
    rows = np.random.default_rng(2).permutation(K.shape[0])[: PANEL + 20]
    together, apart = CholQR(K, noise), CholQR(K, noise)
    assert together.m_step(rows) == sum(apart.one_step(int(row)) for row in rows) == together.m
    assert together.pivots == apart.pivots
    lawful(together, K.dense())
    scale = 1.0 + np.abs(apart.L).max()
    assert np.allclose(together.L, apart.L, atol=1e-7 * scale)
    assert np.allclose(together.R, apart.R, atol=1e-7 * scale * np.sqrt(K.shape[0]))


def test_pivots_without_a_residual_are_refused():
    factors = CholQR(Gram(RBF(1.0), REPEATED), 0.1)
    assert factors.one_step(3)
    assert not factors.one_step(3)
    assert not factors.one_step(83)
    assert factors.m_step([83, 4, 84, 4, 3, 5]) == 2
    assert factors.pivots == [3, 4, 5]


def test_as_many_pivots_as_the_rank():
    assert CholQR(Gram(Linear(), X), 0.1).m_step(np.arange(N)) == 3
    assert CholQR(Gram(RBF(1.0), REPEATED), 0.1).m_step(np.arange(N)) <= 80
    full = CholQR(Gram(Matern12(0.5), X), 0.1)
    assert full.m_step(np.arange(N)) == N
    assert not full.d.any()


def test_permuting_changes_nothing_but_the_order():
    K = Gram(RBF(1.0), X)
    factors = CholQR(K, 0.1)
    factors.m_step(np.arange(50))
    projected = factors.Q @ (factors.Q.T @ Y)
    product, d = factors.L @ factors.L.T, factors.d.copy()
    factors.permute_to_right(3)
    assert factors.pivots == [*range(3), *range(4, 50), 3]
    assert np.allclose(factors.L @ factors.L.T, product, atol=1e-12)
    assert np.allclose(factors.Q @ (factors.Q.T @ Y), projected, atol=1e-12)
    assert np.array_equal(factors.d, d)
    factors.permute_to_right(49)
    assert factors.pivots[-1] == 3


def test_only_the_diagonal_and_columns_are_looked_at():
    class Watched(Dense):
        def __init__(self, A):
            super().__init__(A)
            self.asked = 0

        def block(self, rows, columns):
            taken = super().block(rows, columns)
            self.asked += taken.size
            return taken

    K = Watched(Gram(RBF(1.0), X).dense())
    factors = CholQR(K, 0.1)
    factors.m_step([1, 2, 3])
    factors.permute_to_right(0)
    factors.remove_last()
    factors.one_step(7)
    assert K.asked == 4 * N


@pytest.mark.parametrize("how", [VFE, DTC], ids=["vfe", "dtc"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_objectives_are_those_of_the_approximations(how, outputs):
    model = Model(1.3 * RBF(1.0), 0.05, None)
    targets = Targets(X, Y[:, :outputs], np.zeros((N, 0)))
    factors, objective = CholQR(Gram(model.kernel, X), 0.05), Objective.of(how, targets.Y)
    for rows in ([], [4], list(range(20, 60))):
        factors.m_step(rows)
        if factors.m:
            expected = System(how, model, targets, Inducing.of(X, factors.pivots), jitter=0.0).value()
            assert objective.value(factors) == pytest.approx(expected, rel=1e-9)
    assert factors.m == 41


def test_other_objectives_are_refused():
    with pytest.raises(ValueError, match="of vfe or dtc, not that of fitc"):
        Objective.of(FITC, Y)


@pytest.mark.parametrize("bound", [True, False], ids=["vfe", "dtc"])
def test_gains_are_differences_of_the_objective(bound):
    """`last_gain` and `exact_gains` say what happens, and so does `gains` with a full factor of the residual."""
    K = Gram(1.3 * RBF(1.0), X)
    factors, objective = CholQR(K, 0.05), Objective(Y, bound)
    factors.m_step(np.arange(15))
    before, E = objective.value(factors), objective.missing(factors, 15)
    rows = np.array([40, 77, 100])
    columns = factors.residual(rows)
    exact = objective.exact_gains(factors, 15, E, rows, columns)
    residual = K.dense() - factors.L @ factors.L.T
    values, vectors = np.linalg.eigh(residual)
    seen = objective.gains(factors, 15, E, factors.d, vectors * np.sqrt(np.maximum(values, 0.0)))
    assert np.allclose(seen[rows], exact, rtol=1e-6, atol=1e-6)
    assert np.isneginf(seen[:15]).all()
    for row, column, gain in zip(rows, columns.T, exact, strict=True):
        factors.one_step(int(row), column)
        assert objective.value(factors) - before == pytest.approx(gain, rel=1e-9)
        assert objective.last_gain(factors) == pytest.approx(gain, rel=1e-9)
        factors.remove_last()


def test_matrices_that_are_not_positive_semidefinite():
    with pytest.raises(ArithmeticError, match="not positive semidefinite: given rows"):
        CholQR(Gram(Pairwise(apart), list(range(8))), 0.1).m_step([0, 7])
    with pytest.raises(ArithmeticError, match="its diagonal has -1 in row 2"):
        CholQR(Dense(np.diag([1.0, 2.0, -1.0])), 0.1)


def apart(a, b):
    return 1.0 + abs(a - b)
