"""How large a kernel can be between two ranges of rows, from the boxes around them.

Where a leaf falls with the squared distance s, a pair of boxes bounds it: φ(s_max) <= φ(s) <= φ(s_min). Other leaves
are bounded by |k(x, z)|² <= k(x, x) k(z, z). Sums, products and powers of bounds are bounds.

Derivatives. A positive semidefinite φ(s) falls and is convex, so for every share d of s

    -d s φ'(s) <= φ((1 - d) s) - φ(s)      and therefore      2 s |φ'(s)| <= (2 / d) φ((1 - d) s),

which bounds the derivative in the log of a length scale and, divided by √s, the one in a feature. Products and powers
of leaves bring a factor of their degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from precog.kernels import Constant, Kernel, Leaf, Stationary
from precog.kernels.algebra import Power, Product, Sum
from precog.kernels.base import is_white
from precog.kernels.statistics import Array, Index

Box: TypeAlias = tuple[Array, Array]  # corners, (boxes, features) each
# The share of s given up to bound a derivative.
GIVEN_UP = 1.0 / 8.0


def falls(leaf: Leaf) -> bool:
    """Return whether a leaf says that it falls with the distance."""
    return isinstance(leaf, Stationary) and leaf.decreasing


def bounds_slopes(kernel: Kernel) -> bool:
    """Return whether all derivatives of the kernel have the bounds above.

    That is so for leaves without hyperparameters other than a length scale, unless a root is taken of them.
    """
    plain = all(
        isinstance(leaf, Constant) or is_white(leaf) or (falls(leaf) and leaf.parameter_names() == ("length_scale",))
        for leaf in kernel.leaves()
    )
    return plain and not _takes_roots(kernel)


def _takes_roots(kernel: Kernel) -> bool:
    if isinstance(kernel, Power):
        return kernel.exponent < 1 or _takes_roots(kernel.base)
    parts = kernel.terms if isinstance(kernel, Sum) else kernel.factors if isinstance(kernel, Product) else ()
    return any(_takes_roots(part) for part in parts)


@dataclass(frozen=True)
class Ranges:
    """Ranges of rows as the leaves of a kernel see them."""

    boxes: tuple[Box | None, ...]  # around the features of leaves that fall
    own: tuple[Array, ...]  # the largest k(x, x) of each leaf
    least: Array  # the smallest k(x, x) of the kernel, `White` left out

    def __len__(self) -> int:
        return len(self.least)

    def joined(self, starts: Index) -> Ranges:
        """Return longer ranges, which begin with those at `starts`."""
        boxes = [b and (np.minimum.reduceat(b[0], starts), np.maximum.reduceat(b[1], starts)) for b in self.boxes]
        own = [np.maximum.reduceat(v, starts) for v in self.own]
        return Ranges(tuple(boxes), tuple(own), np.minimum.reduceat(self.least, starts))

    def __getitem__(self, chosen: slice) -> Ranges:
        boxes = [b and (b[0][chosen], b[1][chosen]) for b in self.boxes]
        return Ranges(tuple(boxes), tuple(v[chosen] for v in self.own), self.least[chosen])


def ranges(kernel: Kernel, X: Array, features: tuple[Array | None, ...], length: int) -> Ranges:
    """Return ranges of so many rows; `features` are those of X for each leaf that falls."""
    values = [
        np.asarray(leaf.formula(leaf.pair_diag(X) if U is None else 0.0, leaf.values()), dtype=np.float64)
        for leaf, U in zip(kernel.leaves(), features, strict=True)
    ]
    own = [np.broadcast_to(v, len(X)) for v in values]
    least = np.broadcast_to(np.asarray(kernel.combine(iter(values))), len(X))
    rows = Ranges(tuple(None if U is None else (U, U) for U in features), tuple(own), least)
    return rows.joined(np.arange(0, len(X), length))


def upper(kernel: Kernel, some: Ranges, others: Ranges, *, slopes: bool = False) -> Array:
    """Return bounds on |K|, and on the sizes of its derivatives too if asked, for all pairs of ranges."""
    values: list[Any] = []
    for k, leaf in enumerate(kernel.leaves()):
        near = _squared_distances(some.boxes[k], others.boxes[k], largest=False)
        if near is None:
            values.append(np.sqrt(some.own[k][:, None] * others.own[k][None, :]))
        elif slopes:
            reduced = leaf.formula((1.0 - GIVEN_UP) * near, leaf.values())
            with np.errstate(divide="ignore"):  # boxes that touch have no bound
                values.append(2.0 / GIVEN_UP * reduced / np.minimum(np.sqrt(near), 1.0))
        else:
            values.append(leaf.formula(near, leaf.values()))
    return np.asarray(kernel.combine(iter(values)))


def lower(kernel: Kernel, some: Ranges, others: Ranges) -> Array:
    """Return bounds on |K| from below for all pairs of ranges: zero where a leaf may be zero or negative."""
    values: list[Any] = []
    for k, leaf in enumerate(kernel.leaves()):
        far = _squared_distances(some.boxes[k], others.boxes[k], largest=True)
        if far is None and not isinstance(leaf, Constant) and not is_white(leaf):
            return np.zeros((len(some), len(others)))
        values.append(leaf.formula(far, leaf.values()))
    return np.broadcast_to(np.asarray(kernel.combine(iter(values))), (len(some), len(others)))


def _squared_distances(some: Box | None, others: Box | None, *, largest: bool) -> Array | None:
    """Return the smallest (largest) squared distance between points of two boxes, for all pairs of boxes."""
    if some is None or others is None:
        return None
    (low, high), (below, above) = some, others
    total = np.zeros((len(low), len(below)))
    for k in range(low.shape[1]):
        right, left = above[None, :, k] - low[:, None, k], high[:, None, k] - below[None, :, k]
        gap = np.maximum(right, left) if largest else np.maximum(-np.minimum(right, left), 0.0)
        total += gap * gap
    return total
