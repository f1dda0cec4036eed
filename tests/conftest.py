"""One folder of compiled loops for a whole run of the tests, shared by its workers, and gone at the end."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

CACHE = pytest.StashKey[str]()

# Compiled products and busy machines make single examples slow; a run must not depend on what an earlier one found.
settings.register_profile("precog", deadline=None, derandomize=True, database=None)
settings.load_profile("precog")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder before the workers start, so that they inherit it.

    Workers share the cores, so each has one thread of BLAS: two that wait for each other take three times as long.
    """
    if not hasattr(config, "workerinput"):
        config.stash[CACHE] = os.environ["PRECOG_CACHE_DIR"] = tempfile.mkdtemp(prefix="precog-tests-")
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(CACHE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
