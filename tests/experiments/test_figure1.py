"""Figure 1: runs resume, counts are written as published ones are, and comparisons count what they say."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from precog import cli
from precog.experiments import (
    figure1,
    figure1_methods,
    figure1_plot,
    figure1_rows,
    figure1_systems,
    figure1_table,
    progress,
    records,
)
from precog.experiments.figure1_book import TIMING_COLUMNS, Book
from precog.experiments.figure1_rows import CELLS, Cell, Key, Row
from precog.experiments.figure1_table import Share

HEADER = (
    "dataset,preconditioner,log10_lengthscale,log10_noise,log10_cg_iterations,log10_ratio,cg_iterations,pcg_iterations,"
    "cg_capped,pcg_capped,pcg_integral"
)
PUBLISHED_LINES = (
    "concrete,block_jacobi,1,-6,3.3630475945210936,0.6369958327557692,2307,10001,0,1,1",
    "concrete,nystrom,-2,-2,1.1139433523068367,0.0321846833714017,13,14,0,0,1",
    "concrete,nystrom,0,-2,2.3909351071033793,-0.14296202,246,177,0,0,1",
    "concrete,randomized_svd,-1,-2,1.9138138523837167,0.03996329994501973,82,89.904,0,0,0",
    "concrete,ski,-1,-6,2.3364597338485296,1.8396315252071518,217,15000,0,0,1",
)
ROWS = 70


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "reference" / "fig1.csv"
    path.parent.mkdir()
    path.write_text("\n".join((HEADER, *PUBLISHED_LINES)) + "\n", encoding="utf-8")
    return path


@dataclass
class Fake:
    """A preconditioner that changes nothing, by five iterations inside."""

    name: str
    exact: bool = True
    rank: int = 0
    inner_iterations: int = 0
    built: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(trace=ROWS))

    def solve(self, V):
        self.inner_iterations += 5
        return V.copy()


@pytest.fixture
def fakes(monkeypatch):
    """A small data set under every name, preconditioners that change nothing, and what was asked of `make`."""
    rng = np.random.default_rng(3)
    data = SimpleNamespace(X=rng.normal(2.0, 3.0, (ROWS, 2)), y=rng.normal(5.0, 2.0, ROWS))
    made = []

    def make(name, A, **options):
        made.append((name, A, options))
        return Fake(name, exact=name not in ("ski", "regularized"))

    monkeypatch.setattr(figure1_systems, "load", lambda name: data)
    monkeypatch.setattr(figure1_methods.precond, "make", make)
    monkeypatch.setattr(figure1_plot, "save", lambda rows, path, published: None)
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    return made


@pytest.fixture
def solves(monkeypatch):
    """The names of all solves that were begun, those without a preconditioner among them."""
    real, names = figure1_methods.Prepared.solve, []

    def solve(prepared, *rest):
        names.append(prepared.key.preconditioner)
        return real(prepared, *rest)

    monkeypatch.setattr(figure1_methods.Prepared, "solve", solve)
    return names


def run(folder, **options):
    lines: list[str] = []
    return figure1.run(folder, report=lines.append, **options), lines


def row(name, length_scale, noise, cg, pcg, *, dataset="concrete", capped=(False, False)):
    key = Key(dataset, name, Cell(length_scale, noise))
    return Row.of(key, cg, pcg, cg_capped=capped[0], pcg_capped=capped[1])


def by_key(*rows):
    return {row.key: row for row in rows}


def test_file_has_the_published_columns(fakes, tmp_path):
    run(tmp_path / "out", datasets=["concrete"], preconditioners=["pitc", "nystrom"], cells=[(2, -2), (0, -2)])
    lines = (tmp_path / "out" / "fig1.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == HEADER
    assert [line.split(",")[1:4] for line in lines[1:]] == [
        ["pitc", "0", "-2"],
        ["pitc", "2", "-2"],
        ["nystrom", "0", "-2"],
        ["nystrom", "2", "-2"],
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"fig1.csv", "fig1_seconds.csv"}


def test_published_rows_are_read_and_written_as_they_were(published, tmp_path):
    rows = figure1_rows.read(published)
    figure1_rows.write(tmp_path / "again.csv", rows)
    written = (tmp_path / "again.csv").read_text(encoding="utf-8").splitlines()
    assert sorted(written) == sorted((HEADER, *PUBLISHED_LINES))


def test_counts_are_those_of_the_solver(fakes, tmp_path):
    result, _ = run(tmp_path, datasets=["concrete"], preconditioners=["nystrom"], cells="1,-2")
    (found,) = result.rows.values()
    # A preconditioner that changes nothing takes the steps that none takes.
    assert found.cg == found.pcg > 3
    assert found.log10_ratio == 0
    assert found.counts


def test_steps_are_counted_as_in_the_published_code(fakes, tmp_path):
    run(tmp_path, datasets=["concrete"], preconditioners=["nystrom", "ski"], cells="1,-2")
    timings = records.read_csv(tmp_path / "fig1_seconds.csv", TIMING_COLUMNS)
    steps = {record["preconditioner"]: int(record["iterations"]) for record in timings}
    rows = {key.preconditioner: row for key, row in figure1_rows.read(tmp_path / "fig1.csv").items()}
    # The last step of CG and PCG is not counted, that of the flexible solver is.
    assert rows["nystrom"].cg == steps["cg"] - 1
    assert rows["nystrom"].pcg == steps["nystrom"] - 1
    assert rows["ski"].pcg == steps["ski"]


def test_every_preconditioner_gets_its_published_setting(fakes, tmp_path):
    run(tmp_path, datasets=["concrete"], cells="2,-2")
    options = {name: options for name, _, options in fakes}
    m = math.isqrt(ROWS)
    inexact = {name: options.pop(name) for name in ("identity", "ski", "regularized")}
    assert inexact["ski"]["order"] == "nearest"
    assert inexact["regularized"]["precision"] == "float64"
    landmarks = {"pitc", "fitc", "nystrom"}
    assert set(options) == {"block_jacobi", "spectral", "svd", "rpcholesky", "local", "vecchia"} | landmarks
    assert {name: asked["jitter"] for name, asked in options.items() if "jitter" in asked} == dict.fromkeys(
        landmarks, 1e-6
    )
    assert all(asked["rng"] == figure1_methods.SEED for asked in options.values())
    assert {name: asked["rank"] for name, asked in options.items()} == {
        name: 2 * m if name == "spectral" else m for name in options
    }
    assert {asked["dtype"] for asked in options.values()} == {"float64"}
    for name in ("pitc", "block_jacobi"):
        labels = options[name]["blocks"]
        parts = [len(part) for part in np.array_split(range(ROWS), m)]
        assert np.bincount(labels).tolist() == parts
        assert (np.diff(labels) >= 0).all()
    assert options["local"]["leaf"] * m >= 2 * ROWS > (options["local"]["leaf"] - 1) * m
    A = fakes[0][1]
    assert A.noise == pytest.approx(1e-2)
    assert A.K.kernel.length_scale == 100.0
    np.testing.assert_allclose([A.K.X.mean(), A.K.X.std()], [0, 1], atol=1e-12)


def test_blocks_of_neighbours_are_left_out_where_the_factor_leaves_out_little(fakes, tmp_path, monkeypatch):
    run(tmp_path / "much", datasets=["concrete"], preconditioners=["rpcholesky_local"], cells="0,-2")
    assert [name for name, _, _ in fakes] == ["identity", "rpcholesky", "local"]
    fakes.clear()
    monkeypatch.setattr(figure1_methods, "LEFT_OUT", 1.0)
    run(tmp_path / "little", datasets=["concrete"], preconditioners=["rpcholesky_local"], cells="0,-2")
    assert [name for name, _, _ in fakes] == ["identity", "rpcholesky"]


def test_residuals_reach_the_published_tolerance(fakes, tmp_path, monkeypatch):
    settings = []
    real = figure1_methods.solvers.PCG

    def pcg(**options):
        settings.append(options)
        return real(**options)

    monkeypatch.setattr(figure1_methods.solvers, "PCG", pcg)
    run(tmp_path, datasets=["concrete", "protein"], preconditioners=["nystrom"], cells="2,-2")
    common = {"rtol": 0.0, "atol": pytest.approx(math.sqrt(ROWS * 1e-10)), "precision": "float64"}
    assert all(found | {"max_iter": 0} == common | {"max_iter": 0} for found in settings)
    assert sorted(found["max_iter"] for found in settings) == [10_000, 15_000, 15_000, 15_000]


def test_ski_and_regularized_are_for_concrete_and_solved_flexibly(fakes, tmp_path, monkeypatch):
    settings = []
    real = figure1_methods.solvers.FlexiblePCG

    def flexible(**options):
        settings.append(options)
        return real(**options)

    monkeypatch.setattr(figure1_methods.solvers, "FlexiblePCG", flexible)
    result, _ = run(tmp_path, datasets=["concrete", "protein"], preconditioners=["ski", "regularized"], cells="2,-2")
    assert [options["max_iter"] for options in settings] == [15_000, 15_000]
    assert {key.dataset for key in result.rows} == {"concrete"}
    found = {key.preconditioner: row.pcg for key, row in result.rows.items()}
    assert set(found) == {"ski", "ski_inner_total", "regularized"}
    # The fake takes five iterations inside each one outside.
    assert found["ski_inner_total"] == found["regularized"] == 6 * found["ski"]


def test_plain_solves_are_shared_and_a_finished_run_computes_nothing(fakes, solves, tmp_path):
    asked = {"datasets": ["concrete"], "preconditioners": ["nystrom", "fitc"], "cells": "1,-2;2,-2"}
    first, _ = run(tmp_path, **asked)
    assert sorted(solves) == sorted(["cg", "nystrom", "fitc"] * 2)
    before = (tmp_path / "fig1.csv").read_bytes()
    again, lines = run(tmp_path, **asked)
    assert len(solves) == 6
    assert again.rows == first.rows
    assert (tmp_path / "fig1.csv").read_bytes() == before
    assert "4 of 4" in lines[0]


def test_interrupted_run_goes_on_where_it_stopped(fakes, solves, tmp_path, monkeypatch):
    asked = {"datasets": ["concrete"], "preconditioners": ["pitc", "fitc", "nystrom"], "cells": "2,-2"}
    add, added = Book.add, []

    def interrupted(book, timing):
        if len(added) == 2:
            raise KeyboardInterrupt
        added.append(timing.key.preconditioner)
        add(book, timing)

    monkeypatch.setattr(Book, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, **asked)
    assert set(Book(tmp_path).timings) == {Key("concrete", name, Cell(2, -2)) for name in added}
    monkeypatch.setattr(Book, "add", add)
    solves.clear()
    result, _ = run(tmp_path, **asked)
    assert sorted(solves) == sorted({"cg", "pitc", "fitc", "nystrom"} - {*added})
    assert {key.preconditioner for key in result.rows} == {"pitc", "fitc", "nystrom"}
    assert not list(tmp_path.glob("*.part"))


def test_rows_wait_for_the_solve_without_a_preconditioner(fakes, tmp_path):
    run(tmp_path, datasets=["concrete"], preconditioners=["nystrom", "ski"], cells="2,-2")
    rows, timings = Book(tmp_path).rows, Book(tmp_path).timings
    later = Book(tmp_path / "later")
    for name in ("ski", "nystrom"):
        later.add(timings[Key("concrete", name, Cell(2, -2))])
        assert not later.rows
        assert not (tmp_path / "later" / "fig1.csv").exists()
    again = Book(tmp_path / "later")
    assert figure1.left(list(again.timings), again) == [Key("concrete", "cg", Cell(2, -2))]
    again.add(timings[Key("concrete", "cg", Cell(2, -2))])
    assert again.rows == rows
    assert len(rows) == 3
    assert figure1.left(list(again.timings), again) == []


def test_count_without_a_preconditioner_is_taken_from_rows_where_times_are_lost(fakes, solves, tmp_path):
    asked = {"datasets": ["concrete"], "cells": "2,-2"}
    run(tmp_path, preconditioners=["pitc"], **asked)
    (tmp_path / "fig1_seconds.csv").unlink()
    result, _ = run(tmp_path, preconditioners=["fitc"], **asked)
    assert sorted(solves) == ["cg", "fitc", "pitc"]
    assert len({row.cg for row in result.rows.values()}) == 1


def test_what_is_not_done_counts_one_step_more_and_is_flagged(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(figure1_methods, "STEPS", 2)
    result, lines = run(tmp_path, datasets=["protein"], preconditioners=["fitc"], cells="0,-6")
    (found,) = result.rows.values()
    assert (found.cg, found.pcg, found.cg_capped, found.pcg_capped) == (3, 3, True, True)
    assert not found.counts
    assert any("max iter" in line for line in lines)
    again, _ = run(tmp_path, datasets=["protein"], preconditioners=["fitc", "pitc"], cells="0,-6")
    assert {row.cg for row in again.rows.values()} == {3}


def test_preconditioner_that_cannot_be_built_leaves_the_others_alone(fakes, tmp_path, monkeypatch):
    make = figure1_methods.precond.make

    def failing(name, A, **options):
        if name == "fitc":
            raise np.linalg.LinAlgError("the factor is not definite")
        return make(name, A, **options)

    monkeypatch.setattr(figure1_methods.precond, "make", failing)
    result, lines = run(tmp_path, datasets=["concrete"], preconditioners=["fitc", "nystrom"], cells="2,-2")
    assert [key.preconditioner for key in result.rows] == ["nystrom"]
    assert any("fitc: the factor is not definite" in line for line in lines)


def test_seconds_are_kept(fakes, tmp_path):
    run(tmp_path, datasets=["concrete"], preconditioners=["nystrom"], cells="2,-2")
    timings = records.read_csv(tmp_path / "fig1_seconds.csv", TIMING_COLUMNS)
    assert {timing["preconditioner"] for timing in timings} == {"cg", "nystrom"}
    assert all(float(timing[name]) >= 0 for timing in timings for name in ("build_seconds", "solve_seconds"))
    assert all(int(timing["products"]) >= int(timing["iterations"]) > 0 for timing in timings)
    assert {timing["status"] for timing in timings} == {"CONVERGED"}


def test_another_file_is_not_overwritten(fakes, tmp_path):
    (tmp_path / "fig1.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected"):
        run(tmp_path, datasets=["concrete"], cells="2,-2")
    assert (tmp_path / "fig1.csv").read_text(encoding="utf-8") == "a,b\n1,2\n"


def test_quick_is_concrete_without_ski(fakes, tmp_path):
    work = figure1.plan(figure1.DATASETS, None, None, quick=True, published={})
    assert {key.dataset for key in work} == {"concrete"}
    assert {key.preconditioner for key in work} == {*figure1.NAMES} - {"ski"}
    assert {key.cell for key in work} == {*CELLS}
    _, lines = run(tmp_path, quick=True, cells="2,-2")
    assert lines[1] == "left out for being quick: powerplant, protein, and 'ski'"
    _, lines = run(tmp_path, quick=True, cells="2,-2", preconditioners=["ski"])
    assert lines[1] == "left out for being quick: powerplant, protein"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (None, list(CELLS)),
        ("-1,-2;0,-2", [Cell(-1, -2), Cell(0, -2)]),
        (" 2 , -6 ; 2,-6", [Cell(2, -6)]),
        ([(2, -4)], [Cell(2, -4)]),
        ("cg<=100", [Cell(-2, -2), Cell(-1, -2)]),
        ("cg <= 217", [Cell(-2, -2), Cell(-1, -2), Cell(-1, -6)]),
    ],
)
def test_cells_are_read(published, cells, expected):
    assert figure1_rows.chosen_cells(cells, "concrete", figure1_rows.read(published)) == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("-1,-3", "no cell of the figure"),
        ("-2", "must be such as"),
        ("one,two", "must be such as"),
        ("", "must be such as"),
        ([(1, 2, 3)], "must be such as"),
        ("cg<=many", "must be such as"),
        ("cg<=1000", "published counts of protein"),
    ],
)
def test_wrong_cells_are_explained(published, cells, message):
    with pytest.raises(ValueError, match=message):
        figure1_rows.chosen_cells(cells, "protein", figure1_rows.read(published))


@pytest.mark.parametrize(
    "asked", [{"datasets": ["iris"]}, {"datasets": []}, {"preconditioners": ["ilu"]}, {"preconditioners": []}]
)
def test_unknown_names_are_explained(fakes, tmp_path, asked):
    with pytest.raises(ValueError, match="this experiment has"):
        run(tmp_path, **asked)
    assert not list(tmp_path.iterdir())


def test_published_rows_are_found(published, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("PRECOG_DATA", str(data))
    assert records.find_reference(figure1_rows.FILE) == published
    assert records.find_reference(figure1_rows.FILE, published.parent) == published
    assert records.find_reference(figure1_rows.FILE, published) == published
    monkeypatch.setenv("PRECOG_DATA", str(published.parent))
    assert records.find_reference(figure1_rows.FILE) == published
    monkeypatch.delenv("PRECOG_DATA")
    assert records.find_reference(figure1_rows.FILE) is None
    with pytest.raises(ValueError, match="no published rows"):
        records.find_reference(figure1_rows.FILE, data)


def test_run_says_whether_it_could_compare(fakes, published, tmp_path):
    asked = {"datasets": ["concrete"], "preconditioners": ["nystrom"], "cells": "-2,-2"}
    result, lines = run(tmp_path / "out", **asked)
    assert result.comparison is None
    assert any("no comparison" in line for line in lines)
    assert not (tmp_path / "out" / "fig1_comparison.csv").exists()
    result, lines = run(tmp_path / "out", reference=published.parent, **asked)
    assert len(result.comparison.pairs) == 1
    assert f"compared with {published}" in lines
    assert (tmp_path / "out" / "fig1_comparison.csv").read_text(encoding="utf-8").count("\n") == 2


def test_comparison_counts_what_it_says(tmp_path):
    published = by_key(
        row("nystrom", -3, -2, 10, 10),
        row("nystrom", -2, -2, 100, 50),
        row("nystrom", -1, -2, 200, 100),
        row("nystrom", 0, -2, 20, 15_001, capped=(False, True)),
        row("fitc", -3, -2, 10, 4),
        row("fitc", -2, -2, 100, 80),
        row("ski_inner_total", -3, -2, 10, 15_500),
        row("ski", -3, -2, 10, 300),
        row("randomized_svd", -2, -2, 100, 20),  # few iterations, many products before them
    )
    ours = by_key(
        row("nystrom", -3, -2, 11, 11),  # CG within 10 %, the ratio as published
        row("nystrom", -2, -2, 80, 100),  # CG 20 % off, the ratio worse by 0.40
        row("nystrom", -1, -2, 400, 50),  # CG does not count, the ratio better by 0.60
        row("nystrom", 0, -2, 20, 20),  # the published number is a bound
        row("fitc", -3, -2, 11, 9),  # the ratio worse by 0.31
        row("ski_inner_total", -3, -2, 11, 900),  # the published run was cut, which its outer count does not tell
        row("ski", -3, -2, 11, 40),
        row("rpcholesky", -3, -2, 11, 9),  # as many as ours, more than published
        row("rpcholesky", -2, -2, 80, 50),  # as many as published, fewer than ours
        row("rpcholesky", -1, -2, 400, 10_001, capped=(False, True)),  # stopped where others were not
        row("rpcholesky", 0, -2, 20, 1),  # nothing published came to an end
        row("rpcholesky", 1, -2, 15_001, 1, capped=(True, False)),
    )
    comparison = figure1_table.compare(ours, published)
    assert comparison.cg == {"concrete": Share(2, 3)}
    assert comparison.ratios == {
        ("concrete", "nystrom"): Share(1, 3),
        ("concrete", "fitc"): Share(1, 1),
        ("concrete", "ski"): Share(0, 0),
        ("concrete", "ski_inner_total"): Share(0, 0),
    }
    contests = {(contest.name, contest.costs, contest.against): contest.shares for contest in comparison.contests}
    assert contests["rpcholesky", "products", "as published"] == {"concrete": Share(1, 3)}
    assert contests["rpcholesky", "iterations", "as published"] == {"concrete": Share(0, 3)}
    for costs in ("products", "iterations"):
        assert contests["rpcholesky", costs, "as computed here"] == {"concrete": Share(3, 4)}
        assert contests["rpcholesky_local", costs, "as published"] == {"concrete": Share(0, 0)}
    outside = figure1_table.summary(comparison)
    outside = outside[outside.index("out of tolerance") + 1 :]
    assert [line.split(": ")[-1] for line in outside] == ["fewer here", "worse here", "better here"]
    assert "ℓ=1e-2 σ²=1e-2: CG 80, published 100" in outside[0]
    assert "100 (+0.10), published 50 (-0.30)" in outside[1]

    figure1_table.save(comparison, tmp_path / "c.csv")
    compared = records.read_csv(tmp_path / "c.csv", figure1_table.COMPARISON_COLUMNS)
    assert [(record["counts"], record["agrees"]) for record in compared] == [
        ("1", "1"),  # fitc comes first, as in the published file
        ("1", "1"),
        ("1", "0"),
        ("1", "0"),
        ("0", "0"),
        ("0", "0"),
        ("0", "0"),
    ]
    assert (compared[0]["pcg_published"], compared[0]["pcg_ours"]) == ("4", "9")


def test_equal_rows_agree_everywhere(published):
    rows = figure1_rows.read(published)
    comparison = figure1_table.compare(rows, rows)
    assert comparison.cg == {"concrete": Share(2, 2)}
    assert comparison.ratios["concrete", "nystrom"] == Share(2, 2)
    assert comparison.ratios["concrete", "randomized_svd"] == Share(1, 1)
    lines = figure1_table.summary(comparison)
    assert lines[-1] == "no cell is out of tolerance"
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("datasets", [("concrete",), ("concrete", "powerplant", "protein")])
def test_figure_is_drawn(tmp_path, datasets):
    pytest.importorskip("matplotlib")
    rows = by_key(
        *(
            row(name, cell.log10_length_scale, cell.log10_noise, 20, 5 + 3 * turn, dataset=dataset)
            for dataset in datasets
            for turn, name in enumerate(figure1_plot.PANELS)
            for cell in CELLS[:-1]
        ),
        row("nystrom", 2, -6, 15_001, 10_001, dataset=datasets[0], capped=(True, True)),
        row("fitc", 2, -6, 15_001, 700, dataset=datasets[0], capped=(True, False)),
    )
    figure1_plot.save(rows, tmp_path / "new" / "fig1.png")
    figure1_plot.save(rows, tmp_path / "new" / "fig1.svg")
    assert (tmp_path / "new" / "fig1.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "fig1.png").stat().st_size > 10_000
    assert "<svg" in (tmp_path / "new" / "fig1.svg").read_text(encoding="utf-8")


def test_nothing_to_draw_is_an_error(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match="no rows"):
        figure1_plot.save({}, tmp_path / "fig1.png")


def test_missing_matplotlib_is_said_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib; install precog\[plot\]"):
        run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_lines_tell_of_long_solves(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with progress.watching(lines.append, 3) as watch:
        watch.begin("protein nystrom")
        watch.step("iteration 7, relative residual 2.0e-03", "step 7: 2e-03")
        watch.done("protein nystrom 12")
    assert lines == ["  protein nystrom: iteration 7, relative residual 2.0e-03", "   1/3 protein nystrom 12"]


@pytest.mark.parametrize("with_rich", [True, False])
def test_terminals_get_a_bar_where_rich_is_installed(monkeypatch, capsys, with_rich):
    if with_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    with progress.watching(print, 2) as watch:
        assert isinstance(watch, progress.Bar if with_rich else progress.Lines)
        watch.begin("protein nystrom")
        watch.step("iteration 7, relative residual 2.0e-03", "step 7: 2e-03")
        watch.done("nystrom is done")
    assert "nystrom is done" in capsys.readouterr().out


def test_real_cells_of_the_concrete_data(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("PRECOG_DATA", raising=False)
    result, _ = run(tmp_path, quick=True, cells="2,-2;2,-4")
    names = [name for name in figure1.NAMES if name != "ski"]
    assert {key.preconditioner for key in result.rows} == set(names)
    assert all(row.counts for row in result.rows.values())
    # Published are 12 and 23, and 25 where all sums are in plain float64.
    plain = {key.cell.log10_noise: row.cg for key, row in result.rows.items()}
    assert plain[-2] == 12
    assert plain[-4] == pytest.approx(23, rel=0.1)
    found = {(key.preconditioner, key.cell.log10_noise): row.pcg for key, row in result.rows.items()}
    for name in ("pitc", "fitc", "nystrom", "rpcholesky", "rpcholesky_local"):
        assert found[name, -2] <= 3
        assert found[name, -4] <= 5
    # Published are 73 and 713: blocks know nothing of what all rows have in common.
    assert found["block_jacobi", -2] == pytest.approx(73, rel=0.35)
    assert (tmp_path / "fig1.png").stat().st_size > 10_000
    assert (tmp_path / "fig1.svg").exists()


def invoke(*arguments):
    testing = pytest.importorskip("typer.testing")
    return testing.CliRunner().invoke(cli.application(), ["reproduce", *arguments], env={"NO_COLOR": "1"})


def test_command_explains_itself():
    assert "cutajar2016-fig1" in invoke("--help").output
    result = invoke("cutajar2016-fig1", "--help")
    assert result.exit_code == 0
    for option in ("--datasets", "--preconditioners", "--cells", "--quick", "--out", "--reference"):
        assert option in result.output


def test_command_passes_its_options_on(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(figure1, "run", lambda folder, **options: asked.append((str(folder), options)))
    defaults = {
        "datasets": ["concrete", "powerplant", "protein"],
        "preconditioners": None,
        "cells": None,
        "quick": False,
        "reference": None,
    }
    assert invoke("cutajar2016-fig1").exit_code == 0
    assert asked.pop() == ("fig1", defaults)
    arguments = ("--datasets", "concrete, protein", "--preconditioners", "nystrom,fitc", "--cells", "-1,-2;0,-2")
    places = ("--out", str(tmp_path), "--reference", str(tmp_path), "--quick")
    assert invoke("cutajar2016-fig1", *arguments, *places).exit_code == 0
    assert asked.pop() == (
        str(tmp_path),
        {
            "datasets": ["concrete", "protein"],
            "preconditioners": ["nystrom", "fitc"],
            "cells": "-1,-2;0,-2",
            "quick": True,
            "reference": tmp_path,
        },
    )


def test_command_says_what_is_wrong(tmp_path):
    result = invoke("cutajar2016-fig1", "--datasets", "iris", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "unknown data set 'iris'" in result.output
    assert "Traceback" not in result.output
