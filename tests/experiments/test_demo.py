"""The demonstration: what it prints is what it measured, and both libraries agree."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from precog.experiments import demo

ROWS = 1500


@pytest.fixture(scope="module")
def report():
    """The result of a small run and the lines it reported."""
    lines: list[str] = []
    return demo.run(report=lines.append, rows=ROWS), lines


def cells(lines, label):
    """Return the numbers of the last line with this label; the learnt model has one of the same name before."""
    line = [line for line in lines if line.strip().startswith(label)][-1]
    return line.strip().removeprefix(label).split()


def test_both_libraries_agree(report):
    result, _ = report
    # Residuals of 1e-8 and α = 0.01 leave at most 1e-6 of a target's size.
    assert result.largest_difference < 1e-4
    assert result.precog.rmse == pytest.approx(result.sklearn.rmse, rel=1e-6)


def test_model_is_worth_having(report):
    result, _ = report
    assert result.precog.rmse < 0.5 * result.split.y_held_out.std()


def test_learning_pays(report):
    """Learnt length scales are better than one for all, and intervals hold about what they say."""
    result, lines = report
    assert result.learnt.rmse < result.precog.rmse
    assert 0.88 <= result.learnt.covered <= 1.0
    assert float(cells(lines, "log marginal likelihood")[0]) == pytest.approx(result.learnt.log_likelihood, abs=0.06)
    assert result.learnt.hyperparameters == 10


def test_split_is_always_the_same():
    first, second = demo.split_concrete(), demo.split_concrete()
    np.testing.assert_array_equal(first.X, second.X)
    assert (len(first.y), len(first.y_held_out)) == (927, 103)
    np.testing.assert_allclose(first.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(first.X.std(axis=0), 1.0)


def test_large_product_is_right(report):
    large = report[0].large
    assert large.rows == ROWS
    assert large.seconds > 0
    # float32 entries, their sums over tiles in float64.
    assert large.error < 1e-5
    assert large.entries_per_second == pytest.approx(ROWS**2 / large.seconds)
    assert large.stored_gigabytes == pytest.approx(4e-9 * ROWS**2)


def test_table_shows_what_was_measured(report):
    result, lines = report
    assert f"{len(result.split.y)} rows to learn from, {len(result.split.y_held_out)} held out" in lines[0]
    assert [float(x) for x in cells(lines, "held-out RMSE (MPa)")] == pytest.approx(
        [result.precog.rmse, result.sklearn.rmse], abs=1e-4
    )
    fits = [float(x) for x in cells(lines, "first fit, with any compiling (ms)")]
    assert fits == pytest.approx([1e3 * result.precog.seconds[0], 1e3 * result.sklearn.seconds[0]], abs=0.06)
    assert cells(lines, "solved by") == [result.solver, "Cholesky"]
    assert f"n = {ROWS:,}" in "\n".join(lines)
    assert float(cells(lines, "largest relative error, float32")[0]) == pytest.approx(result.large.error, rel=0.06)


def test_lines_fit_a_terminal(report):
    assert max(len(line) for line in report[1]) <= 120
    assert all(line == line.rstrip() for line in report[1])


def test_figure_is_saved(report, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "figures" / "demo.png"
    demo.save_plot(report[0], path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_missing_matplotlib_is_said_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    lines: list[str] = []
    with pytest.raises(ImportError, match=r"matplotlib; install precog\[plot\]"):
        demo.run(tmp_path / "demo.png", lines.append, rows=ROWS)
    assert lines == []
