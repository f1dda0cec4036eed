"""Tile pairs that a product may leave out because they vanish, and the order of rows that makes them many.

Rows are put into the order of a k-d tree, so that every tile of rows lies in a small box, and K between two boxes has a
bound b (`bounds.py`). A tile pair is left out if

    n b <= eps² c,      c <= maxⱼ |K_ij| and c <= maxᵢ |K_ij| for all its rows i and columns j,

with eps that of the operator's type and n the larger side of K. So in every row i of K V, for any V, what is left out
stays below

    Σⱼ b |v_j| <= eps² maxⱼ cⱼ |v_j| <= eps² maxᵢ (|K| |V|)ᵢ,

the square of what rounding loses. For K(X, X) the diagonal gives c, otherwise a bound from below. Where that is zero,
entries still go that are smaller than k(x, x) times the smallest normal number of the type, where the exponential of
the loops ends.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precog.codegen.layout import BLOCK
from precog.kernels import Additive, Kernel
from precog.kernels.statistics import Array, Index
from precog.operators import bounds
from precog.operators.bounds import Ranges

Skips: TypeAlias = NDArray[np.uint8]
NO_SKIPS: Skips = np.zeros((0, 0), np.uint8)

# Sorting costs about a tenth of one product, so it must save more than that; less is not worth another order of sums.
WORTH = 0.2
# With fewer rows there are too few tiles to lie apart.
FEWEST = 2048
# Two looks before sorting: at pairs of some rows, of which tile pairs lose no larger share; at boxes around more rows.
SOME, MORE = 128, 1024
# What the tree is split down to.
SMALLEST_TILE = 256
# Ranges whose bounds with all others are held at once.
AT_ONCE = 512


def spatial_order(U: Array, step: int) -> Index:
    """Return the rows of U in the order of a k-d tree, which splits the widest feature near its median.

    Parts of `step` rows are left whole. Splits fall on multiples of 2 `step` while there are any, so that tiles twice
    as long are parts of the tree too.
    """
    order = np.arange(len(U))
    parts = [(0, len(U))]
    while parts:
        first, last = parts.pop()
        steps = -(-(last - first) // step)
        if steps <= 1:
            continue
        middle = step * (1 if steps == 2 else 2 * max(round(steps / 4), 1))
        chosen = order[first:last]
        W = U[chosen]
        widest = W[:, np.argmax(W.max(axis=0) - W.min(axis=0))]
        order[first:last] = chosen[np.argpartition(widest, middle)]
        parts += [(first, first + middle), (first + middle, last)]
    return order


def limit(n: int, dtype: str) -> float:
    """Return how small entries must be against c to be left out of sums of n."""
    return float(np.finfo(dtype).eps) ** 2 / n


class Sorted:
    """The rows of K(X, Z), of K(X, X) if Z is None, in spatial order, and which pairs of their ranges vanish."""

    def __init__(self, kernel: Kernel, X: Array, Z: Array | None, dtype: str, steps: tuple[int, int], n: int) -> None:
        self.kernel, self.symmetric, self.dtype, self.n = kernel, Z is None, dtype, n
        self._found: dict[Any, Skips] = {}
        orders: list[Index] = []
        fine: list[Ranges] = []
        for A, features, step in zip((X, X if Z is None else Z), _features(kernel, X, Z), steps, strict=True):
            if orders and Z is None:
                break
            order = spatial_order(np.concatenate([U for U in features if U is not None], axis=1), step)
            orders.append(order)
            in_order = tuple(U if U is None else U[order] for U in features)
            fine.append(bounds.ranges(kernel, A[order], in_order, BLOCK))
        self.orders: tuple[Index, Index] = (orders[0], orders[-1])
        self._fine: tuple[Ranges, Ranges] = (fine[0], fine[-1])

    def skips(self, sides: tuple[int, int], starts: tuple[Index, Index], *, slopes: bool = False) -> Skips:
        """Return which pairs of ranges of rows to leave out, each range beginning at a multiple of `BLOCK`.

        sides: which of X and Z, 0 or 1, are the rows and the columns. slopes: of sums of derivatives, not of entries.
        """
        if slopes and not bounds.bounds_slopes(self.kernel):
            return NO_SKIPS
        key = (sides, *(s.tobytes() for s in starts), slopes)
        if key not in self._found:
            rows, columns = (self._fine[side].joined(s // BLOCK) for side, s in zip(sides, starts, strict=True))
            self._found[key] = self._negligible(rows, columns, slopes)
        return self._found[key]

    def _negligible(self, rows: Ranges, columns: Ranges, slopes: bool) -> Skips:
        pieces = [slice(i, i + AT_ONCE) for i in range(0, len(rows), AT_ONCE)]
        small = limit(self.n, self.dtype)
        with np.errstate(all="ignore"):  # what is not a number is not negligible
            by_row, by_column = rows.least, columns.least
            if not self.symmetric:
                lower = [bounds.lower(self.kernel, rows[piece], columns) for piece in pieces]
                floor = float(np.finfo(self.dtype).tiny) / small
                by_row = np.maximum(np.concatenate([K.max(axis=1) for K in lower]), floor * by_row)
                by_column = np.maximum(np.max([K.max(axis=0) for K in lower], axis=0), floor * by_column)
            found = [
                bounds.upper(self.kernel, rows[piece], columns, slopes=slopes)
                <= small * np.minimum(by_row[piece, None], by_column[None, :])
                for piece in pieces
            ]
        return np.concatenate(found).astype(np.uint8)

    def share(self, tiles: tuple[int, int]) -> float:
        """Return the share of K that goes, in tiles of so many rows and columns."""
        rows, columns = (np.arange(0, len(order), tile) for order, tile in zip(self.orders, tiles, strict=True))
        return float(self.skips((0, 1), (rows, columns)).mean())


def sort(kernel: Kernel, X: Array, Z: Array | None, dtype: str, tile: int) -> Sorted | None:
    """Return the rows in spatial order if products in tiles of `tile` rows gain by it, and None otherwise."""
    sides = (X, X if Z is None else Z)
    n = max(len(A) for A in sides)
    if n < FEWEST or not any(bounds.falls(leaf) for leaf in kernel.leaves()):
        return None
    rng = np.random.default_rng(0)
    few = [A[rng.integers(len(A), size=SOME)] for A in sides]
    if _vanishing(kernel, few, n, dtype) < WORTH:
        return None
    more = [A[rng.integers(len(A), size=MORE)] if len(A) > MORE else A for A in sides]
    steps = [BLOCK * max(round(tile * len(B) / len(A) / BLOCK), 1) for A, B in zip(sides, more, strict=True)]
    trial = Sorted(kernel, more[0], None if Z is None else more[1], dtype, (steps[0], steps[1]), n)
    if trial.share((steps[0], steps[1])) < WORTH:
        return None
    whole = Sorted(kernel, X, Z, dtype, (SMALLEST_TILE, SMALLEST_TILE), n)
    return None if whole.share((tile, tile)) < WORTH else whole


def _vanishing(kernel: Kernel, sides: list[Array], n: int, dtype: str) -> float:
    """Return the share of entries between some rows that could be left out if the tiles allowed it."""
    rows, columns = (kernel.diag(A) for A in sides)
    K = np.abs(kernel.dense(*sides))
    return float((limit(n, dtype) * np.maximum(rows[:, None], columns[None, :]) >= K).mean())


def _features(kernel: Kernel, X: Array, Z: Array | None) -> tuple[tuple[Array | None, ...], tuple[Array | None, ...]]:
    """Return the features of X and of Z (of X again if Z is None) as each leaf that falls sees them."""
    sides: list[tuple[Array | None, Array | None]] = []
    for leaf in kernel.leaves():
        if not isinstance(leaf, Additive) or not bounds.falls(leaf):
            sides.append((None, None))
            continue
        A, B = leaf.centred(X, X if Z is None else Z)
        U = leaf.features(A)
        sides.append((U, U if Z is None else leaf.features(B)))
    return tuple(U for U, _ in sides), tuple(W for _, W in sides)
