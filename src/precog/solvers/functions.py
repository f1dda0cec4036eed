"""f(A) V for square roots and the like, by Lanczos with full orthogonalisation [Cutajar16 section 6].

    A Q = Q T + residual,  Q'Q = I,  q₁ = v / |v|      f(A) v ≈ |v| Q f(T) e₁

Successive approximations differ by their coefficients on Q alone, so their distance costs nothing to watch. The error
is estimated from the last two such distances, as twice the rest of a geometric series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.solvers.products import Products, dots
from precog.solvers.result import Status

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt,
    "inverse_sqrt": lambda values: 1.0 / np.sqrt(values),
    "log": np.log,
}
# Steps between two looks at the error.
STRIDE = 5


@dataclass(frozen=True, eq=False)
class FunctionValue:
    """f(A) V: x (n, p) or (n,), an estimate of each column's error |x - f(A) v|, steps, and how it ended."""

    x: Array
    error: Array
    status: Status
    iterations: int
    products: int

    @property
    def ok(self) -> bool:
        return self.status is Status.CONVERGED


def matrix_function(
    A: Operator,
    V: Any,
    name: str,
    *,
    rtol: float = 1e-6,
    max_iter: int | None = None,
    precision: str = "float64",
) -> FunctionValue:
    """Return f(A) V for f "sqrt", "inverse_sqrt" or "log", each column to an estimated error of rtol |f(A) v|.

    Memory is one vector a step and column. max_iter=None allows 500 steps, or n of them.
    """
    f = FUNCTIONS[checks.choice("name", name, tuple(FUNCTIONS))]
    checks.number("rtol", rtol, strict=True)
    products = Products(A, precision)
    right = checks.columns_for("V", V, A.shape[0]).astype(np.float64)
    allowed = min(A.shape[0], 500) if max_iter is None else checks.count("max_iter", max_iter)
    space = _Space(right)
    status = space.grow(products, f, min(allowed, A.shape[0]), rtol)
    x = space.value()
    return FunctionValue(
        x[:, 0] if np.ndim(V) == 1 else x, space.error.copy(), status, len(space.alpha), products.count
    )


class _Space:
    """Krylov spaces of all columns: Q as a list of (n, p), T by its diagonals (steps, p)."""

    def __init__(self, V: Array) -> None:
        self.size = np.linalg.norm(V, axis=0)
        self.Q = [V / np.where(self.size > 0, self.size, 1.0)]
        self.alpha: list[Array] = []
        self.beta: list[Array] = []
        self.weights = np.zeros((0, V.shape[1]))
        self.error = np.where(self.size > 0, np.inf, 0.0)
        self.distance = np.full(V.shape[1], np.inf)

    def grow(self, products: Products, f: Callable[[Array], Array], allowed: int, rtol: float) -> Status:
        while len(self.alpha) < allowed and not self._step(products):
            if len(self.alpha) % STRIDE == 0:
                status = self._look(f, rtol, last=False)
                if status is not None:
                    return status
        exhausted = len(self.alpha) == products.exact.shape[0] or not any(b.any() for b in self.beta[-1:])
        return self._look(f, rtol, last=exhausted) or Status.MAX_ITER

    def _step(self, products: Products) -> bool:
        """Add one vector to every space; return whether none can grow."""
        w = products.multiply(self.Q[-1])
        alpha = dots(self.Q[-1], w)
        for _ in range(2):
            for q in self.Q:
                w = w - q * dots(q, w)
        beta = np.linalg.norm(w, axis=0)
        beta = np.where(beta > 1e-13 * np.maximum(np.abs(alpha), 1e-300), beta, 0.0)
        self.alpha.append(alpha)
        self.beta.append(beta)
        self.Q.append(w / np.where(beta > 0, beta, np.inf))
        return not beta.any()

    def _look(self, f: Callable[[Array], Array], rtol: float, *, last: bool) -> Status | None:
        """Take new coefficients and estimate their error; return how it ends, if it does."""
        steps, p = len(self.alpha), len(self.size)
        weights = np.zeros((steps, p))
        for j in range(p):
            found = self._coefficients(f, j)
            if found is None:
                return Status.INDEFINITE
            weights[: len(found), j] = found
        before = np.zeros_like(weights)
        before[: len(self.weights)] = self.weights
        distance = np.linalg.norm(weights - before, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.clip(np.nan_to_num(distance / self.distance), 0.0, 0.95)
        self.error = np.maximum(2.0 * distance * rate / (1.0 - rate), 0.1 * distance)
        if last:
            self.error = 1e-12 * np.linalg.norm(weights, axis=0)
        self.weights, self.distance = weights, distance
        return Status.CONVERGED if (self.error <= rtol * np.linalg.norm(weights, axis=0)).all() else None

    def _coefficients(self, f: Callable[[Array], Array], j: int) -> Array | None:
        alpha, beta = (np.array([values[j] for values in part]) for part in (self.alpha, self.beta))
        ends = np.flatnonzero(beta == 0.0)
        k = int(ends[0]) + 1 if len(ends) else len(alpha)
        if not np.isfinite(alpha[:k]).all():
            return None
        nodes, vectors = scipy.linalg.eigh_tridiagonal(alpha[:k], beta[: k - 1])
        if nodes[0] <= 0 and self.size[j] > 0:
            return None
        weights: Array = self.size[j] * (vectors @ (f(np.maximum(nodes, 1e-300)) * vectors[0]))
        return weights

    def value(self) -> Array:
        out = np.zeros_like(self.Q[0])
        for q, weight in zip(self.Q, self.weights, strict=False):
            out += q * weight
        return out
