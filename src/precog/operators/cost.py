"""Which way a product takes, by a cost model with measured constants."""

from __future__ import annotations

from precog.kernels import Kernel

# Entries below which NumPy is done before a compiler could start; such a matrix is also small enough to keep.
SMALL = 100_000
# From so many columns on, one BLAS product with a computed block costs less than accumulating in registers.
PANEL_COLUMNS = 17


def path(kernel: Kernel, shape: tuple[int, int], d: int, columns: float, dtype: str) -> str:
    """Return "numpy", "fused" or "panels"."""
    if shape[0] * shape[1] <= SMALL:
        return "numpy"
    return "panels" if columns >= PANEL_COLUMNS else "fused"
