"""Kernels on strings."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from precog.kernels.counted import Counted


class Spectrum(Counted):
    """k(x, z) from the counts of substrings of one length [Leslie02]; x may be any sequence of symbols."""

    length: int = dataclasses.field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.length, int | np.integer) or isinstance(self.length, bool) or self.length < 1:
            raise ValueError(f"Spectrum: length must be a whole number from 1 on, got {self.length!r}")

    def counts(self, x: Any) -> Mapping[Hashable, float]:
        symbols = x if isinstance(x, str) else tuple(x)
        k = self.length
        return Counter(symbols[i : i + k] for i in range(len(symbols) - k + 1))

    def check(self, name: str, X: Any) -> None:
        for i, x in enumerate(X):
            if not hasattr(x, "__len__") or not hasattr(x, "__getitem__"):
                raise TypeError(f"Spectrum takes strings or sequences; object {i} of {name} is {x!r}")
