"""Leaves whose statistic is a sum over scaled inputs: what ARD length scales and `columns` mean, written once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from precog.kernels.base import Leaf
from precog.kernels.parameters import DEFAULT_BOUNDS, Bounds, Value, parameter
from precog.kernels.statistics import Array, Statistic


class Additive(Leaf):
    """A leaf that sees rows through features x[columns] / length_scale and their statistic s = Σₖ t(uₖ, wₖ)."""

    length_scale: Value = parameter(default=1.0)
    columns: Sequence[int] | None = dataclasses.field(default=None, kw_only=True)
    length_scale_bounds: Bounds = dataclasses.field(default=DEFAULT_BOUNDS, kw_only=True)

    statistic: ClassVar[Statistic]

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        if self.columns is not None:
            object.__setattr__(self, "columns", _columns(owner, self.columns))
        scales = self.length_scale
        if isinstance(scales, tuple) and self.columns is not None and len(scales) != len(self.columns):
            raise ValueError(f"{owner}: {len(scales)} length scales for {len(self.columns)} columns; give one for each")

    def formula_parameters(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameter_names() if name not in self.map_parameters())

    def map_parameters(self) -> tuple[str, ...]:
        """Return the hyperparameters that act on the inputs before the statistic."""
        return ("length_scale",)

    @property
    def shares_features(self) -> bool:
        """Whether the features are the plain inputs times one number, so that other such leaves can use them too."""
        return not isinstance(self.length_scale, tuple) and self.map_parameters() == ("length_scale",)

    def check(self, name: str, X: Any) -> None:
        owner = type(self).__name__
        if not hasattr(X, "shape") or len(X.shape) != 2:
            raise TypeError(f"{owner} looks at the columns of a table; {name} holds objects that have none")
        d = X.shape[1]
        if self.columns is not None and self.columns and max(self.columns) >= d:
            raise ValueError(
                f"{owner}: column {max(self.columns)} is out of range, {name} has {d} columns (0 to {d - 1})"
            )
        width = d if self.columns is None else len(self.columns)
        if isinstance(self.length_scale, tuple) and len(self.length_scale) != width:
            raise ValueError(
                f"{owner}: {len(self.length_scale)} length scales for {width} columns of {name}; give one for each "
                "column, or a single number for all"
            )

    def take(self, X: Array) -> Array:
        """Return the columns that this leaf looks at."""
        return X if self.columns is None else X[:, list(self.columns)]

    def features(self, X: Array) -> Array:
        """Return the rows as the statistic sees them, (n, width)."""
        return self.take(X) / np.asarray(self.length_scale)

    def tangents(self, X: Array) -> Array | None:
        """Return the derivative of `features` in the log of the other map parameter, if there is one."""
        return None

    def pairs(self, X: Array, Z: Array) -> Array:
        X, Z = self.centred(X, Z)
        return self.statistic.pairs(self.features(X), self.features(Z))

    def pair_diag(self, X: Array) -> Array:
        return self.statistic.diag(self.features(X.astype(np.float64, copy=False)))

    def centred(self, X: Array, Z: Array) -> tuple[Array, Array]:
        """Return float64 inputs, moved to a better origin where the kernel does not depend on it."""
        return X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)

    def map_gradient(self, scaling: Array, tangent: Array | None) -> dict[str, Array]:
        """Return the derivative in the log of each map parameter.

        `scaling` holds Σ c ∂k/∂s t for each feature, `tangent` the derivative along `tangents`; both (width,).
        """
        return {"length_scale": -self.statistic.degree * self._sum_groups(scaling, self.length_scale)}

    def _sum_groups(self, values: Array, parameter: Any) -> Array:
        size = len(parameter) if isinstance(parameter, tuple) else 1
        return np.asarray(values).reshape(size, -1).sum(axis=1) if len(values) else np.zeros(size)

    def pull_back(self, Z: Array, G: Array) -> Array:
        """Return the derivative in the rows of Z from the derivative G in their features."""
        out = np.zeros(Z.shape)
        out[:, slice(None) if self.columns is None else list(self.columns)] = G / np.asarray(self.length_scale)
        return out


def _columns(owner: str, columns: Any) -> tuple[int, ...]:
    array = np.asarray(columns)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{owner}: columns must be a flat list of column numbers, got {columns!r}")
    if (array < 0).any():
        raise ValueError(f"{owner}: columns must not be negative, got {array.min()}")
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{owner}: column {values[counts > 1][0]} is named twice in columns")
    if not array.size:
        raise ValueError(f"{owner}: columns is empty; leave it out to use all")
    return tuple(int(v) for v in array)
