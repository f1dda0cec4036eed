"""What the tests of compiled loops share: other processes, and compiled texts that are small."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import precog
from precog.codegen import build

SOURCES = str(Path(precog.__file__).parents[1])


def spawn(code: str, **environment: str) -> subprocess.Popen[str]:
    """Start Python on `code` with some environment variables on top of ours."""
    paths = [SOURCES, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process printed and what it complained of, once it has ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


@pytest.fixture(scope="session")
def start() -> Callable[..., subprocess.Popen[str]]:
    """The function that starts a process without waiting for it."""
    return spawn


@pytest.fixture(scope="session")
def end() -> Callable[[subprocess.Popen[str]], tuple[str, str]]:
    """The function that waits for a process and returns (stdout, stderr)."""
    return finish


@pytest.fixture(scope="session")
def run() -> Callable[..., tuple[str, str]]:
    """The function that runs Python on a text and returns (stdout, stderr)."""
    return lambda code, **environment: finish(spawn(code, **environment))


@pytest.fixture
def compile_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """The function that takes a text to its compiled `run`, as for the first time in a process with an empty cache."""
    monkeypatch.setenv("PRECOG_CACHE_DIR", str(tmp_path / "loops"))
    monkeypatch.setattr(build, "_told", set())
    before = set(sys.modules)
    yield lambda text: build._module.__wrapped__(text).run
    for name in set(sys.modules) - before:
        if name.startswith("precog_"):
            del sys.modules[name]
