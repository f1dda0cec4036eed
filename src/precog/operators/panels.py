"""Products by panels: a block of the matrix computed once, then multiplied by BLAS.

For many columns and many features: the fused loop evaluates an entry again for every eight columns, a panel once for
all. A panel is about as large as the last-level cache, and a symmetric matrix is visited once.
"""

from __future__ import annotations

import numpy as np

from precog.kernels.statistics import Array
from precog.operators.fused import PANEL_STEP, Fused, balance
from precog.operators.schedule import Progress

ROWS, COLUMNS = PANEL_STEP, 16 * PANEL_STEP


def matmat(fused: Fused, V: Array, callback: Progress | None, *, transposed: bool) -> Array:
    """Return K V (K' V where transposed) in float64."""
    symmetric = fused.Z is None
    n, m = (side.n for side in (reversed(fused.sides) if transposed else fused.sides))
    out = np.zeros((n, V.shape[1]))
    scale = balance(V, fused.dtype)
    W = (V * scale).astype(fused.dtype, copy=False)
    for i in range(0, n, ROWS):
        rows = slice(i, min(i + ROWS, n))
        for j in range(i if symmetric else 0, m, COLUMNS):
            columns = slice(j, min(j + COLUMNS, m))
            K = fused.panel(rows, columns, transposed=transposed)
            out[rows] += K @ W[columns]
            if symmetric:
                right = max(rows.stop, j)
                out[right : columns.stop] += K[:, right - j :].T @ W[rows]
        if callback:
            callback(rows.stop / n)
    return out / scale
