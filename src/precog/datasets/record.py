"""The record that every data set arrives in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


# Arrays have no single truth value, so two data sets are equal only when they are the same object.
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Raw inputs X (n, d) and targets y (n,), float64 and read-only, with what is known of them.

    `extras` holds the other arrays of the file, such as published splits, with rows counted from 0. `citation` is
    empty where the file names none.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]
    target_name: str
    citation: str
    extras: Mapping[str, NDArray[Any]]

    def __repr__(self) -> str:
        return f"load({self.name!r})"
