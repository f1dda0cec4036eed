"""From sums over a matrix to the derivative in theta: whose sum is whose, and what the diagonal adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.codegen import calculus, expr
from precog.codegen.expr import Expr
from precog.codegen.plan import trace_leaf
from precog.kernels import Additive, Kernel, White
from precog.kernels.base import has_white
from precog.kernels.statistics import Array


class Theta:
    """The derivative in the log of every element of every hyperparameter, summed up leaf by leaf."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._sums: dict[tuple[int, str], Array] = {}

    def add(self, leaf: int, name: str, values: Any) -> None:
        """Add to the derivative of a hyperparameter: one number, or one for each of its elements."""
        key = (leaf, name)
        self._sums[key] = self._sums.get(key, np.zeros(())) + np.asarray(values, dtype=np.float64)

    def vector(self) -> Array:
        """Return the derivative in `kernel.theta`."""
        out: list[float] = []
        for i, leaf in enumerate(self.kernel.leaves()):
            for element, free in leaf.elements():
                name, _, index = element.rstrip("]").partition("[")
                sums = np.atleast_1d(self._sums.get((i, name), np.zeros(())))
                if free:
                    out.append(float(sums[int(index) if index and len(sums) > 1 else 0]))
        return np.array(out, dtype=np.float64)


def white_diag(kernel: Kernel, X: Any) -> Array | None:
    """Return what the diagonal has beyond the pair formula, or None for a kernel without `White`."""
    if not has_white(kernel):
        return None
    without = kernel.combine(
        iter([leaf.formula(leaf.pair_diag(X), leaf.values()) for leaf in kernel.leaves()]),
    )
    return kernel.diag(X) - without


def add_white(theta: Theta, X: Any, weights: Array) -> None:
    """Add Σᵢ weightsᵢ ∂(what `White` adds to entry i, i), for weights (n,)."""
    if has_white(theta.kernel):
        plain, noisy = _traced(theta.kernel)
        _add_along(theta, X, weights, expr.add(noisy, expr.mul(-1.0, plain)))


def add_diagonal(theta: Theta, X: Any, weights: Array) -> None:
    """Add Σᵢ weightsᵢ ∂k(xᵢ, xᵢ), `White` included, for weights (n,)."""
    _add_along(theta, X, weights, _traced(theta.kernel)[1])


def _traced(kernel: Kernel) -> tuple[Expr, Expr]:
    """Return the kernel's expression as it is for two rows, and as it is for a row with itself."""
    leaves = kernel.leaves()
    traced = [trace_leaf(leaf, i) for i, leaf in enumerate(leaves)]
    noisy = [
        expr.symbol(f"noise{i}") if isinstance(leaf, White) else e
        for i, (leaf, e) in enumerate(zip(leaves, traced, strict=True))
    ]
    return expr.lift(kernel.combine(iter(traced))), expr.lift(kernel.combine(iter(noisy)))


def _add_along(theta: Theta, X: Any, weights: Array, value: Expr) -> None:
    """Add Σᵢ weightsᵢ ∂value for an expression in the statistics of every row with itself."""
    leaves = theta.kernel.leaves()
    values: dict[str, Any] = {f"stat{i}": leaf.pair_diag(X) for i, leaf in enumerate(leaves)}
    values |= {f"{name}{i}": v for i, leaf in enumerate(leaves) for name, v in vars(leaf.values()).items()}
    for i, leaf in enumerate(leaves):
        for name in leaf.formula_parameters():
            slope = expr.evaluate(calculus.diff(value, f"{name}{i}"), values)
            theta.add(i, name, (weights * slope).sum() * values[f"{name}{i}"])
        if isinstance(leaf, Additive) and (slope_expr := calculus.diff(value, f"stat{i}")) != expr.ZERO:
            U = leaf.features(X)
            scaling = np.asarray(weights * expr.evaluate(slope_expr, values)) @ leaf.statistic.term(U, U)
            # A row keeps its place relative to itself, so tangents add nothing to a distance.
            for name, sums in leaf.map_gradient(scaling, np.zeros(U.shape[1])).items():
                theta.add(i, name, sums)
