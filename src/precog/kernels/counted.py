"""Kernels that are dot products of counts: an object's features and how often each occurs.

k(x, z) = φ(x)'φ(z), or divided by |φ(x)| |φ(z)|. Features may be anything that can be looked up; vectors over those
that occur are sparse, so that a column of the kernel matrix is one sparse product once all features are known.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from precog.kernels.objects import Objects
from precog.kernels.statistics import Array, Index

# The one feature of objects that have none, where lengths are divided by: such objects are like each other and like no
# others. Without it they would have no variance.
NOTHING = "nothing"


class Counted(Objects):
    """A kernel through counts of features; `counts` gives those of one object.

    normalized: whether k(x, x) is brought to one.
    """

    normalized: bool = dataclasses.field(default=True, kw_only=True)

    @abstractmethod
    def counts(self, x: Any) -> Mapping[Hashable, float]:
        """Return how often each feature occurs in an object."""

    def block(self, rows: Sequence[Any], columns: Sequence[Any]) -> Array:
        right = Features.of(self, columns)
        left = right if rows is columns else Features.of(self, rows, right.vocabulary)
        return left.dot(right)

    def self_values(self, rows: Sequence[Any]) -> Array:
        return Features.of(self, rows).diag()

    def among(self, X: Sequence[Any]) -> Features:
        """Return the features of a set of objects, for many columns of its matrix."""
        return Features.of(self, X)


@dataclasses.dataclass(frozen=True, eq=False)
class Features:
    """Counts of a set of objects as a sparse matrix, (n, features); lengths are divided by already."""

    matrix: Any
    vocabulary: dict[Hashable, int]

    @staticmethod
    def of(kernel: Counted, X: Sequence[Any], known: dict[Hashable, int] | None = None) -> Features:
        """Return the features of objects; of `known` ones only, if they are given, though all count for the length."""
        vocabulary: dict[Hashable, int] = {} if known is None else known
        places: list[int] = []
        values: list[float] = []
        ends = [0]
        for x in X:
            counts = kernel.counts(x)
            length = 1.0
            if kernel.normalized:
                counts = counts or {NOTHING: 1.0}
                length = float(np.sqrt(sum(value * value for value in counts.values())))
            for feature, value in counts.items():
                place = vocabulary.setdefault(feature, len(vocabulary)) if known is None else vocabulary.get(feature)
                if place is not None:
                    places.append(place)
                    values.append(value / length)
            ends.append(len(places))
        shape = (len(X), max(len(vocabulary), 1))
        from scipy import sparse

        return Features(sparse.csr_array((np.array(values, float), places, ends), shape=shape), vocabulary)

    def dot(self, other: Features) -> Array:
        """Return the matrix between two sets."""
        width = max(self.matrix.shape[1], other.matrix.shape[1])
        left, right = (self._widened(side.matrix, width) for side in (self, other))
        return np.asarray((left @ right.T).toarray(), dtype=np.float64)

    @staticmethod
    def _widened(matrix: Any, width: int) -> Any:
        if matrix.shape[1] == width:
            return matrix
        from scipy import sparse

        return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], width))

    def columns(self, rows: Index) -> Array:
        """Return the columns of some of the objects, (n, k)."""
        return np.asarray((self.matrix @ self.matrix[rows].T).toarray(), dtype=np.float64)

    def diag(self) -> Array:
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1), dtype=np.float64).ravel()
