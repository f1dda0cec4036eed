"""Figures 2 and 3: ends of curves, differences on the same folds, published rows beside them, and the drawing."""

from __future__ import annotations

import numpy as np
import pytest

from precog.experiments import figure2_plot, figure2_table, records
from precog.experiments.figure2_book import Book, Run
from precog.experiments.figure2_rows import ERROR, METRICS, NLL, NLL_MEASURE, Key, Row, Series, comparable
from precog.experiments.figure2_table import Curve, Mean

POINTS = 10


def key(solver, *, dataset="concrete", kernel="ARD", fold=1):
    return Key(Series(dataset, kernel, solver), fold)


def rows(about, metric, values, *, seconds=None, step=None, every=1):
    times = np.arange(1.0, len(values) + 1) if seconds is None else seconds
    measure = "rmse" if metric == ERROR else NLL_MEASURE
    return [
        Row(about, metric, float(t), float(v), i, measure, step, None, every)
        for i, (t, v) in enumerate(zip(times, values, strict=True))
    ]


def book(tmp_path, found):
    """Return a book of these rows, every run of which holds out ten points."""
    made = Book(tmp_path)
    made.rows = found
    for one in dict.fromkeys(row.key for row in found):
        series = one.series
        names = (series.dataset, series.kernel, series.solver, one.fold)
        made.runs[one] = Run(*names, 90, POINTS, 3, 1.0, 2.0, "converged")
    return made


@pytest.fixture
def two_folds(tmp_path):
    ends = {
        ("CHOL", 1): (0.30, 4.0),
        ("CHOL", 2): (0.40, 8.0),
        ("DEFAULT", 1): (0.31, 4.1),
        ("DEFAULT", 2): (0.41, 8.3),
    }
    found = []
    for (solver, fold), (error, nll) in ends.items():
        found += rows(key(solver, fold=fold), ERROR, [0.5, 0.45, error], seconds=[1.0, 2.0, 2.0 + fold])
        found += rows(key(solver, fold=fold), NLL, [20.0, 15.0, nll], seconds=[1.0, 2.0, 2.0 + fold])
    found += rows(key("CG"), ERROR, [0.2]) + rows(key("CG"), NLL, [-1.0])
    return book(tmp_path, found)


PUBLISHED = [
    *rows(key("CHOL"), ERROR, [0.5, 0.35], seconds=[10.0, 100.0], every=3),
    *rows(key("CHOL"), NLL, [40.0, 16.0], seconds=[10.0, 100.0], every=3),
]


def test_ends_are_means_over_folds(two_folds):
    pairs = {pair.series.solver: pair for pair in figure2_table.compare(two_folds, PUBLISHED)}
    assert list(pairs) == ["CG", "CHOL", "DEFAULT"]
    exact = pairs["CHOL"].ours
    assert (exact.folds, exact.seconds) == (2, 3.5)
    assert exact.error.value == pytest.approx(0.35)
    # Two values a tenth apart: a standard deviation of 0.1 / √2, over √2.
    assert exact.error.error == pytest.approx(0.05)
    assert exact.nll.value == pytest.approx(0.6)
    assert np.isnan(pairs["CG"].ours.error.error)
    # The published sums are over ⌊√1030⌋ points.
    published = pairs["CHOL"].published
    assert (published.folds, published.seconds) == (1, 100.0)
    assert published.nll.value == pytest.approx(0.5)
    assert pairs["DEFAULT"].published is None


def test_methods_are_compared_on_the_same_folds(two_folds):
    apart = figure2_table.beside_exact(two_folds)
    assert {series.solver: folds for series, (folds, _, _) in apart.items()} == {"DEFAULT": 2, "CG": 1}
    _, error, nll = apart[Series("concrete", "ARD", "DEFAULT")]
    assert (error.value, error.error) == (pytest.approx(0.01), pytest.approx(0.0, abs=1e-12))
    assert nll.value == pytest.approx(0.02)
    _, error, nll = apart[Series("concrete", "ARD", "CG")]
    assert (error.value, nll.value) == (pytest.approx(-0.1), pytest.approx(-0.5))


def test_summary_says_what_there_is(two_folds, tmp_path):
    pairs = figure2_table.compare(two_folds, PUBLISHED)
    lines = figure2_table.summary(pairs, two_folds)
    assert max(map(len, lines)) <= 120
    (exact,) = [line for line in lines if "CHOL" in line and "0.3500" in line]
    assert "0.3500 ± 0.0500" in exact
    assert "1 folds" in exact
    assert exact.endswith("0.5000")
    assert any("DEFAULT" in line and "+0.0100" in line and "+0.0200" in line for line in lines)
    figure2_table.save(pairs, tmp_path / "summary.csv")
    saved = {row["solver"]: row for row in records.read_csv(tmp_path / "summary.csv", figure2_table.SUMMARY_COLUMNS)}
    assert float(saved["CHOL"]["nll_per_point_published"]) == pytest.approx(0.5)
    assert float(saved["DEFAULT"]["error"]) == pytest.approx(0.36)
    assert saved["DEFAULT"]["error_published"] == saved["CG"]["error_se"] == ""


def test_without_the_exact_method_nothing_is_set_beside_it(tmp_path):
    alone = book(tmp_path, rows(key("CG"), ERROR, [0.2]) + rows(key("CG"), NLL, [-1.0]))
    lines = figure2_table.summary(figure2_table.compare(alone, []), alone)
    assert len(lines) == 3
    assert figure2_table.beside_exact(alone) == {}


def test_comparable_published_rows_have_step_one_and_ran_longest():
    kept = rows(key("PCG"), ERROR, [0.3, 0.2], seconds=[5.0, 50.0], step=1.0, every=5)
    others = [
        *rows(key("PCG"), ERROR, [0.3, 0.25], seconds=[4.0, 40.0], step=1.0, every=3),
        *rows(key("PCG"), ERROR, [0.3, 0.22], seconds=[5.0, 60.0], step=0.5, every=5),
        *rows(key("PCG", dataset="credit"), ERROR, [0.3], step=1.0),
    ]
    assert comparable(others + kept) == kept


def test_mean_prints_its_error_where_it_has_one():
    assert str(Mean.of([0.25])) == "0.2500"
    assert str(Mean.of([0.2, 0.4])) == "0.3000 ± 0.1000"


def test_mean_curve_of_one_run_goes_through_its_points():
    one = Curve(np.array([1.0, 10.0, 100.0]), np.array([3.0, 1.0, 2.0]))
    mean = figure2_plot.average([one])
    np.testing.assert_allclose([mean.seconds[0], mean.seconds[-1]], [1.0, 100.0])
    np.testing.assert_allclose(np.interp(np.log(10.0), np.log(mean.seconds), mean.values), 1.0, atol=0.02)
    # Half way in the logarithm is half way in the value.
    np.testing.assert_allclose(np.interp(np.log(10**0.5), np.log(mean.seconds), mean.values), 2.0, atol=0.02)


def test_mean_curve_begins_when_all_have_and_keeps_what_has_ended():
    early, late = Curve(np.array([1.0, 4.0]), np.array([8.0, 2.0])), Curve(np.array([2.0, 16.0]), np.array([6.0, 6.0]))
    mean = figure2_plot.average([early, late])
    np.testing.assert_allclose([mean.seconds[0], mean.seconds[-1]], [2.0, 16.0])
    np.testing.assert_allclose([mean.values[0], mean.values[-1]], [5.5, 4.0])
    single = figure2_plot.average([Curve(np.array([3.0]), np.array([7.0]))])
    assert set(single.values) == {7.0}


@pytest.mark.parametrize("names", [("concrete",), ("concrete", "powerplant", "protein")])
def test_figure_is_drawn(tmp_path, names):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(1)
    found = []
    for name in names:
        for solver in ("CG", "PCG", "CHOL", "DEFAULT"):
            for metric in METRICS:
                for fold in (1, 2):
                    values = 0.3 + 0.2 / np.arange(1.0, 9.0) + 0.02 * rng.random(8)
                    found += rows(key(solver, dataset=name, fold=fold), metric, values)
    made = book(tmp_path, found)
    figure2_plot.save(made, "ARD", tmp_path / "new" / "fig2.png", PUBLISHED)
    figure2_plot.save(made, "ARD", tmp_path / "new" / "fig2.svg", [])
    assert (tmp_path / "new" / "fig2.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "fig2.png").stat().st_size > 10_000
    assert "<svg" in (tmp_path / "new" / "fig2.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no rows of the kernel RBF"):
        figure2_plot.save(made, "RBF", tmp_path / "fig2.png", PUBLISHED)


def test_names_keep_off_curves_and_each_other():
    size, box = np.array([40.0, 10.0]), np.array([[0.0, 0.0], [300.0, 200.0]])
    curve = np.column_stack([np.linspace(20.0, 200.0, 100), np.full(100, 100.0)])
    places = figure2_plot._places(curve, size, 4.0)
    costs = [figure2_plot._covered(place, size, curve, [], box) for place in places]
    assert min(costs) == 0
    best = places[int(np.argmin(costs))]
    again = [figure2_plot._covered(place, size, curve, [np.array([best, best + size])], box) for place in places]
    other = places[int(np.argmin(again))]
    assert min(again) == 0
    assert (np.abs(other - best) >= size).any()
