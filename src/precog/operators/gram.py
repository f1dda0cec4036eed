"""The kernel matrix as an operator: products, blocks and derivatives without storing it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from precog import checks
from precog.kernels import Kernel, from_sklearn
from precog.kernels.base import has_white
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array
from precog.operators import blockwise, cost, derivative, panels, weighted
from precog.operators.base import Operator, indices, right_hand_side
from precog.operators.fused import Fused
from precog.operators.schedule import Progress, available_threads, throttled


class Gram(Operator):
    """K = k(X, X), or k(X, Z): the matrix of a kernel on rows of inputs, recomputed in every product.

    Only the inputs are kept. Entries are evaluated in registers by a loop compiled for the kernel's formula (once for
    all hyperparameters), or in blocks where that is cheaper; `path` says which way the last product went. Results are
    the same to the last bit for any number of threads.

    kernel: a kernel of this package or one of scikit-learn's.
    X, Z: (n, d) and (m, d) inputs; with Z=None the matrix is symmetric and `White` acts on its diagonal.
    dtype: "float64" (errors near 1e-15) or "float32" (near 1e-6, sums across tiles in float64; twice as fast).
    threads: how many to use; all that the process may use by default. BLAS has its own setting.
    """

    def __init__(self, kernel: Any, X: Any, Z: Any = None, dtype: Any = "float64", threads: int | None = None) -> None:
        width = checks.width(X)
        self.kernel: Kernel = from_sklearn(kernel, width)
        self.X = _kept(checks.inputs(self.kernel, "X", X))
        self.Z = None if Z is None else _kept(checks.inputs(self.kernel, "Z", Z, columns_of=self.X))
        self._dtype = np.dtype(checks.choice("dtype", dtype, ("float32", "float64")))
        self.threads = available_threads() if threads is None else checks.count("threads", threads)
        self.path: str | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n = checks.length(self.X)
        return n, n if self.Z is None else checks.length(self.Z)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    def astype(self, dtype: Any) -> Gram:
        return self if np.dtype(dtype) == self._dtype else Gram(self.kernel, self.X, self.Z, dtype, self.threads)

    def path_for(self, columns: int) -> str:
        """Return the way a product with so many columns takes: "numpy", "objects", "fused" or "panels"."""
        if on_objects(self.kernel):
            return "objects"
        way = cost.path(self.kernel, self.shape, self.X.shape[1], columns, self._dtype.name)
        if way == "panels":
            # Panels leave nothing out: what the fused loops save counts as if there were fewer columns.
            left = columns * (1.0 - self._fused.skipped)
            way = cost.path(self.kernel, self.shape, self.X.shape[1], left, self._dtype.name)
        return way

    @property
    def skipped(self) -> float:
        """The share of the matrix that fused products leave out, because it is zero to rounding.

        Where length scales are short against the distances between the rows, rows are put into spatial order and pairs
        of tiles left out whose entries, all together, are below the square of what rounding loses. 0.0 where too few
        are, and for matrices that are small or on objects.
        """
        return self._fused.skipped if self.path_for(1) == "fused" else 0.0

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[1])
        return self._multiply(V, callback, transposed=False)

    def rmatmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        V = right_hand_side("V", V, self.shape[0])
        return self._multiply(V, callback, transposed=self.Z is not None)

    def _multiply(self, V: Array, callback: Progress | None, *, transposed: bool) -> Array:
        self.path = self.path_for(V.shape[1])
        callback = throttled(callback)
        if not V.shape[1]:
            return np.zeros((self.shape[1 if transposed else 0], 0), np.result_type(self._dtype, V))
        if self.path == "fused":
            out = self._fused.matmat(V, callback, transposed=transposed)
        elif self.path == "panels":
            out = panels.matmat(self._fused, V, callback, transposed=transposed)
        elif self.path == "numpy":
            out = (self._small.T if transposed else self._small) @ V
        else:
            X, Z = self._sides
            out = blockwise.matmat(self.kernel, *((Z, X) if transposed else (X, Z)), V, callback)
        if self.path != "numpy" and self._white is not None:
            out += self._white[:, None] * V
        return out.astype(np.result_type(self._dtype, V), copy=False)

    @property
    def _sides(self) -> tuple[Any, Any]:
        return self.X, self.X if self.Z is None else self.Z

    @cached_property
    def _fused(self) -> Fused:
        return Fused(self.kernel, self.X, self.Z, self._dtype.name, self.threads)

    @cached_property
    def _small(self) -> Array:
        """The whole matrix, of a problem so small that it may be kept."""
        return self.kernel(self.X) if self.Z is None else self.kernel(self.X, self.Z)

    @cached_property
    def _white(self) -> Array | None:
        """What `White` puts on the diagonal."""
        return derivative.white_diag(self.kernel, self.X) if self.Z is None else None

    def diag(self) -> Array:
        if self.Z is None:
            return self.kernel.diag(self.X)
        k = min(self.shape)
        X, Z = blockwise.take(self.X, slice(k)), blockwise.take(self.Z, slice(k))
        return np.array([self.kernel.dense(_one(X, i), _one(Z, i))[0, 0] for i in range(k)])

    def block(self, rows: Any, columns: Any) -> Array:
        i, j = indices("rows", rows, self.shape[0]), indices("columns", columns, self.shape[1])
        X, Z = (blockwise.take(side, which) for side, which in zip(self._sides, (i, j), strict=True))
        if not i.size or not j.size:
            return np.zeros((i.size, j.size), self._dtype)
        if on_objects(self.kernel) or i.size * j.size <= cost.SMALL:
            out = self.kernel.dense(X, Z).astype(self._dtype, copy=False)
        else:
            out = Fused(self.kernel, X, Z, self._dtype.name, self.threads).block()
        if self._white is not None:
            for row in np.flatnonzero(np.isin(i, j)):
                out[row, j == i[row]] += self._white[i[row]]
        return out

    def grad(self, A: Any, B: Any, *, callback: Progress | None = None) -> Array:
        """Return Σᵢⱼ (A B')ᵢⱼ ∂Kᵢⱼ/∂θ for every entry of `kernel.theta`, in one pass over the entries.

        A: (n, p), B: (m, p), or vectors.
        """
        A, B = self._pair(A, B)
        callback = throttled(callback)
        theta = derivative.Theta(self.kernel)
        if self.path_for(A.shape[1]) in ("numpy", "objects"):
            blockwise.gradient(theta, *self._sides, A, B, callback)
        else:
            self._add_fused(theta, A, B, callback)
        if self.Z is None and has_white(self.kernel):
            derivative.add_white(theta, self.X, np.einsum("ip,ip->i", A, B, dtype=np.float64))
        return theta.vector()

    def grad_weighted(self, C: Any) -> Array:
        """Return Σᵢⱼ Cᵢⱼ ∂Kᵢⱼ/∂θ for every entry of `kernel.theta`, for a stored symmetric C (n, n)."""
        if self.Z is not None:
            raise ValueError("weights for every pair need the symmetric matrix of one set of rows; leave Z out")
        return weighted.gradient(self.kernel, self.X, checks.columns_for("C", C, self.shape[0]))

    def _add_fused(self, theta: derivative.Theta, A: Array, B: Array, callback: Progress | None) -> None:
        scalars, scaling, tangents = self._fused.gradient(A, B, callback)
        plan, leaves = self._fused.plan, self.kernel.leaves()
        for (leaf, name), value in zip(plan.owners, scalars, strict=True):
            theta.add(leaf, name, value)
        for accumulator, sums, along in zip(plan.accumulators, scaling, tangents, strict=True):
            if accumulator.by_feature:
                owned = leaves[accumulator.leaf].map_gradient(sums, along)  # type: ignore[attr-defined]
                for name in owned:
                    if (accumulator.leaf, name) not in plan.owners:
                        theta.add(accumulator.leaf, name, owned[name])

    def grad_inputs(self, A: Any, B: Any, *, callback: Progress | None = None) -> Array:
        """Return Σᵢ (A B')ᵢⱼ ∂k(xᵢ, zⱼ)/∂zⱼ for every row of Z, (m, d): the derivative in the second argument.

        With Z=None the rows of X stand in both places and only the second is moved. A: (n, p), B: (m, p), or vectors.
        """
        if on_objects(self.kernel):
            raise TypeError("a kernel on objects has no derivative in its inputs")
        A, B = self._pair(A, B)
        X, Z = self._sides
        if self.path_for(A.shape[1]) == "numpy":
            return blockwise.input_gradient(self.kernel, X, Z, A, B)
        return self._fused.pull_back(self._fused.input_gradient(A, B, throttled(callback)))

    def _pair(self, A: Any, B: Any) -> tuple[Array, Array]:
        A, B = checks.columns_for("A", A, self.shape[0]), checks.columns_for("B", B, self.shape[1])
        if A.shape[1] != B.shape[1]:
            raise ValueError(f"A and B need as many columns as each other, got {A.shape[1]} and {B.shape[1]}")
        if not A.shape[1]:
            raise ValueError("A and B have no columns; at least one is needed")
        return A, B

    def __reduce__(self) -> Any:
        return Gram, (self.kernel, self.X, self.Z, self._dtype.name, self.threads)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gram) and (
            self.kernel == other.kernel
            and self._dtype == other._dtype
            and (self.Z is None) == (other.Z is None)
            and all(np.array_equal(a, b) for a, b in zip(self._sides, other._sides, strict=True))
        )

    def __hash__(self) -> int:
        return hash((Gram, self.kernel, self.shape, self._dtype))

    def __repr__(self) -> str:
        sides = [f"X=<{_size(self.X)}>"] + ([] if self.Z is None else [f"Z=<{_size(self.Z)}>"])
        return f"Gram({self.kernel!r}, {', '.join(sides)}, dtype={self._dtype.name!r})"


def _one(X: Any, i: int) -> Any:
    return blockwise.take(X, slice(i, i + 1))


def _size(X: Any) -> str:
    return " x ".join(map(str, X.shape)) if hasattr(X, "shape") else f"{len(X)} objects"


def _kept(X: Any) -> Any:
    """Return inputs that nobody can change behind the operator's back: an array that could be written to is copied."""
    if not isinstance(X, np.ndarray):
        return X
    kept = X.copy() if X.flags.writeable else X
    kept.flags.writeable = False
    return kept
