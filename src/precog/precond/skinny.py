"""Products of a tall stored factor with a few columns, F' V and F T: limited by reading F, each entry once."""

from __future__ import annotations

import numpy as np

from precog.kernels.statistics import Array


def project(F: Array, V: Array) -> Array:
    """Return F' V in float64, (k, p)."""
    out: Array = (V.T.astype(F.dtype) @ F).T.astype(np.float64)
    return out


def expand(F: Array, T: Array) -> Array:
    """Return F T in float64, (n, p)."""
    out: Array = (F @ T.astype(F.dtype)).astype(np.float64)
    return out
