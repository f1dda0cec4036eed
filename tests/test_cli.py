"""The command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import precog
from precog import cli

typer = pytest.importorskip("typer")
testing = pytest.importorskip("typer.testing")


def invoke(*arguments):
    return testing.CliRunner().invoke(cli.application(), list(arguments))


def test_version():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.strip() == precog.__version__


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_lists_the_commands(arguments):
    output = invoke(*arguments).output
    assert "demo" in output
    assert "info" in output
    assert "preconditioned" in output


def test_info_names_versions_and_the_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECOG_CACHE_DIR", str(tmp_path / "loops"))
    result = invoke("info")
    assert result.exit_code == 0
    lines = dict(line.split(maxsplit=1) for line in result.output.splitlines() if not line.startswith("compiled loops"))
    assert lines["precog"] == precog.__version__
    assert lines["python"] == sys.version.split()[0]
    assert {"numpy", "scipy", "numba", "scikit-learn", "processor"} <= set(lines)
    assert int(lines["threads"]) >= 1
    assert f"compiled loops  {tmp_path / 'loops'}" in result.output
    assert not (tmp_path / "loops").exists()


def test_demo_passes_the_figure_on(monkeypatch, tmp_path):
    from precog.experiments import demo

    asked = []
    monkeypatch.setattr(demo, "run", lambda plot: asked.append(plot))
    assert invoke("demo").exit_code == 0
    assert invoke("demo", "--plot", str(tmp_path / "demo.png")).exit_code == 0
    assert asked == [None, tmp_path / "demo.png"]


def test_demo_prints_its_table(monkeypatch):
    from precog.experiments import demo

    small = demo.large_product
    monkeypatch.setattr(demo, "large_product", lambda rows: small(1500))
    result = invoke("demo")
    assert result.exit_code == 0, result.output
    assert "held-out RMSE (MPa)" in result.output
    assert "kernel entries per second" in result.output


def test_demo_without_matplotlib_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = invoke("demo", "--plot", str(tmp_path / "demo.png"))
    assert result.exit_code == 1
    assert "install precog[plot]" in result.output
    assert "Traceback" not in result.output


def test_unknown_command_is_an_error():
    result = invoke("dmo")
    assert result.exit_code == 2
    assert "dmo" in result.output


def test_without_typer_main_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "install precog[cli]" in capsys.readouterr().err


def test_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "precog", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == precog.__version__
