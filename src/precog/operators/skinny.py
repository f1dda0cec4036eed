"""Products of a tall stored factor with a few columns, F' V and F T, at the speed of reading F once.

A BLAS is three times as slow for five columns, and its threads spin on after it has answered: a kernel product that
follows takes a quarter longer. So large factors go through compiled loops, in fixed stripes of rows: results are
the same to the last bit for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from precog.codegen import build
from precog.codegen.skinny import CHUNK, ROWS
from precog.codegen.vector import BYTES
from precog.kernels.statistics import Array, Index
from precog.operators.schedule import available_threads, work

# Factors with fewer numbers are left to the BLAS, which is done before threads have started, and so are many columns.
SMALL, VECTORS, MANY = 1 << 20, 8, 24
STRIPES = 16
CACHE_LINE = 64


def tall(n: int, k: int, dtype: Any) -> Array:
    """Return an uninitialised (n, k) array whose rows begin with a cache line: no vector then lies in two.

    What stands between the rows is zero, since vectors at the end of a row read it.
    """
    itemsize = np.dtype(dtype).itemsize
    stride = -(-k * itemsize // CACHE_LINE) * CACHE_LINE // itemsize
    held = np.empty(n * stride + CACHE_LINE // itemsize, dtype)
    first = -held.ctypes.data % CACHE_LINE // itemsize
    rows = held[first : first + n * stride].reshape(n, stride)
    rows[:, k:] = 0.0
    return rows[:, :k]


def project(F: Array, V: Array) -> Array:
    """Return F' V in float64, (k, p), for F (n, k) and V (n, p)."""
    if not _compiled(F, V):
        return np.asarray((V.T.astype(F.dtype) @ F).T, dtype=np.float64)
    return np.concatenate([_project(F, V[:, c : c + VECTORS]) for c in range(0, V.shape[1], VECTORS)], axis=1)


def expand(F: Array, T: Array) -> Array:
    """Return F T in float64, (n, p), for F (n, k) and T (k, p)."""
    if not _compiled(F, T):
        return np.asarray(F @ T.astype(F.dtype), dtype=np.float64)
    return np.concatenate([_expand(F, T[:, c : c + VECTORS]) for c in range(0, T.shape[1], VECTORS)], axis=1)


def _compiled(F: Array, V: Array) -> bool:
    rows = F.strides[1] == F.itemsize and F.strides[0] > 0
    return F.size >= SMALL and rows and 0 < V.shape[1] < MANY and F.dtype.name in ("float32", "float64")


def _project(F: Array, V: Array) -> Array:
    width, padded, columns = F.shape[1], _padded(F), V.shape[1]
    W = np.ascontiguousarray(V, dtype=F.dtype)
    done, tasks = _stripes(F)
    parts = np.zeros((len(tasks), columns * padded))
    _run(_loops(F, columns).project, F, (W, parts), tasks)
    out = parts.sum(axis=0).reshape(columns, padded)[:, :width].T
    return out + (W[done:].T @ F[done:]).T


def _expand(F: Array, T: Array) -> Array:
    columns, padded = T.shape[1], _padded(F)
    held = np.zeros((columns, padded), F.dtype)
    held[:, : F.shape[1]] = T.T
    done, tasks = _stripes(F)
    out = np.zeros((len(F), columns))
    _run(_loops(F, columns).expand, F, (held.ravel(), out), tasks)
    out[done:] = F[done:] @ T.astype(F.dtype)
    return out


def _loops(F: Array, columns: int) -> ModuleType:
    return build.skinny(F.dtype.name, columns)


def _padded(F: Array) -> int:
    """Return the length of a row in whole vectors."""
    lanes = BYTES // F.itemsize
    return -(-F.shape[1] // lanes) * lanes


def _stripes(F: Array) -> tuple[int, Index]:
    """Return how many rows the loops take, and those rows in stripes; the last ones have too little behind them."""
    n, width = F.shape
    done = (n - -(-(_padded(F) - width) * F.itemsize // F.strides[0])) // ROWS * ROWS
    height = -(-done // STRIPES // CHUNK) * CHUNK
    starts = np.arange(0, done, height)
    return done, np.stack([starts, np.minimum(starts + height, done)], axis=1).astype(np.int64)


def _run(loop: Callable[..., None], F: Array, arguments: tuple[Any, ...], tasks: Index) -> None:
    stride = F.strides[0] // F.itemsize
    flat = np.lib.stride_tricks.as_strided(F, ((len(F) - 1) * stride + F.shape[1],), (F.itemsize,))
    work(
        loop,
        (flat, stride, _padded(F), *arguments),
        (),
        tasks,
        chunks=0,
        entries=F.size,
        threads=available_threads(),
        callback=None,
    )
