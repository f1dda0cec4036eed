"""Ways to choose inducing inputs: the objective never falls, hard data are taken, and budgets are kept."""

from __future__ import annotations

import time

import numpy as np
import pytest

import problems
from precog import RBF, Gram, Linear, Matern32, Pairwise
from precog.inference import Model, Targets, marginal
from precog.inference.search import History
from precog.sparse import DTC, FITC, PITC, VFE, Inducing, System
from precog.sparse.cholqr import CholQR
from precog.sparse.continuous import by_gradient
from precog.sparse.discrete import alternate
from precog.sparse.objective import Objective
from precog.sparse.rules import RULES, by_rule
from precog.sparse.selection import KINDS, Information, candidate, grow, sweep
from precog.sparse.task import Budget, Chosen, Task

N = 150
X = problems.normal(N, 2, seed=41)
Y = problems.noisy_values(X)[:, None]
BOUNDS = (1e-4, 1e2)
MODEL = Model(1.0 * RBF([1.0, 1.0]), 0.1, BOUNDS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def targets(rows=slice(None), **more):
    return Targets(X[rows], Y[rows], np.zeros((len(Y[rows]), 0)), **more)


def task(data=None, m=10, seed=0, **more):
    return Task(targets() if data is None else data, m, np.random.default_rng(seed), **more)


def information(kind, size=8, seed=0, **more):
    return Information(kind, size, np.random.default_rng(seed), **more)


@every_kind
@pytest.mark.parametrize("bound", [True, False], ids=["vfe", "dtc"])
def test_sweeps_never_lower_the_objective(kind, bound):
    factors, objective = CholQR(Gram(RBF(0.7), X), 0.05), Objective(Y, bound)
    factors.m_step(np.arange(12))
    value, info, rng = objective.value(factors), information(kind), np.random.default_rng(1)
    swaps = 0
    for _ in range(4):
        swept = sweep(factors, objective, info, rng)
        assert swept.finished
        for new in swept.values:
            assert new > value
            value = new
        assert objective.value(factors) == pytest.approx(value, rel=1e-9)
        swaps += swept.swaps
    assert swaps >= 5
    assert factors.m == 12
    assert len(set(factors.pivots)) == 12


@every_kind
def test_with_all_rows_as_information_the_best_row_is_found(kind):
    """Then G G' is the whole residual, and no other row would have gained more."""
    factors, objective = CholQR(Gram(RBF(0.7), X), 0.05), Objective(Y)
    factors.m_step(np.arange(5))
    E = objective.missing(factors, 5)
    rows = np.arange(5, N)
    exact = objective.exact_gains(factors, 5, E, rows, factors.residual(rows))
    found = candidate(factors, 5, factors.d, objective, information(kind, N, most=N))
    assert found.row == rows[exact.argmax()]
    assert found.gain == pytest.approx(exact.max(), rel=1e-9)


def test_information_pivots_adapt():
    info = information("adaptive", 8, most=40)
    sizes = [info.wanted]
    for swapped in (False, False, False, True, True, True, True, True):
        info.told(swapped=swapped)
        sizes.append(info.wanted)
    assert sizes == [8, 16, 32, 40, 32, 24, 16, 8, 8]
    fixed = information("optimised", 8)
    fixed.told(swapped=False)
    assert fixed.wanted == 8


def test_optimised_information_pivots_have_the_largest_residual():
    factors = CholQR(Gram(RBF(0.7), X), 0.05)
    factors.m_step(np.arange(5))
    info = information("optimised", 6)
    allowed = factors.d > factors.floor
    G = info.factor(factors, 5, factors.d, allowed)
    assert info.rows[0] == factors.d.argmax()
    left = factors.d - np.einsum("ij,ij->i", G[:, :3], G[:, :3])
    assert info.rows[3] == left.argmax()
    residual = Gram(RBF(0.7), X).dense() - factors.L @ factors.L.T
    assert np.allclose(G @ G[info.rows].T, residual[:, info.rows], atol=1e-10)


@every_kind
def test_alternation_is_monotone_and_better_than_its_start(kind):
    history = History()
    job = task(history=history)
    rows = np.arange(10)
    start = System(VFE, MODEL, targets(), Inducing.of(X, rows)).value()
    chosen = alternate(job, MODEL, rows, information(kind))
    assert (np.diff(chosen.values) >= -1e-9 * abs(chosen.value)).all()
    assert chosen.values[-1] == chosen.value > start
    assert chosen.converged
    assert chosen.inducing.m == 10
    assert System(VFE, chosen.model, targets(), chosen.inducing).value() == pytest.approx(chosen.value, abs=1e-4)
    assert {row["stage"] for row in history.rows} == {"discrete", "continuous"}
    assert chosen.value <= marginal(chosen.model, targets(), gradient=False).value + 1e-6


def test_cholqr_beats_the_rules():
    """On the mean over seeds, as published."""
    values = {name: np.mean([by_rule(task(m=8, seed=s), MODEL, name).value for s in range(3)]) for name in RULES}
    ours = np.mean(
        [alternate(task(m=8, seed=s), MODEL, np.arange(8) + s, information("random", 16, s)).value for s in range(3)]
    )
    assert all(ours > value for value in values.values())


def test_weights_and_noise_of_rows_count():
    """A weight of two is the row twice; the rows chosen by weights do as well on the rows written out."""
    weights = np.arange(N) % 3 + 1.0
    data = targets(weights=weights)
    chosen = alternate(task(data, learns=False), MODEL, np.arange(10), information("random"))
    assert System(VFE, MODEL, data, chosen.inducing).value() == pytest.approx(chosen.value, rel=1e-8)
    twice = np.repeat(np.arange(N), weights.astype(int))
    repeated = targets(twice)
    written = System(VFE, MODEL, repeated, Inducing(chosen.inducing.Z)).value()
    assert written == pytest.approx(chosen.value, rel=1e-8)
    known = targets(known=np.linspace(0.01, 0.5, N))
    chosen = alternate(task(known, learns=False, how=DTC), MODEL, np.arange(10), information("random"))
    assert System(DTC, MODEL, known, chosen.inducing).value() == pytest.approx(chosen.value, rel=1e-8)


@pytest.mark.parametrize("name", RULES)
def test_rules_give_what_is_asked_for(name):
    for m in (1, 7, N, N + 10):
        inducing = RULES[name](task(m=m), MODEL)
        assert 1 <= inducing.m <= min(m, N)
        if inducing.rows is not None:
            assert len(set(inducing.rows.tolist())) == inducing.m
            assert np.array_equal(X[inducing.rows], inducing.Z)
        again = RULES[name](task(m=m), MODEL)
        assert np.array_equal(again.Z, inducing.Z)
    assert (RULES[name](task(m=3), MODEL).rows is None) == (name == "kmeans")


def test_information_gain_takes_the_largest_variance_given_noisy_targets():
    rows = RULES["ivm"](task(m=6), MODEL).rows
    K = MODEL.kernel(X)
    for k in range(1, 6):
        J = rows[:k]
        variance = np.diagonal(K) - np.einsum(
            "ij,ji->i", K[:, J], np.linalg.solve(K[np.ix_(J, J)] + 0.1 * np.eye(k), K[J])
        )
        variance[J] = 0.0
        assert variance[rows[k]] == pytest.approx(variance.max())


def test_gradient_moves_half_then_all():
    start = by_rule(task(m=6, learns=False), MODEL, "random")
    history = History()
    moved = by_gradient(task(m=6, history=history, budget=Budget(steps=30)), start)
    sizes = [len(row["theta"]) for row in history.rows]
    assert sorted(set(sizes)) == [4 + 3 * 2, 4 + 6 * 2]
    assert moved.value > start.value
    assert moved.inducing.rows is None
    assert (np.diff(moved.values) >= 0).all()
    one = by_gradient(task(m=6, learns=False, budget=Budget(steps=5)), start, free=1)
    assert len(one.values) == len(start.values) + 7
    assert one.model == start.model
    assert System(VFE, one.model, targets(), one.inducing).value() == pytest.approx(one.value, rel=1e-10)


@pytest.mark.parametrize("how", [FITC, PITC, DTC], ids=["fitc", "pitc", "dtc"])
def test_rules_serve_every_approximation(how):
    blocks = np.array_split(np.arange(N), 5)
    chosen = by_rule(task(how=how, blocks=blocks, budget=Budget(steps=5)), MODEL, "rpcholesky")
    assert System(how, chosen.model, targets(), chosen.inducing, blocks=blocks).value() == pytest.approx(chosen.value)
    moved = by_gradient(task(how=how, blocks=blocks, budget=Budget(steps=5)), chosen)
    assert moved.value >= chosen.value


class TestHardData:
    def found(self, data, model=MODEL, m=10, rows=None, **more):
        chosen = alternate(task(data, m, **more), model, np.arange(min(m, data.n)), information("adaptive", 4))
        assert np.isfinite(chosen.value)
        assert (np.diff(chosen.values) >= -1e-9 * abs(chosen.value)).all()
        return chosen

    def test_duplicated_rows(self):
        twice = np.repeat(np.arange(20), 3)
        chosen = self.found(targets(twice), m=40)
        assert chosen.inducing.m <= 20
        assert len(np.unique(chosen.inducing.Z, axis=0)) == chosen.inducing.m

    def test_rank_deficient_kernel(self):
        chosen = self.found(targets(), Model(1.0 * Linear(), 0.1, BOUNDS))
        assert chosen.inducing.m == 2

    @pytest.mark.parametrize("m", [30, 50])
    def test_as_many_as_there_are_rows(self, m):
        data = targets(slice(0, 30))
        chosen = self.found(data, Model(1.0 * Matern32(1.0), 0.1, BOUNDS), m=m)
        assert chosen.inducing.m <= 30
        exact = marginal(chosen.model, data, gradient=False).value
        assert chosen.value == pytest.approx(exact, abs=1e-5)

    def test_one_inducing_input(self):
        assert self.found(targets(), m=1).inducing.m == 1

    def test_one_row(self):
        assert self.found(targets(slice(0, 1)), m=5).inducing.m == 1

    def test_constant_targets(self):
        data = Targets(X, np.zeros((N, 1)), np.zeros((N, 0)))
        self.found(data)

    def test_words(self):
        words = ["".join(letters) for letters in np.random.default_rng(0).choice(list("abcd"), (60, 5))]
        data = Targets(words, np.array([[w.count("a")] for w in words], float), np.zeros((60, 0)))
        chosen = self.found(data, Model(1.0 * Pairwise(same_places), 0.1, BOUNDS), m=6)
        assert all(word in words for word in chosen.inducing.Z)
        with pytest.raises(TypeError, match="kmeans needs inputs that are vectors"):
            by_rule(task(data), Model(1.0 * Pairwise(same_places), 0.1, BOUNDS), "kmeans")

    def test_noise_must_be_positive(self):
        with pytest.raises(ValueError, match="positive noise"):
            alternate(task(), Model(1.0 * RBF(), 0.0, None), np.arange(3), information("random"))

    def test_indefinite_kernels_are_named(self):
        data = Targets(list(range(20)), problems.normal(20, 1), np.zeros((20, 0)))
        model = Model(1.0 * Pairwise(apart), 0.1, BOUNDS)
        with pytest.raises(ArithmeticError, match="not positive semidefinite"):
            alternate(task(data), model, np.arange(3), information("random"))


def same_places(a, b):
    return float(sum(x == y for x, y in zip(a, b, strict=True)))


def apart(a, b):
    return 1.0 + abs(a - b)


def test_budgets_are_kept(monkeypatch):
    over = Budget(deadline=time.perf_counter())
    chosen = alternate(task(budget=over), MODEL, np.arange(10), information("random"))
    assert chosen.why.endswith("time is up")
    assert not chosen.converged
    assert np.isfinite(chosen.value)
    ruled = by_rule(task(budget=over), MODEL, "random")
    assert np.isfinite(ruled.value)
    assert len(by_gradient(task(budget=over), ruled).values) == len(ruled.values) + 1
    once = alternate(task(budget=Budget(rounds=1, steps=2)), MODEL, np.arange(10), information("random"))
    assert "1 rounds" in once.why


def test_an_interrupt_keeps_the_best(monkeypatch):
    calls = []

    def interrupt(row):
        calls.append(row)
        if len(calls) == 6:
            raise KeyboardInterrupt

    chosen = alternate(task(history=History(listener=interrupt)), MODEL, np.arange(10), information("random"))
    assert chosen.interrupted
    assert chosen.value >= max(row["value"] for row in calls if row["stage"] == "discrete")


def test_growing_stops_where_nothing_is_left():
    factors, objective = CholQR(Gram(Linear(), X), 0.1), Objective(Y)
    grow(factors, objective, information("random"), 10)
    assert factors.m == 2
    before = objective.value(factors)
    grow(factors, objective, information("random"), 10)
    assert objective.value(factors) == before


def test_the_same_seed_gives_the_same_choice():
    first, second = (alternate(task(seed=3), MODEL, np.arange(10), information("random", seed=3)) for _ in range(2))
    assert np.array_equal(first.inducing.rows, second.inducing.rows)
    assert first.value == second.value
    assert isinstance(first, Chosen)
