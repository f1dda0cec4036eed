"""The easy part E of a preconditioner P = E + F F', with E = L L': a diagonal, or blocks along the diagonal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array, Index

# Rows of a factor that are worked on at once.
CHUNK = 4096


class Part(Protocol):
    """What P = E + F F' asks of E = L L'."""

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def solve(self, V: Array) -> Array:
        """Return E⁻¹ V."""
        ...

    def matmat(self, V: Array) -> Array:
        """Return E V in float64."""
        ...

    def root(self, V: Array) -> Array:
        """Return L V in float64."""
        ...

    def logdet(self) -> float: ...

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of E⁻¹ in float64."""
        ...

    def whiten(self, F: Array) -> None:
        """Overwrite F with L⁻¹ F."""
        ...

    def whiten_transposed(self, F: Array) -> None:
        """Overwrite F with L⁻ᵀ F."""
        ...


@dataclass(frozen=True)
class Diagonal:
    """E = diag(values)."""

    values: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def solve(self, V: Array) -> Array:
        if self._uniform:
            # One number instead of a column of them: a third of the time for a few right-hand sides.
            return V / self.values[0]
        return V / self.values[:, None]

    @cached_property
    def _uniform(self) -> bool:
        return bool((self.values == self.values[0]).all())

    def matmat(self, V: Array) -> Array:
        return V * self.values[:, None]

    def root(self, V: Array) -> Array:
        """Return L V."""
        return V * np.sqrt(self.values)[:, None]

    def logdet(self) -> float:
        return float(np.log(self.values).sum())

    def inverse_diagonal(self) -> Array:
        return 1.0 / self.values.astype(np.float64)

    def whiten(self, F: Array) -> None:
        """Overwrite F with L⁻¹ F."""
        for start in range(0, len(F), CHUNK):
            F[start : start + CHUNK] /= np.sqrt(self.values[start : start + CHUNK, None])

    whiten_transposed = whiten


@dataclass(frozen=True)
class Blocks:
    """E = blockdiag(E_b) through the inverse Cholesky factors of its blocks; `order` lists the rows block by block.

    The factor is inverted once because a product with a stored matrix is limited by memory alone, where a triangular
    solve with few columns waits for itself.
    """

    order: Index
    edges: Index
    inverse: tuple[Array, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inverse[0].dtype

    def pieces(self) -> Iterator[Index]:
        """Yield the rows of each block."""
        for start, stop in zip(self.edges[:-1], self.edges[1:], strict=True):
            yield self.order[start:stop]

    def solve(self, V: Array) -> Array:
        return self._each(V, lambda C, v: C.T @ (C @ v))

    def matmat(self, V: Array) -> Array:
        return self._each(V.astype(np.float64, copy=False), lambda C, v: _lower(C, _lower(C, v, transposed=True)))

    def root(self, V: Array) -> Array:
        return self._each(V.astype(np.float64, copy=False), _lower)

    def logdet(self) -> float:
        return -2.0 * sum(float(np.log(np.diagonal(C).astype(np.float64)).sum()) for C in self.inverse)

    def inverse_diagonal(self) -> Array:
        out = np.empty(len(self.order))
        for rows, C in zip(self.pieces(), self.inverse, strict=True):
            out[rows] = np.einsum("ij,ij->j", C, C, dtype=np.float64)
        return out

    def whiten(self, F: Array) -> None:
        """Overwrite F with L⁻¹ F."""
        for rows, C in zip(self.pieces(), self.inverse, strict=True):
            F[rows] = C @ F[rows]

    def whiten_transposed(self, F: Array) -> None:
        """Overwrite F with L⁻ᵀ F."""
        for rows, C in zip(self.pieces(), self.inverse, strict=True):
            F[rows] = C.T @ F[rows]

    def _each(self, V: Array, change: Callable[[Array, Array], Array]) -> Array:
        # Columns beside each other in memory for the products, whose right-hand sides are then a few kilobytes.
        out = np.empty((len(V), V.shape[1]), np.result_type(V, self.dtype))
        for rows, C in zip(self.pieces(), self.inverse, strict=True):
            out[rows] = change(C, V[rows])
        return out


def _lower(C: Array, v: Array, transposed: bool = False) -> Array:
    """Return L v or L' v from C = L⁻¹."""
    solved: Array = scipy.linalg.solve_triangular(
        C.astype(np.float64), v, lower=True, trans=1 if transposed else 0, check_finite=False
    )
    return solved


def blocks(rows: list[Index], block: Callable[[Any], Array], size: float, dtype: Any) -> Blocks:
    """Return E from a function that gives the block of some rows, each factorised in float64.

    size: of the entries of K, to which rounding in a block is relative.
    """
    inverse = []
    for some in rows:
        E = np.asarray(block(some), dtype=np.float64)
        L = cholesky(E, size, name="a diagonal block of the preconditioner")
        C, info = scipy.linalg.lapack.dtrtri(L, lower=1)
        assert info == 0
        inverse.append(np.tril(C).astype(dtype))
    edges = np.cumsum([0, *(len(some) for some in rows)])
    return Blocks(np.concatenate(rows).astype(np.intp), edges, tuple(inverse))


def cholesky(E: Array, size: float | None = None, *, name: str) -> Array:
    """Return L with L L' = E + a jitter of rounding size where E needs one, or say that E is not positive definite.

    size: what rounding in E is relative to; its own largest diagonal entry by default.
    """
    size = float(np.diagonal(E).max()) if size is None else size
    for jitter in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        try:
            shifted = E if jitter == 0.0 else E + jitter * size * len(E) * np.eye(len(E))
            factor: Array = scipy.linalg.cholesky(shifted, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        if np.isfinite(np.diagonal(factor)).all():
            return factor
    raise ArithmeticError(
        f"{name} is not positive definite: check that the kernel is positive definite on these inputs, or add noise"
    )
