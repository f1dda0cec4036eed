"""Figures 2 and 3: searches are recorded within their budgets, scored outside of the clock, and resumed."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from precog import GPRegressor, cli, datasets
from precog.experiments import figure2, figure2_methods, figure2_plot, figure2_rows, records
from precog.experiments.figure2_book import RUN_COLUMNS, Book, Sampling
from precog.experiments.figure2_folds import held_out
from precog.experiments.figure2_methods import METHODS, Ended, Regression, Scores
from precog.experiments.figure2_paths import CUT_OFF, OutOfTime, chosen, holding, record
from precog.experiments.figure2_rows import ERROR, NLL, TASKS, Key, Series

HEADER = "dataset,kernel,metric,solver,fold,time_s,value,eval_index,measure,step_size,n_probe,predict_every"
PUBLISHED_LINES = (
    "concrete,ARD,NEG_LLIK,CHOL,1,2.524,9.61,0,neg_test_loglik_sum,,,3",
    "concrete,ARD,RMSE,CG,2,2.125,0.376,0,rmse,1,4,10",
    "concrete,ARD,RMSE,PCG,1,2.805,0.313,0,rmse,0.5,4,10",
)
ROWS, INPUTS, HELD_OUT = 70, 2, 8


def made(rows=ROWS):
    rng = np.random.default_rng(5)
    X = rng.normal(2.0, 3.0, (rows, INPUTS))
    y = 7.0 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=rows)
    return SimpleNamespace(name="concrete", X=X, y=y)


@pytest.fixture
def small(monkeypatch):
    """A small data set under every name, no drawing, and what was searched and predicted."""
    monkeypatch.setattr(figure2, "load", lambda name: made())
    monkeypatch.setattr(figure2_plot, "save", lambda *_: None)
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    asked = SimpleNamespace(searches=0, predictions=0)
    search, scores = Regression.search, Regression.scores

    def counted_search(learner, history, steps):
        # The step before the clock hears of nothing that is shown.
        asked.searches += 1
        return search(learner, history, steps)

    def counted_scores(learner, theta):
        asked.predictions += 1
        return scores(learner, theta)

    monkeypatch.setattr(Regression, "search", counted_search)
    monkeypatch.setattr(Regression, "scores", counted_scores)
    return asked


def run(folder, **options):
    lines: list[str] = []
    options = {"datasets": ["concrete"], "kernels": ["ARD"], "folds": 1, "steps": 3} | options
    return figure2.run(folder, report=lines.append, **options), lines


def key(solver, *, dataset="concrete", kernel="ARD", fold=1):
    return Key(Series(dataset, kernel, solver), fold)


def test_file_has_the_published_columns(small, tmp_path):
    run(tmp_path / "out", kernels=None)
    lines = (tmp_path / "out" / "fig2.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == HEADER
    rows = figure2_rows.read(tmp_path / "out" / "fig2.csv")
    assert {row.key.series.kernel for row in rows} == {"ARD", "RBF"}
    assert {row.key.series.solver for row in rows} == {"CG", "PCG", "CHOL", "DEFAULT"}
    assert {(row.metric, row.measure) for row in rows} == {(ERROR, "rmse"), (NLL, "neg_test_loglik_sum")}
    settings = {row.key.series.solver: (row.step_size, row.probes) for row in rows}
    assert settings == {"CG": (1, 4), "PCG": (1, 4), "CHOL": (None, None), "DEFAULT": (None, None)}
    for one in {row.key for row in rows}:
        for metric in (ERROR, NLL):
            curve = [row for row in rows if (row.key, row.metric) == (one, metric)]
            assert [row.index for row in curve] == list(range(len(curve)))
            assert (np.diff([row.seconds for row in curve]) > 0).all()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "fig2.csv",
        "fig2_paths",
        "fig2_runs.csv",
        "fig2_summary.csv",
    }
    assert len(list((tmp_path / "out" / "fig2_paths").iterdir())) == 8


def test_published_rows_are_read_and_written_as_they_were(tmp_path):
    published = tmp_path / "fig2.csv"
    published.write_text("\n".join((HEADER, *PUBLISHED_LINES)) + "\n", encoding="utf-8")
    figure2_rows.write(tmp_path / "again.csv", figure2_rows.read(published))
    written = (tmp_path / "again.csv").read_text(encoding="utf-8").splitlines()
    assert sorted(written) == sorted((HEADER, *PUBLISHED_LINES))


def test_folds_keep_the_published_rule():
    data = datasets.load("concrete")
    for number in (1, 32):
        fold = held_out(data, number)
        assert (len(fold.t), len(fold.y)) == (32, 998)
        for values in (fold.X, fold.y):
            np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-12)
            np.testing.assert_allclose(values.std(axis=0), 1.0, atol=1e-12)
        # Held-out rows are in the scale of the others, whatever their own.
        assert abs(fold.t.std() - 1.0) > 1e-3
    for number in (0, 33):
        with pytest.raises(ValueError, match="from 1 to 32"):
            held_out(data, number)


def test_no_row_is_held_out_twice():
    data = made()
    data.y = np.arange(float(ROWS))
    left: list[int] = []
    for number in range(1, ROWS // HELD_OUT + 1):
        fold = held_out(data, number)
        every = np.r_[fold.y, fold.t]
        numbers = (fold.t - every.min()) / np.ptp(every) * (ROWS - 1)
        left += np.round(numbers).astype(int).tolist()
    assert len(set(left)) == len(left) == ROWS // HELD_OUT * HELD_OUT


def test_constant_columns_are_kept_finite():
    data = made()
    data.X[:, 1] = 3.0
    fold = held_out(data, 1)
    assert not fold.X[:, 1].any()
    assert not fold.Z[:, 1].any()


def dense_scores(fold, theta, kernel):
    """The scores by the textbook's formulas: theta is log variance, log length scales and log noise."""
    variance, lengths, noise = np.exp(theta[0]), np.exp(theta[1:-1]), np.exp(theta[-1])
    assert len(lengths) == (INPUTS if kernel == "ARD" else 1)

    def k(A, B):
        return variance * np.exp(-0.5 * (((A[:, None] - B) / lengths) ** 2).sum(axis=2))

    A, C = k(fold.X, fold.X) + noise * np.eye(len(fold.y)), k(fold.X, fold.Z)
    mean = C.T @ np.linalg.solve(A, fold.y)
    spread = variance + noise - np.einsum("ij,ij->j", C, np.linalg.solve(A, C))
    nll = 0.5 * (np.log(2 * np.pi * spread) + (fold.t - mean) ** 2 / spread).sum()
    return np.sqrt(((fold.t - mean) ** 2).mean()), nll


@pytest.mark.parametrize("kernel", ["ARD", "RBF"])
@pytest.mark.parametrize("dense", [True, False])
def test_scores_are_those_of_the_dense_formulas(monkeypatch, kernel, dense):
    if not dense:
        monkeypatch.setattr(figure2_methods, "DENSE_ROWS", 0)
    fold = held_out(made(), 1)
    lengths = [0.3, -0.2] if kernel == "ARD" else [0.1]
    for noise in (-1.0, -4.0):
        theta = np.array([0.2, *lengths, noise])
        found = METHODS["default"].regression(fold, kernel).scores(theta)
        error, nll = dense_scores(fold, theta, kernel)
        # Solves end at a hundredth of each variance, which moves each of the terms by half as much at most, and at a
        # relative residual of 1e-3 for the mean.
        loose = 1e-8 if dense else 1e-2
        assert found.error == pytest.approx(error, rel=loose)
        assert found.nll == pytest.approx(nll, abs=loose * HELD_OUT)


def test_methods_start_and_learn_as_published(small, tmp_path):
    run(tmp_path, kernels=["ARD", "RBF"], steps=2)
    book = Book(tmp_path)
    for solver in ("CG", "PCG", "CHOL"):
        for kernel, lengths in (("ARD", [0.0, 0.0]), ("RBF", [0.5 * np.log(INPUTS)])):
            first, second = book.path(key(solver, kernel=kernel))[:2]
            np.testing.assert_allclose(first.theta, [0.0, *lengths, np.log(0.1)], atol=1e-12)
            if solver != "CHOL":
                # The first step of AdaGrad is one in every direction.
                np.testing.assert_allclose(np.abs(second.theta - first.theta), 1.0, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["ARD", "RBF"])
def test_default_is_the_estimator_as_it_comes(kernel):
    fold = held_out(made(), 1)
    recorded = record(METHODS["default"].regression(fold, kernel), budget=60.0)
    start = None if kernel == "ARD" else METHODS["default"].regression(fold, kernel).settings.kernel
    model = GPRegressor(start, random_state=0).fit(fold.X, fold.y)
    end = recorded.evaluations[recorded.evaluations[-1].held]
    assert "CONVERGENCE" in recorded.ended
    np.testing.assert_allclose(end.theta, model.theta_, rtol=1e-10)
    # The estimator sees y as it is, since it is standardised.
    assert end.value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)


class Clocked:
    """A learner that takes a hundredth of a second for an evaluation, and never ends."""

    def __init__(self, inside=False, error=None):
        self.inside, self.error = inside, error

    def search(self, history, steps):
        for turn in range(steps or 1_000_000):
            if self.error is not None and turn == 2:
                raise self.error
            time.sleep(0.01)
            if self.inside:
                history.inside(turn, np.ones(1))
            else:
                history.add("exact", np.full(1, float(turn)), -abs(turn - 2.0), np.zeros(1))
        return Ended(np.zeros(1), "all steps")

    def scores(self, theta):
        time.sleep(0.05)
        return Scores(float(theta[0]), 0.0)


def test_budget_ends_a_search_and_keeps_its_evaluations():
    heard = []
    recorded = record(Clocked(), 0.1, show=lambda *state: heard.append(state))
    assert recorded.ended == CUT_OFF
    assert recorded.seconds >= 0.1
    seconds = [evaluation.seconds for evaluation in recorded.evaluations]
    assert all(second < 0.1 for second in seconds[:-1])
    assert seconds[-1] >= 0.1
    assert [evaluations for evaluations, _ in heard] == list(range(1, len(seconds) + 1))
    # The third evaluation is the best.
    assert [evaluation.held for evaluation in recorded.evaluations][:4] == [0, 1, 2, 2][: len(seconds)]


def test_budget_ends_a_search_inside_an_evaluation():
    recorded = record(Clocked(inside=True), 0.05)
    assert (recorded.evaluations, recorded.ended) == ((), CUT_OFF)
    for method in ("cg", "pcg"):
        recorded = record(METHODS[method].regression(held_out(made(), 1), "ARD"), 1e-9)
        assert (recorded.evaluations, recorded.ended) == ((), CUT_OFF)


def test_search_that_ends_in_time_says_why_and_where():
    recorded = record(Clocked(), 60.0, steps=5)
    assert recorded.ended == "all steps"
    # It says that it ended at its first point.
    assert [evaluation.held for evaluation in recorded.evaluations] == [0, 1, 2, 2, 0]


def test_search_that_fails_keeps_its_evaluations():
    recorded = record(Clocked(error=ArithmeticError("not definite")), 60.0)
    assert len(recorded.evaluations) == 2
    assert recorded.ended == "failed: not definite"
    with pytest.raises(ZeroDivisionError):
        record(SimpleNamespace(search=lambda history, steps: 1 / 0), 60.0)


def test_searches_within_the_budget_are_cut_off_in_files_too(small, tmp_path):
    result, lines = run(tmp_path, methods=["cg", "chol"], budget=0.05, steps=None, folds=2)
    assert {one.series.solver: found.ended for one, found in result.runs.items()}["CG"] == CUT_OFF
    assert result.runs[key("CG")].seconds < 5.0
    assert any("CG, fold 1" in line and CUT_OFF in line for line in lines)
    _, lines = run(tmp_path, methods=["cg"], budget=0.1, steps=None, folds=2)
    assert any("cut off by budgets from 0.05 seconds on" in line for line in lines)


def test_predictions_do_not_count(small, tmp_path, monkeypatch):
    slow = figure2_methods.Method("CG", "CG", lambda fold, kernel: Clocked())
    monkeypatch.setitem(figure2.BY_SOLVER, "CG", slow)
    began = time.perf_counter()
    result, _ = run(tmp_path, methods=["cg"], steps=8)
    elapsed = time.perf_counter() - began
    # Three evaluations are the best so far, of which each is predicted with once, for a twentieth of a second.
    found = result.runs[key("CG")]
    assert found.seconds < elapsed - 3 * 0.05
    rows = [row for row in Book(tmp_path).rows if row.metric == ERROR]
    path = Book(tmp_path).path(key("CG"))
    assert [row.seconds for row in rows] == [evaluation.seconds for evaluation in path]
    assert [row.value for row in rows] == [0, 1, 2, 2, 2, 2, 2, 0]
    assert rows[-1].seconds <= found.seconds + 1e-5


def test_finished_run_computes_nothing(small, tmp_path):
    first, _ = run(tmp_path)
    searched, predicted = small.searches, small.predictions
    # A search for the clock and one before it, for each of four methods.
    assert searched == 8
    before = (tmp_path / "fig2.csv").read_bytes()
    again, lines = run(tmp_path)
    assert (small.searches, small.predictions) == (searched, predicted)
    assert (tmp_path / "fig2.csv").read_bytes() == before
    assert again.runs == first.runs
    assert "4 of 4" in lines[0]
    more, lines = run(tmp_path, folds=2)
    assert "4 of 8" in lines[0]
    assert small.searches == 16
    assert {one: more.runs[one] for one in first.runs} == first.runs


def test_interrupted_search_is_run_again_and_others_are_not(small, tmp_path, monkeypatch):
    learn = figure2_methods.learn
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        learnt = learn(*arguments)
        # Searches hear of an interrupt themselves, and return what they have.
        stopped = SimpleNamespace(found=SimpleNamespace(interrupted=True), model=learnt.model, why="")
        return stopped if len(calls) == 4 else learnt

    monkeypatch.setattr(figure2_methods, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert set(Book(tmp_path).runs) == {key("CG")}
    assert {row.key for row in Book(tmp_path).rows} == {key("CG")}
    monkeypatch.setattr(figure2_methods, "learn", learn)
    small.searches = 0
    result, lines = run(tmp_path)
    assert "1 of 4" in lines[0]
    assert small.searches == 6
    assert set(result.runs) == {key(solver) for solver in ("CG", "PCG", "CHOL", "DEFAULT")}
    assert not list(tmp_path.rglob("*.part"))


def test_interrupted_predictions_go_on_without_a_search(small, tmp_path, monkeypatch):
    scores = Regression.scores

    def interrupted(learner, theta):
        if small.predictions == 2:
            raise KeyboardInterrupt
        return scores(learner, theta)

    monkeypatch.setattr(Regression, "scores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, methods=["pcg"])
    # What is there is drawn from, and not predicted again.
    assert len(Book(tmp_path).rows) == 2 * 2
    monkeypatch.setattr(Regression, "scores", scores)
    small.searches = small.predictions = 0
    _, lines = run(tmp_path, methods=["pcg"])
    assert "0 of 1" in lines[0]
    assert (small.searches, small.predictions) == (0, 1)
    assert len(Book(tmp_path).rows) == 2 * 3


def test_more_predictions_need_no_search(small, tmp_path):
    run(tmp_path, methods=["pcg"], steps=7, predict_every=4)
    rows = [row for row in Book(tmp_path).rows if row.metric == ERROR]
    path = Book(tmp_path).path(key("PCG"))
    assert [row.seconds for row in rows] == [path[i].seconds for i in (0, 4, 6)]
    assert {row.every for row in rows} == {4}
    small.searches = small.predictions = 0
    run(tmp_path, methods=["pcg"], steps=7, predict_every=2)
    assert (small.searches, small.predictions) == (0, 1)
    rows = [row for row in Book(tmp_path).rows if row.metric == ERROR]
    assert [row.seconds for row in rows] == [path[i].seconds for i in (0, 2, 4, 6)]


def test_points_of_a_curve_are_spread_in_the_logarithm_of_time():
    assert chosen([], 1, 5) == []
    assert chosen([1.0], 3, 5) == [0]
    assert chosen(range(1, 11), 4, 5) == [0, 4, 8, 9]
    assert chosen([2.0**i for i in range(13)], 1, 4) == [0, 4, 8, 12]
    many = chosen(np.arange(1, 1001) / 10.0, 1, 10)
    assert (many[0], many[-1]) == (0, 999)
    assert len(many) <= 10
    assert (np.diff(many) > 0).all()


def test_what_a_search_holds_is_the_best_of_its_stage():
    stages = ["subset 1"] * 3 + ["subset 2"] * 2 + ["stochastic"] * 3
    assert holding(stages, [1.0, 3.0, 2.0, 1.0, 0.0, -5.0, -4.0, -6.0]) == [0, 1, 1, 3, 3, 5, 6, 6]
    # AdaGrad holds where it is, and knows no value with a preconditioner.
    assert holding(["adagrad"] * 3, [3.0, 2.0, np.nan]) == [0, 1, 2]


def test_subsets_are_stages_of_their_own():
    fold = held_out(made(), 1)
    learner = METHODS["default"].regression(fold, "ARD")
    learner.settings.set_params(optimizer="stochastic", solver="pcg")
    recorded = record(learner, 60.0, steps=1)
    stages = list(dict.fromkeys(evaluation.stage for evaluation in recorded.evaluations))
    assert stages == ["subset 1", "subset 2", "subset 3", "stochastic"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"datasets": ["iris"]}, "unknown data set 'iris'; this experiment has concrete, powerplant, protein"),
        ({"datasets": []}, "no data set is named"),
        ({"kernels": ["matern"]}, "unknown kernel 'matern'; this experiment has ARD, RBF"),
        ({"methods": ["svi"]}, "unknown method 'svi'; this experiment has cg, pcg, chol, default"),
        ({"methods": []}, "no method is named"),
        ({"folds": 33}, "concrete has rows for 32 folds, 33 were asked for"),
        ({"folds": 0}, "folds must be a whole number"),
        ({"predict_every": 0}, "predict_every must be a whole number"),
        ({"budget": 0.0}, "budget must be finite and above 0"),
        ({"steps": -1}, "steps must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_explained_before_any_work(small, tmp_path, asked, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()
    assert not small.searches


def test_data_that_are_not_there_are_missed_before_the_work(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    with pytest.raises(ValueError, match="PRECOG_DATA"):
        run(tmp_path / "out", datasets=["concrete", "protein"])
    assert not (tmp_path / "out").exists()


def test_missing_matplotlib_is_said_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib; install precog\[plot\]"):
        run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_dense_methods_are_left_out_where_memory_is_short(small, tmp_path):
    result, lines = run(tmp_path, datasets=["concrete", "protein"], methods=["chol", "default"])
    assert {str(one.series) for one in result.runs} == {
        "concrete ARD CHOL",
        "concrete ARD DEFAULT",
        "protein ARD DEFAULT",
    }
    assert "left out: protein ARD CHOL, which takes 67 GB and is allowed 8" in lines


def test_method_that_fails_leaves_the_others_alone(small, tmp_path, monkeypatch):
    search = Regression.search

    def failing(learner, history, steps):
        if learner.settings.solver == "pcg":
            raise np.linalg.LinAlgError("the factor is not definite")
        return search(learner, history, steps)

    monkeypatch.setattr(Regression, "search", failing)
    result, lines = run(tmp_path, methods=["pcg", "chol"])
    assert set(result.runs) == {key("CHOL")}
    assert any("PCG, fold 1: the factor is not definite" in line for line in lines)


def test_points_that_cannot_be_predicted_at_are_left_out(small, tmp_path, monkeypatch):
    scores = Regression.scores

    def failing(learner, theta):
        if small.predictions == 0:
            small.predictions += 1
            raise ArithmeticError("not definite")
        return scores(learner, theta)

    monkeypatch.setattr(Regression, "scores", failing)
    _, lines = run(tmp_path, methods=["cg"])
    assert any("; 1 points could not be predicted at" in line for line in lines)
    path = Book(tmp_path).path(key("CG"))
    rows = [row for row in Book(tmp_path).rows if row.metric == ERROR]
    assert [row.seconds for row in rows] == [evaluation.seconds for evaluation in path[1:]]
    assert [row.index for row in rows] == [0, 1]


def test_another_file_is_not_overwritten(small, tmp_path):
    (tmp_path / "fig2.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected"):
        run(tmp_path)
    assert (tmp_path / "fig2.csv").read_text(encoding="utf-8") == "a,b\n1,2\n"


def test_quick_is_one_fold_of_concrete(small, tmp_path):
    asked = figure2.plan(None, None, None, None, None, 1, None, quick=True)
    assert {(one.series.dataset, one.fold) for one in asked.keys} == {("concrete", 1)}
    assert len(asked.keys) == 2 * len(METHODS)
    assert asked.budgets["concrete"] < TASKS["concrete"].budget
    assert asked.samplings["concrete"].most < TASKS["concrete"].predictions
    _, lines = run(tmp_path, quick=True, folds=None, datasets=None)
    assert "left out for being quick: powerplant, protein, and points of the curves" in lines


def test_plan_is_everything_by_default():
    asked = figure2.plan(None, None, None, None, None, 5, None, quick=False)
    assert len(asked.keys) == len(set(asked.keys)) == 3 * 2 * 3 * len(METHODS)
    assert asked.budgets == {"concrete": 60.0, "powerplant": 300.0, "protein": 1200.0}
    assert set(asked.samplings.values()) == {Sampling(5, task.predictions) for task in TASKS.values()}


def test_run_whose_path_is_lost_is_made_again(small, tmp_path):
    run(tmp_path, methods=["chol", "cg"])
    (tmp_path / "fig2_paths" / "concrete_ard_cg_1.csv").unlink()
    small.searches = 0
    _, lines = run(tmp_path, methods=["chol", "cg"])
    assert "1 of 2" in lines[0]
    assert small.searches == 2


def test_runs_are_kept_as_they_were(small, tmp_path):
    result, _ = run(tmp_path, methods=["chol"])
    (record_,) = records.read_csv(tmp_path / "fig2_runs.csv", RUN_COLUMNS)
    assert (int(record_["train"]), int(record_["test"])) == (ROWS - HELD_OUT, HELD_OUT)
    assert Book(tmp_path).runs == result.runs
    path = Book(tmp_path).path(key("CHOL"))
    assert len(path) == int(record_["evaluations"])
    Book(tmp_path).write_path(key("CHOL"), path)
    for one, other in zip(path, Book(tmp_path).path(key("CHOL")), strict=True):
        np.testing.assert_array_equal(one.theta, other.theta)
        assert (one.scores, one.value, one.held) == (other.scores, other.value, other.held)


def test_default_reaches_the_exact_optimum_on_concrete_rows(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    data = datasets.load("concrete")
    some = np.random.default_rng(2).permutation(len(data.y))[:300]
    monkeypatch.setattr(figure2, "load", lambda name: SimpleNamespace(name=name, X=data.X[some], y=data.y[some]))
    asked = {"methods": ["chol", "default"], "steps": None, "predict_every": 1000, "budget": 120.0}
    result, lines = run(tmp_path, **asked)
    ends = {pair.series.solver: pair.ours for pair in result.ends}
    assert ends["DEFAULT"].error.value == pytest.approx(ends["CHOL"].error.value, abs=0.005)
    assert ends["DEFAULT"].nll.value == pytest.approx(ends["CHOL"].nll.value, abs=0.01)
    # The mean alone has an error near one.
    assert 0.1 < ends["DEFAULT"].error.value < 0.6
    assert any("no fig2.csv of published rows was found" in line for line in lines)
    for suffix in ("png", "svg"):
        assert (tmp_path / f"fig2_ard.{suffix}").stat().st_size > 10_000


def test_out_of_time_is_no_failure_of_the_numbers():
    # Searches avoid points where nothing can be computed, and must not avoid the end of their time.
    assert not issubclass(OutOfTime, figure2.FAILURES)


def invoke(*arguments):
    testing = pytest.importorskip("typer.testing")
    return testing.CliRunner().invoke(cli.application(), ["reproduce", *arguments], env={"NO_COLOR": "1"})


def test_command_explains_itself():
    assert "cutajar2016-fig2" in invoke("--help").output
    result = invoke("cutajar2016-fig2", "--help")
    assert result.exit_code == 0
    options = ("datasets", "kernels", "methods", "folds", "budget", "predict-every", "quick", "out", "reference")
    for option in (*options, "max-memory"):
        assert f"--{option}" in result.output


def test_command_passes_its_options_on(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(figure2, "run", lambda folder, **options: asked.append((str(folder), options)))
    defaults = {
        "datasets": None,
        "kernels": None,
        "methods": None,
        "folds": None,
        "budget": None,
        "predict_every": 1,
        "max_memory": 8e9,
        "quick": False,
        "reference": None,
    }
    assert invoke("cutajar2016-fig2").exit_code == 0
    assert asked.pop() == ("fig2", defaults)
    names = ("--datasets", "concrete, protein", "--kernels", "ARD", "--methods", "pcg,default")
    numbers = ("--folds", "2", "--budget", "30", "--predict-every", "5", "--max-memory", "70")
    places = ("--out", str(tmp_path), "--reference", str(tmp_path), "--quick")
    assert invoke("cutajar2016-fig2", *names, *numbers, *places).exit_code == 0
    assert asked.pop() == (
        str(tmp_path),
        {
            "datasets": ["concrete", "protein"],
            "kernels": ["ARD"],
            "methods": ["pcg", "default"],
            "folds": 2,
            "budget": 30.0,
            "predict_every": 5,
            "max_memory": 70e9,
            "quick": True,
            "reference": tmp_path,
        },
    )


def test_command_says_what_is_wrong(tmp_path):
    result = invoke("cutajar2016-fig2", "--datasets", "iris", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "unknown data set 'iris'" in result.output
    assert "Traceback" not in result.output
