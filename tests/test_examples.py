"""The Python in the documentation runs as it stands there, and so do the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import precog

ROOT = Path(__file__).parents[1]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]
# A fenced block, with the HTML comment in front of it if there is one.
BLOCK = re.compile(r"(<!--\s*not run\s*-->\s*\n)?^```python[^\n]*\n(.*?)^```", re.M | re.S)


def blocks(text: str) -> list[tuple[int, str]]:
    """Return (first line, code) of the Python blocks that are to be run."""
    return [(text[: m.start(2)].count("\n"), m[2]) for m in BLOCK.finditer(text) if not m[1]]


WITH_CODE = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page.read_text(encoding="utf-8")):
        # Empty lines in front keep the line numbers of a traceback those of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)


MODULES = [name for _, name, _ in pkgutil.walk_packages(precog.__path__, "precog.") if not name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_blocks_are_found_and_left_out_as_marked():
    text = (
        "```python\na = 1\n```\n\n<!-- not run -->\n```python\nb = 2\n```\n\n```bash\nls\n```\n```python\nc = 3\n```\n"
    )
    assert blocks(text) == [(1, "a = 1\n"), (13, "c = 3\n")]
