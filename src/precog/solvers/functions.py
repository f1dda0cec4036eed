"""f(A) V for square roots and the like, by Lanczos with full orthogonalisation [Cutajar16 section 6].

    A Q = Q T + residual,  Q'Q = I,  q₁ = v / |v|      f(A) v ≈ |v| Q f(T) e₁

Successive approximations differ by their coefficients on Q alone, so their distance costs nothing to watch. The error
is estimated from the last two such distances, as twice the rest of a geometric series, plus what rounding in products
can do to f(A).
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
from precog.solvers.result import NotConverged, Status

# f and |f'|. All are operator monotone but for a sign, so |f(A + E) - f(A)| <= |f'(λ_min)| |E|.
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "sqrt": (np.sqrt, lambda values: 0.5 / np.sqrt(values)),
    "inverse_sqrt": (lambda values: 1.0 / np.sqrt(values), lambda values: 0.5 * values**-1.5),
    "log": (np.log, lambda values: 1.0 / values),
}
# Steps between two looks at the error.
STRIDE = 5
# A new direction of this share of the largest projection is rounding; and the error of a float64 product over its size.
EXHAUSTED, ROUNDING = 1e-13, 1e-15


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

    def raise_if_failed(self) -> FunctionValue:
        """Return self, or raise `NotConverged` with the remedy."""
        if not self.ok:
            outcome = self.status.name.lower().replace("_", " ")
            raise NotConverged(
                f"a function of a matrix: {outcome} after {self.iterations} iterations, largest estimated error "
                f"{self.error.max(initial=0.0):.1e}: {self.status.value}"
            )
        return self


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
    function = FUNCTIONS[checks.choice("name", name, tuple(FUNCTIONS))]
    checks.number("rtol", rtol, strict=True)
    products = Products(A, precision)
    right = checks.columns_for("V", V, A.shape[0]).astype(np.float64)
    allowed = min(A.shape[0], 500) if max_iter is None else checks.count("max_iter", max_iter)
    space = _Space(right, products, *function)
    status = space.grow(min(allowed, A.shape[0]), rtol)
    x = space.value()
    return FunctionValue(
        x[:, 0] if np.ndim(V) == 1 else x, space.error.copy(), status, len(space.alpha), products.count
    )


class _Space:
    """Krylov spaces of all columns: Q as a list of (n, p), T by its diagonals (steps, p)."""

    def __init__(
        self, V: Array, products: Products, f: Callable[[Array], Array], slope: Callable[[Array], Array]
    ) -> None:
        self.products, self.f, self.slope = products, f, slope
        self.size = np.linalg.norm(V, axis=0)
        self.Q = [V / np.where(self.size > 0, self.size, 1.0)]
        self.alpha: list[Array] = []
        self.beta: list[Array] = []
        self.largest = np.zeros(V.shape[1])
        self.weights: Array = np.zeros((0, V.shape[1]))
        self.error = np.where(self.size > 0, np.inf, 0.0)
        self.distance = np.full(V.shape[1], np.inf)

    def grow(self, allowed: int, rtol: float) -> Status:
        n = self.Q[0].shape[0]
        while len(self.alpha) < allowed:
            if not self._step():
                return Status.NOT_FINITE
            steps, exhausted = len(self.alpha), not self.beta[-1].any()
            if exhausted or steps == allowed or steps % STRIDE == 0:
                status = self._look(rtol, complete=exhausted or steps == n)
                if status is not None:
                    return status
        return Status.MAX_ITER

    def _step(self) -> bool:
        """Add one vector to every space; return whether the product was finite."""
        w = self.products.multiply(self.Q[-1])
        if not np.isfinite(w).all():
            return False
        alpha = dots(self.Q[-1], w)
        for _ in range(2):
            for q in self.Q:
                w = w - q * dots(q, w)
        beta = np.linalg.norm(w, axis=0)
        self.largest = np.maximum(self.largest, np.maximum(np.abs(alpha), beta))
        # What is left of an exhausted space is rounding, which has no direction that could be made orthogonal.
        beta = np.where(beta > EXHAUSTED * self.largest, beta, 0.0)
        self.alpha.append(alpha)
        self.beta.append(beta)
        self.Q.append(w / np.where(beta > 0, beta, np.inf))
        return True

    def _look(self, rtol: float, *, complete: bool) -> Status | None:
        """Take new coefficients and estimate their error; return how it ends, if it does."""
        steps = len(self.alpha)
        found = self._coefficients(steps)
        if found is None:
            return Status.INDEFINITE
        weights, rounding = found
        before = self._before(max(steps - STRIDE, 0), weights)
        distance = np.linalg.norm(weights - before, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.clip(np.nan_to_num(distance / self.distance), 0.0, 0.95)
        rest = np.zeros_like(distance) if complete else np.maximum(2.0 * distance * rate / (1.0 - rate), 0.1 * distance)
        self.error, self.weights, self.distance = rest + rounding, weights, distance
        late = self.error > rtol * np.linalg.norm(weights, axis=0)
        if not late.any():
            return Status.CONVERGED
        return Status.STAGNATED if (rest <= rounding)[late].any() else None

    def _before(self, steps: int, like: Array) -> Array:
        """Return the coefficients that so many steps gave, with zeros for those that came later."""
        if len(self.weights) != steps:
            found = self._coefficients(steps)
            held = found[0] if found is not None else np.zeros((0, like.shape[1]))
        else:
            held = self.weights
        out = np.zeros_like(like)
        out[: len(held)] = held
        return out

    def _coefficients(self, steps: int) -> tuple[Array, Array] | None:
        """Return |v| f(T) e₁ and the error of rounding for every column, or None where T is not positive definite."""
        weights, rounding = np.zeros((steps, len(self.size))), np.zeros(len(self.size))
        for j in np.flatnonzero(self.size):
            alpha, beta = (np.array([values[j] for values in part[:steps]]) for part in (self.alpha, self.beta))
            ends = np.flatnonzero(beta == 0.0)
            k = int(ends[0]) + 1 if len(ends) else steps
            if not k:
                continue
            nodes, vectors = scipy.linalg.eigh_tridiagonal(alpha[:k], beta[: k - 1])
            if nodes[0] <= 0:
                return None
            weights[:k, j] = self.size[j] * (vectors @ (self.f(nodes) * vectors[0]))
            rounding[j] = self.size[j] * self.slope(nodes[0]) * (self.products.error + ROUNDING) * nodes[-1]
        return weights, rounding

    def value(self) -> Array:
        out = np.zeros_like(self.Q[0])
        for q, weight in zip(self.Q, self.weights, strict=False):
            out += q * weight
        return out
