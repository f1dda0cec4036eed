"""What importing the package costs, and that every public name is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import precog

HEAVY = ("matplotlib", "dask", "numba", "llvmlite", "sklearn", "pandas", "polars", "scipy.sparse")


def run(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    paths = [str(Path(precog.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(code: str, tmp_path: Path) -> list[str]:
    """Return which heavy packages some code loads, and check that it compiles nothing."""
    report = f"import sys\n{code}\nprint(*(m for m in {HEAVY!r} if m in sys.modules))"
    loaded = run(report, PRECOG_CACHE_DIR=str(tmp_path / "loops")).split()
    assert not (tmp_path / "loops").exists()
    return loaded


def test_import_loads_nothing_heavy(tmp_path):
    assert loaded_after("import precog", tmp_path) == []


def test_kernels_need_no_compiler(tmp_path):
    code = """
from precog import RBF, Linear, Matern32, White
kernel = 1.7 * RBF(length_scale=[0.5, 2.0], columns=[0, 3]) + 0.3 * Linear() * Matern32() + White(0.1) ** 2
kernel = kernel.with_theta(kernel.theta + 0.1).fix("RBF.length_scale")
print(repr(kernel), file=sys.stderr)
"""
    assert loaded_after(code, tmp_path) == []


def test_values_of_a_kernel_need_no_compiler(tmp_path):
    loaded = loaded_after("import numpy, precog\nprecog.RBF()(numpy.eye(3))", tmp_path)
    assert not {"numba", "llvmlite", "sklearn"} & set(loaded)


def test_small_problems_never_compile(tmp_path):
    code = "import numpy as np, precog\nX = np.eye(50)\nprecog.KernelRidge().fit(X, X[0]).predict(X)"
    run(code, PRECOG_CACHE_DIR=str(tmp_path / "loops"))
    assert not (tmp_path / "loops").exists()


@pytest.mark.parametrize("name", precog.__all__)
def test_public_name_is_there(name):
    assert getattr(precog, name) is not None


def test_dir_lists_the_public_names():
    assert set(dir(precog)) == set(precog.__all__)
    assert len(precog.__all__) == len(set(precog.__all__))


def test_unknown_name_says_where_to_look():
    with pytest.raises(AttributeError, match=r"no attribute 'RBFF'.*precog\.__all__"):
        _ = precog.RBFF


def test_star_import_brings_every_public_name():
    names: dict[str, object] = {}
    exec("from precog import *", names)
    assert set(precog.__all__) <= set(names)


def test_version_is_the_installed_one():
    from importlib import metadata

    try:
        installed = metadata.version("precog")
    except metadata.PackageNotFoundError:
        pytest.skip("precog is not installed here, only on the path")
    assert precog.__version__ == installed
