"""Products with one operator in two precisions: fast ones for the steps, true ones for the reported residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator

PRECISIONS = ("auto", "mixed", "float64")
# From so many rows on a product takes so much longer than the rest of a step that float32 pays.
MIXED_ROWS = 4096
# The error of a float32 product over its size, both in the norm.
SINGLE_ERROR = 3e-7
# Squares of right-hand sides up to here, and of one over this, are floats with room to spare.
LARGEST = 1e140


class Products:
    """A V by the fast operator, A V by the true one, and how many columns were multiplied.

    "float64" takes all products in float64. "mixed" takes those inside the steps in float32, where the operator can be
    had in it. "auto" does so from some thousand rows on, or where the operator is given in float32.
    """

    def __init__(self, A: Operator, precision: str) -> None:
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"a solver needs a square operator, this one is {A.shape[0]} x {A.shape[1]}")
        checks.choice("precision", precision, PRECISIONS)
        self.exact: Any = A.astype("float64") if hasattr(A, "astype") else A
        self.fast: Any = self.exact
        if precision == "mixed" or (
            precision == "auto" and (A.shape[0] >= MIXED_ROWS or getattr(A, "dtype", None) == np.float32)
        ):
            self.fast = A.astype("float32") if hasattr(A, "astype") else A
        self.mixed = getattr(self.fast, "dtype", None) == np.float32
        self.first = "mixed" if self.mixed else "float64"
        self.count = 0

    @property
    def error(self) -> float:
        """The relative error of a fast product that the recurrence for residuals has to watch."""
        return SINGLE_ERROR if self.mixed else 0.0

    @property
    def precision(self) -> str:
        """What was used, in words."""
        return self.first if self.first == "float64" or self.mixed else "mixed, then float64"

    def multiply(self, V: Array) -> Array:
        self.count += V.shape[1]
        return np.asarray(self.fast @ V, dtype=np.float64)

    def true(self, V: Array) -> Array:
        self.count += V.shape[1]
        return np.asarray(self.exact @ V, dtype=np.float64)

    def be_exact(self) -> bool:
        """Take all further products in float64; return whether that changes anything."""
        changed = self.mixed
        self.fast, self.mixed = self.exact, False
        return changed


def start(A: Operator, B: Any, x0: Any) -> tuple[Array, Array]:
    """Return right-hand sides and a first guess as new float64 arrays (n, p)."""
    right = checks.columns_for("B", B, A.shape[0]).astype(np.float64)
    _refuse_what_has_no_square(right)
    if x0 is None:
        return right, np.zeros_like(right)
    guess = checks.columns_for("x0", x0, A.shape[0]).astype(np.float64)
    if guess.shape != right.shape:
        raise ValueError(f"x0 has {guess.shape[1]} columns, B {right.shape[1]}")
    # No relative tolerance can be met by a column of zeros from another start than its answer.
    guess[:, ~right.any(axis=0)] = 0.0
    return right, guess


def _refuse_what_has_no_square(B: Array) -> None:
    size = np.abs(B).max(axis=0, initial=0.0)
    wrong = (size > LARGEST) | ((size > 0) & (size < 1.0 / LARGEST))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise ValueError(
            f"B has entries up to {size[column]:.1e} in column {column}, whose squares leave the range of floats; "
            "scale it, and the solution with it"
        )


def dots(U: Array, V: Array) -> Array:
    """Return the inner product of each pair of columns."""
    return np.einsum("ij,ij->j", U, V)
