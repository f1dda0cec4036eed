"""Derivatives weighted by a stored symmetric matrix, Σᵢⱼ Cᵢⱼ ∂Kᵢⱼ/∂θ: what an exact likelihood asks for.

The weights of a leaf's map, S = C ∂k/∂s, meet its statistic only in Σᵢⱼ Sᵢⱼ t(uᵢ, wⱼ). For squared distances and dot
products those sums are matrix products,

    Σᵢⱼ Sᵢⱼ (uᵢ - wⱼ)² = Σᵢ uᵢ² Sᵢ. + Σⱼ wⱼ² S.ⱼ - 2 u'S w,

so all length scales together cost one pass of BLAS, where the general way takes one pass over the entries for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precog.codegen import calculus, expr
from precog.codegen.plan import trace_leaf
from precog.kernels import Additive, Kernel
from precog.kernels.statistics import DOT, SQUARED_DISTANCE, Array
from precog.operators import blockwise
from precog.operators.derivative import Theta, add_white

# Entries of one block: a few temporaries of this size stay in the second-level cache.
BLOCK = 100_000


def gradient(kernel: Kernel, X: Any, C: Array) -> Array:
    """Return Σᵢⱼ Cᵢⱼ ∂Kᵢⱼ/∂θ for every entry of `kernel.theta`, for a symmetric C (n, n).

    One thread: two gained nothing, because the stripes wait for memory and their products for each other.
    """
    theta = Theta(kernel)
    parts = _Parts(kernel, X)
    height = max(BLOCK // len(C), 1)
    for start in range(0, len(C), height):
        for leaf, name, values in parts.sums(slice(start, min(start + height, len(C))), C):
            theta.add(leaf, name, values)
    add_white(theta, X, np.diagonal(C).copy())
    return theta.vector()


class _Parts:
    """What every stripe needs: the slopes as expressions, and each leaf's features of all rows."""

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.X, self.leaves = X, kernel.leaves()
        value = expr.lift(kernel.combine(iter([trace_leaf(leaf, i) for i, leaf in enumerate(self.leaves)])))
        self.constants = {f"{k}{i}": v for i, leaf in enumerate(self.leaves) for k, v in vars(leaf.values()).items()}
        free = [{name.partition("[")[0] for name, f in leaf.elements() if f} for leaf in self.leaves]
        self.scalars = [
            (i, name, calculus.diff(value, f"{name}{i}"))
            for i, leaf in enumerate(self.leaves)
            for name in leaf.formula_parameters()
            if name in free[i]
        ]
        self.maps = [
            (i, leaf, calculus.diff(value, f"stat{i}"))
            for i, leaf in enumerate(self.leaves)
            if isinstance(leaf, Additive) and free[i] & set(leaf.map_parameters())
        ]
        self.rows = {i: leaf.centred(X, X)[0] for i, leaf in enumerate(self.leaves) if isinstance(leaf, Additive)}
        self.features = {i: self.leaves[i].features(rows) for i, rows in self.rows.items()}  # type: ignore[attr-defined]
        self.tangents = {i: self.leaves[i].tangents(rows) for i, rows in self.rows.items()}  # type: ignore[attr-defined]

    def sums(self, rows: slice, C: Array) -> list[tuple[int, str, Any]]:
        """Return what the pairs of some rows with all rows up to them add to each hyperparameter."""
        past = slice(0, rows.stop)
        weights = C[rows, past].astype(np.float64)
        weights[:, : rows.start] *= 2.0
        values = self.constants | {f"stat{i}": self._pairs(i, rows, past) for i in range(len(self.leaves))}
        out: list[tuple[int, str, Any]] = [
            (i, name, _total(weights, expr.evaluate(slope, values)) * self.constants[f"{name}{i}"])
            for i, name, slope in self.scalars
        ]
        for i, leaf, slope in self.maps:
            S = weights * expr.evaluate(slope, values)
            U, dU = self.features[i], self.tangents[i]
            scaling = _term_sums(leaf, U[rows], U[past], S)
            along = None if dU is None else _along(leaf, (U[rows], U[past]), (dU[rows], dU[past]), S)
            out += [(i, name, sums) for name, sums in leaf.map_gradient(scaling, along).items()]
        return out

    def _pairs(self, i: int, rows: slice, past: slice) -> Any:
        leaf = self.leaves[i]
        if isinstance(leaf, Additive):
            U = self.features[i]
            return leaf.statistic.pairs(U[rows], U[past])
        return leaf.pairs(blockwise.take(self.X, rows), blockwise.take(self.X, past))


def _total(weights: Array, slope: Any) -> float:
    return float(np.vdot(weights, slope)) if np.shape(slope) == weights.shape else float(np.sum(weights * slope))


def _term_sums(leaf: Additive, U: Array, W: Array, S: Array) -> Array:
    """Return Σᵢⱼ Sᵢⱼ t(uᵢ, wⱼ) for each feature."""
    if leaf.statistic is DOT:
        return np.einsum("ik,ik->k", U, S @ W)
    if leaf.statistic is SQUARED_DISTANCE:
        sums: Array = S.sum(axis=1) @ U**2 + S.sum(axis=0) @ W**2 - 2.0 * np.einsum("ik,ik->k", U, S @ W)
        return sums
    term = leaf.statistic.term
    return np.array([np.sum(S * term(U[:, k, None], W[None, :, k])) for k in range(U.shape[1])])


def _along(leaf: Additive, features: tuple[Array, Array], tangents: tuple[Array, Array], S: Array) -> Array:
    """Return Σᵢⱼ Sᵢⱼ of the derivative of t along the tangents, for each feature."""
    in_x, in_y = blockwise.term_slopes(leaf)
    (U, W), (dU, dW) = features, tangents
    slope: Callable[[Any, Any], Any] = expr.evaluate
    out = np.empty(U.shape[1])
    for k in range(U.shape[1]):
        pair = {"s0": U[:, k, None], "s1": W[None, :, k]}
        out[k] = np.sum(S * (slope(in_x, pair) * dU[:, k, None] + slope(in_y, pair) * dW[None, :, k]))
    return out
