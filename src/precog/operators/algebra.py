"""Sums, multiples and noise: operators made of operators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators.base import Operator, indices, right_hand_side
from precog.operators.schedule import Progress, share


@dataclass(frozen=True)
class Sum(Operator):
    """A = A₁ + A₂ + ..."""

    terms: tuple[Operator, ...]

    def __post_init__(self) -> None:
        shapes = {term.shape for term in self.terms}
        if len(shapes) != 1:
            raise ValueError(f"operators of different shapes cannot be added: {' and '.join(map(str, sorted(shapes)))}")
        opened = tuple(t for term in self.terms for t in (term.terms if isinstance(term, Sum) else (term,)))
        object.__setattr__(self, "terms", opened)

    @property
    def shape(self) -> tuple[int, int]:
        return self.terms[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(term.dtype for term in self.terms))

    def astype(self, dtype: Any) -> Sum:
        return Sum(tuple(term.astype(dtype) for term in self.terms))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return reduce(np.add, [term.matmat(V, callback=part) for term, part in self._shares(callback)])

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return reduce(np.add, [term.rmatmat(V, callback=part) for term, part in self._shares(callback)])

    def _shares(self, callback: Progress | None) -> list[tuple[Operator, Progress | None]]:
        return [(term, share(callback, i, len(self.terms))) for i, term in enumerate(self.terms)]

    def diag(self) -> Array:
        return reduce(np.add, [term.diag() for term in self.terms])

    def block(self, rows: Any, columns: Any) -> Array:
        return reduce(np.add, [term.block(rows, columns) for term in self.terms])

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


@dataclass(frozen=True)
class Scaled(Operator):
    """A = factor · A₁."""

    factor: float
    operator: Operator

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", checks.number("the factor of an operator", self.factor, low=-np.inf))

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.operator.dtype

    def astype(self, dtype: Any) -> Scaled:
        return Scaled(self.factor, self.operator.astype(dtype))

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self.factor * self.operator.matmat(V, callback=callback)

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self.factor * self.operator.rmatmat(V, callback=callback)

    def diag(self) -> Array:
        return self.factor * self.operator.diag()

    def block(self, rows: Any, columns: Any) -> Array:
        return self.factor * self.operator.block(rows, columns)

    def __repr__(self) -> str:
        inner = f"({self.operator!r})" if isinstance(self.operator, Sum | Noisy) else repr(self.operator)
        return f"{self.factor!r} * {inner}"


@dataclass(frozen=True, eq=False)
class Congruent(Operator):
    """A = S K S with S = diag(scale): `Congruent(K, √w) + 1.0` is the I + W^½ K W^½ of Newton's steps."""

    K: Operator
    scale: Any

    def __post_init__(self) -> None:
        n, m = self.K.shape
        if n != m:
            raise ValueError(f"rows and columns are scaled alike, so the operator must be square; it is {n} x {m}")
        S = np.array(self.scale, dtype=np.float64)
        if S.shape != (n,):
            raise ValueError(f"scale must have shape ({n},), got {S.shape}")
        checks.finite("scale", S)
        S.flags.writeable = False
        object.__setattr__(self, "scale", S)

    @property
    def shape(self) -> tuple[int, int]:
        return self.K.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.K.dtype

    def astype(self, dtype: Any) -> Congruent:
        return Congruent(self.K.astype(dtype), self.scale)

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self._scaled(self.K.matmat, V, callback)

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self._scaled(self.K.rmatmat, V, callback)

    def _scaled(self, multiply: Any, V: Any, callback: Progress | None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        scale = self.scale[:, None]
        product: Array = scale * multiply(scale * V, callback=callback)
        return product.astype(np.result_type(self.dtype, V), copy=False)

    def diag(self) -> Array:
        return (self.scale**2 * self.K.diag()).astype(self.dtype, copy=False)

    def block(self, rows: Any, columns: Any) -> Array:
        n = self.shape[0]
        i, j = indices("rows", rows, n), indices("columns", columns, n)
        scaled = self.K.block(i, j) * self.scale[i][:, None] * self.scale[j]
        return scaled.astype(self.dtype, copy=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Congruent) and self.K == other.K and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash((Congruent, self.K, self.scale.tobytes()))

    def __repr__(self) -> str:
        return f"Congruent({self.K!r}, scale of shape ({len(self)},))"


@dataclass(frozen=True, eq=False)
class Noisy(Operator):
    """A = K + D with D = noise · I, or diag(noise): the matrix that every kernel machine solves with."""

    K: Operator
    noise: Any

    def __post_init__(self) -> None:
        n, m = self.K.shape
        if n != m:
            raise ValueError(f"noise goes on the diagonal of a square operator; this one is {n} x {m}")
        D = np.asarray(self.noise)
        if D.dtype.kind not in "fiu" or D.ndim > 1 or (D.ndim == 1 and D.shape != (n,)):
            raise ValueError(f"noise must be a number or have shape ({n},), got {self.noise!r:.80}")
        D = D.astype(np.float64)
        wrong = ~(np.isfinite(D) & (D >= 0))
        if wrong.any():
            where = f"noise[{int(np.argmax(wrong))}]" if D.ndim else "noise"
            raise ValueError(f"{where} must be finite and not negative, got {D[wrong][0] if D.ndim else D}")
        D.flags.writeable = False
        object.__setattr__(self, "noise", D if D.ndim else float(D))

    @property
    def shape(self) -> tuple[int, int]:
        return self.K.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.K.dtype

    def astype(self, dtype: Any) -> Noisy:
        return Noisy(self.K.astype(dtype), self.noise)

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        return self._with_noise(self.K.matmat(V, callback=callback), V)

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[0])
        return self._with_noise(self.K.rmatmat(V, callback=callback), V)

    def _with_noise(self, product: Array, V: Array) -> Array:
        product += (self.noise[:, None] if np.ndim(self.noise) else self.noise) * V
        return product

    def diag(self) -> Array:
        return self.K.diag() + self.noise

    def block(self, rows: Any, columns: Any) -> Array:
        n = self.shape[0]
        i, j = indices("rows", rows, n), indices("columns", columns, n)
        out = self.K.block(i, j)
        same = i[:, None] == j[None, :]
        out[same] += np.broadcast_to(self.noise, n)[np.broadcast_to(i[:, None], same.shape)[same]].astype(out.dtype)
        return out

    def __add__(self, other: Any) -> Operator:
        if isinstance(other, Operator):
            return super().__add__(other)
        return Noisy(self.K, self.noise + np.asarray(other, dtype=np.float64))

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noisy) and self.K == other.K and np.array_equal(self.noise, other.noise)

    def __hash__(self) -> int:
        return hash((Noisy, self.K, np.asarray(self.noise).tobytes()))

    def __repr__(self) -> str:
        return (
            f"{self.K!r} + {self.noise!r}"
            if np.ndim(self.noise) == 0
            else f"{self.K!r} + noise of shape ({len(self)},)"
        )
