"""The same matrix in NumPy, block by block: for small problems that no compiler should hold up, and for objects.

Values come from the kernel's own dense formula; derivatives from its traced one, evaluated on arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from precog import checks
from precog.codegen import calculus, expr
from precog.codegen.plan import trace_leaf
from precog.kernels import Additive, Kernel
from precog.kernels.statistics import Array
from precog.operators.derivative import Theta
from precog.operators.schedule import Progress

# Entries of one block: small enough for the second-level cache and a few temporaries.
BLOCK = 100_000


def stripes(n: int, m: int) -> Iterator[slice]:
    """Yield stripes of rows of an (n, m) matrix that hold about one block."""
    height = max(BLOCK // max(m, 1), 1)
    for start in range(0, n, height):
        yield slice(start, min(start + height, n))


def take(X: Any, rows: Any) -> Any:
    """Return some rows of a matrix, or some of the objects in a list."""
    if hasattr(X, "shape"):
        return X[rows]
    return X[rows] if isinstance(rows, slice) else [X[int(i)] for i in rows]


def matmat(kernel: Kernel, X: Any, Z: Any, V: Array, callback: Progress | None = None) -> Array:
    """Return K(X, Z) V in float64."""
    n = checks.length(X)
    out = np.empty((n, V.shape[1]))
    for rows in stripes(n, checks.length(Z)):
        out[rows] = kernel.dense(take(X, rows), Z) @ V
        if callback:
            callback(rows.stop / n)
    return out


def gradient(theta: Theta, X: Any, Z: Any, A: Array, B: Array, callback: Progress | None = None) -> None:
    """Add Σ_ij (A B')_ij ∂K_ij to theta."""
    kernel, n = theta.kernel, checks.length(X)
    leaves = kernel.leaves()
    value = expr.lift(kernel.combine(iter([trace_leaf(leaf, i) for i, leaf in enumerate(leaves)])))
    constants = {f"{name}{i}": v for i, leaf in enumerate(leaves) for name, v in vars(leaf.values()).items()}
    for rows in stripes(n, checks.length(Z)):
        C = A[rows] @ B.T
        part = take(X, rows)
        values = constants | {f"stat{i}": leaf.pairs(part, Z) for i, leaf in enumerate(leaves)}
        for i, leaf in enumerate(leaves):
            for name in leaf.formula_parameters():
                slope = expr.evaluate(calculus.diff(value, f"{name}{i}"), values)
                theta.add(i, name, _weighted(C, slope) * constants[f"{name}{i}"])
            if isinstance(leaf, Additive) and any(free for _, free in leaf.elements()):
                weights = C * expr.evaluate(calculus.diff(value, f"stat{i}"), values)
                _add_map(theta, i, leaf, part, Z, weights)
        if callback:
            callback(rows.stop / n)


def _weighted(C: Array, slope: Any) -> float:
    return float(np.sum(C * slope))


def _add_map(theta: Theta, i: int, leaf: Additive, X: Array, Z: Array, weights: Array) -> None:
    X, Z = leaf.centred(X, Z)
    U, W = leaf.features(X), leaf.features(Z)
    dU, dW = leaf.tangents(X), leaf.tangents(Z)
    term = leaf.statistic.term
    scaling = np.array([np.sum(weights * term(U[:, k, None], W[None, :, k])) for k in range(U.shape[1])])
    along = None
    if dU is not None and dW is not None:
        in_x, in_y = term_slopes(leaf)
        along = np.empty(U.shape[1])
        for k in range(U.shape[1]):
            pair = {"s0": U[:, k, None], "s1": W[None, :, k]}
            change = expr.evaluate(in_x, pair) * dU[:, k, None] + expr.evaluate(in_y, pair) * dW[None, :, k]
            along[k] = np.sum(weights * change)
    for name, sums in leaf.map_gradient(scaling, along).items():
        theta.add(i, name, sums)


def term_slopes(leaf: Additive) -> tuple[expr.Expr, expr.Expr]:
    """Return ∂t/∂x and ∂t/∂y in the symbols s0 and s1."""
    term = expr.lift(leaf.statistic.term(expr.symbol("s0"), expr.symbol("s1")))
    return calculus.diff(term, "s0"), calculus.diff(term, "s1")


def input_gradient(kernel: Kernel, X: Array, Z: Array, A: Array, B: Array) -> Array:
    """Return Σ_i (A B')_ij ∂k(x_i, z_j)/∂z_j, (m, d)."""
    leaves = kernel.leaves()
    value = expr.lift(kernel.combine(iter([trace_leaf(leaf, i) for i, leaf in enumerate(leaves)])))
    constants = {f"{name}{i}": v for i, leaf in enumerate(leaves) for name, v in vars(leaf.values()).items()}
    out = np.zeros(Z.shape)
    for columns in stripes(len(Z), len(X)):
        part = Z[columns]
        C = A @ B[columns].T
        values = constants | {f"stat{i}": leaf.pairs(X, part) for i, leaf in enumerate(leaves)}
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, Additive):
                continue
            weights = C * expr.evaluate(calculus.diff(value, f"stat{i}"), values)
            centred = leaf.centred(X, part)
            U, W = leaf.features(centred[0]), leaf.features(centred[1])
            slope = term_slopes(leaf)[1]
            G = np.empty(W.shape)
            for k in range(W.shape[1]):
                pair = {"s0": U[:, k, None], "s1": W[None, :, k]}
                G[:, k] = np.sum(weights * expr.evaluate(slope, pair), axis=0)
            out[columns] += leaf.pull_back(centred[1], G)
    return out
