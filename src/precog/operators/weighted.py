"""Derivatives weighted by a stored matrix, Σᵢⱼ Cᵢⱼ ∂Kᵢⱼ/∂θ: what exact and sparse likelihoods ask for.

The weights of a leaf's map, S = C ∂k/∂s, meet its statistic only in Σᵢⱼ Sᵢⱼ t(uᵢ, wⱼ). For squared distances and dot
products those sums are matrix products,

    Σᵢⱼ Sᵢⱼ (uᵢ - wⱼ)² = Σᵢ uᵢ² Sᵢ. + Σⱼ wⱼ² S.ⱼ - 2 u'S w,

so all length scales together cost one pass of BLAS, where the general way takes one pass over the entries for each. The
derivative in the second argument is such a product too: Σᵢ Sᵢⱼ 2 (wⱼ - uᵢ) = 2 (wⱼ S.ⱼ - S'u).
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


def gradient(kernel: Kernel, X: Any, C: Array) -> Array:
    """Return Σᵢⱼ Cᵢⱼ ∂Kᵢⱼ/∂θ for every entry of `kernel.theta`, for a symmetric C (n, n).

    One thread: two gained nothing, because the stripes wait for memory and their products for each other.
    """
    theta = Theta(kernel)
    pairs = Pairs(kernel, X, X)
    for rows in blockwise.stripes(len(C), len(C)):
        # Of the rows up to them, each pair counts for its mirror image.
        past = slice(0, rows.stop)
        weights = C[rows, past].astype(np.float64)
        weights[:, : rows.start] *= 2.0
        pairs.add(theta, rows, past, weights)
    add_white(theta, X, np.diagonal(C).copy())
    return theta.vector()


class Pairs:
    """Pairs of rows of X and Z, `White` taken as zero: features and slopes prepared once for many blocks of weights.

    moved: whether derivatives in the rows of Z are asked for too; `inputs` has their sum.
    """

    def __init__(self, kernel: Kernel, X: Any, Z: Any, *, moved: bool = False) -> None:
        self.kernel, self.X, self.Z, self.leaves = kernel, X, Z, kernel.leaves()
        value = expr.lift(kernel.combine(iter([trace_leaf(leaf, i) for i, leaf in enumerate(self.leaves)])))
        self.constants = {f"{k}{i}": v for i, leaf in enumerate(self.leaves) for k, v in vars(leaf.values()).items()}
        self.free = [{name.partition("[")[0] for name, f in leaf.elements() if f} for leaf in self.leaves]
        self.scalars = [
            (i, name, calculus.diff(value, f"{name}{i}"))
            for i, leaf in enumerate(self.leaves)
            for name in leaf.formula_parameters()
            if name in self.free[i]
        ]
        self.maps = [
            (i, leaf, calculus.diff(value, f"stat{i}"))
            for i, leaf in enumerate(self.leaves)
            if isinstance(leaf, Additive) and (moved or self.free[i] & set(leaf.map_parameters()))
        ]
        self.moved = {i: np.zeros(0) for i, _, _ in self.maps} if moved else {}
        self.sides = {i: _Sides(leaf, X, Z) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Additive)}

    def add(self, theta: Theta, rows: slice, columns: slice, weights: Array) -> None:
        """Add the pairs of some rows of X and some of Z, weighted by (rows, columns)."""
        values = self.constants | {f"stat{i}": self._statistic(i, rows, columns) for i in range(len(self.leaves))}
        slopes = expr.evaluate_each([slope for *_, slope in (*self.scalars, *self.maps)], values)
        for (i, name, _), slope in zip(self.scalars, slopes, strict=False):
            theta.add(i, name, _total(weights, slope) * self.constants[f"{name}{i}"])
        for (i, leaf, _), slope in zip(self.maps, slopes[len(self.scalars) :], strict=True):
            S, side = weights * slope, self.sides[i]
            U, W = side.U[rows], side.W[columns]
            if self.free[i] & set(leaf.map_parameters()):
                along = None
                if side.dU is not None and side.dW is not None:
                    along = _along(leaf, (U, W), (side.dU[rows], side.dW[columns]), S)
                for name, sums in leaf.map_gradient(_term_sums(leaf, U, W, S), along).items():
                    theta.add(i, name, sums)
            if i in self.moved:
                if not self.moved[i].size:
                    self.moved[i] = np.zeros(side.W.shape)
                self.moved[i][columns] += _second_slopes(leaf, U, W, S)

    def add_stripes(self, theta: Theta, rows: slice, weights: Array) -> None:
        """Add the pairs of some rows of X and all of Z, a few rows at a time."""
        for part in blockwise.stripes(*weights.shape):
            some = slice(rows.start + part.start, rows.start + part.stop)
            self.add(theta, some, slice(0, weights.shape[1]), weights[part])

    def inputs(self) -> Array:
        """Return the sum of weights times the derivative of k(x, z) in z, for every row of Z, over all pairs added."""
        out = np.zeros(np.shape(self.Z))
        for i, leaf, _ in self.maps:
            if i in self.moved and self.moved[i].size:
                out += leaf.pull_back(self.sides[i].rows_of_Z, self.moved[i])
        return out

    def _statistic(self, i: int, rows: slice, columns: slice) -> Any:
        leaf = self.leaves[i]
        if isinstance(leaf, Additive):
            return leaf.statistic.pairs(self.sides[i].U[rows], self.sides[i].W[columns])
        return leaf.pairs(blockwise.take(self.X, rows), blockwise.take(self.Z, columns))


class _Sides:
    """The features of both sides as a leaf sees them, and their tangents."""

    def __init__(self, leaf: Additive, X: Array, Z: Array) -> None:
        left, self.rows_of_Z = leaf.centred(X, Z)
        self.U, self.dU = leaf.features(left), leaf.tangents(left)
        same = left is self.rows_of_Z or Z is X
        self.W = self.U if same else leaf.features(self.rows_of_Z)
        self.dW = self.dU if same else leaf.tangents(self.rows_of_Z)


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


def _second_slopes(leaf: Additive, U: Array, W: Array, S: Array) -> Array:
    """Return Σᵢ Sᵢⱼ ∂t(uᵢ, wⱼ)/∂wⱼ for each row of W and each feature."""
    if leaf.statistic is DOT:
        return S.T @ U
    if leaf.statistic is SQUARED_DISTANCE:
        slopes: Array = 2.0 * (S.sum(axis=0)[:, None] * W - S.T @ U)
        return slopes
    slope = blockwise.term_slopes(leaf)[1]
    out = np.empty(W.shape)
    for k in range(W.shape[1]):
        out[:, k] = np.sum(S * expr.evaluate(slope, {"s0": U[:, k, None], "s1": W[None, :, k]}), axis=0)
    return out


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
