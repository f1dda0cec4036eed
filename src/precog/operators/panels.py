"""Products by panels: a block of the matrix computed once, then multiplied by BLAS.

For many columns: the fused loop spends 2 p multiplications on an entry at the speed of its registers, BLAS at the speed
of its own. A panel is as large as the last-level cache, and a symmetric matrix is visited once.
"""

from __future__ import annotations

import numpy as np

from precog.kernels.statistics import Array
from precog.operators.fused import Fused
from precog.operators.schedule import Progress

ROWS, COLUMNS = 1024, 2048


def matmat(fused: Fused, V: Array, callback: Progress | None, *, transposed: bool) -> Array:
    """Return K V (K' V where transposed) in float64."""
    X, symmetric = fused.X, fused.Z is None
    Z = X if fused.Z is None else fused.Z
    if transposed:
        X, Z = Z, X
    out = np.zeros((len(X), V.shape[1]))
    W = V.astype(fused.dtype, copy=False)
    for i in range(0, len(X), ROWS):
        rows = slice(i, min(i + ROWS, len(X)))
        for j in range(i if symmetric else 0, len(Z), COLUMNS):
            columns = slice(j, min(j + COLUMNS, len(Z)))
            K = Fused(fused.kernel, X[rows], Z[columns], fused.dtype, fused.threads).block()
            out[rows] += K @ W[columns]
            if symmetric:
                beyond = max(rows.stop - j, 0)
                out[max(rows.stop, j) : columns.stop] += K[:, beyond:].T @ W[rows]
        if callback:
            callback(rows.stop / len(X))
    return out
