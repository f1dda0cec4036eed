"""Kernels as values: one formula on a pair statistic, hyperparameters through their logarithms, and an algebra.

A leaf kernel writes `formula(s, p)`, one line of NumPy on a pair statistic s with the hyperparameters p. Called with
arrays it is the dense reference; called with expressions the same line is traced, differentiated and compiled. Sums,
products and powers combine leaves and have no formula of their own, only the way in which they put values together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from precog import checks
from precog.kernels.parameters import parameter
from precog.kernels.parametrised import Parametrised
from precog.kernels.statistics import Array, Statistic


class Kernel(ABC):
    """A covariance function k(x, z), printed as the expression that makes it."""

    # NumPy numbers and arrays must leave `2.0 * kernel` to us.
    __array_ufunc__ = None

    @abstractmethod
    def leaves(self) -> tuple[Leaf, ...]:
        """Return the leaf kernels from left to right."""

    @abstractmethod
    def with_leaves(self, leaves: Iterator[Leaf]) -> Kernel:
        """Return the same expression over other leaves, taken in order."""

    @abstractmethod
    def combine(self, values: Iterator[Any]) -> Any:
        """Return the expression's value from the values of its leaves, taken in order."""

    @abstractmethod
    def text(self, number: Callable[[float], str]) -> str:
        """Return the expression as Python source, floats written by `number`."""

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return the dense kernel matrix in float64, (n, n) or (n, m); `White` acts only where Z is None."""
        X = checks.inputs(self, "X", X)
        if Z is None:
            K = self.dense(X, X)
            if has_white(self):
                np.fill_diagonal(K, self.diag(X))
            return K
        return self.dense(X, checks.inputs(self, "Z", Z, columns_of=X))

    def dense(self, X: Any, Z: Any) -> Array:
        """Return the matrix for inputs that were checked before, rows of X and Z taken as different points."""
        size = (checks.length(X), checks.length(Z))
        K = self.combine(iter([leaf.formula(leaf.pairs(X, Z), leaf.values()) for leaf in self.leaves()]))
        return np.array(np.broadcast_to(np.asarray(K, dtype=np.float64), size))

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for every row of X, `White` included."""
        X = checks.inputs(self, "X", X)
        values = [
            leaf.values().noise if is_white(leaf) else leaf.formula(leaf.pair_diag(X), leaf.values())
            for leaf in self.leaves()
        ]
        return np.array(np.broadcast_to(np.asarray(self.combine(iter(values)), float), checks.length(X)))

    @property
    def requires_vector_input(self) -> bool:
        """Whether the inputs must be rows of a matrix, as scikit-learn's kernels say it."""
        return not any(hasattr(leaf, "block") for leaf in self.leaves())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of `theta`, such as `length_scale[0]`, or `RBF.length_scale[0]` inside an expression."""
        return tuple(f"{prefix}{name}" for prefix, leaf in _labels(self) for name, free in leaf.elements() if free)

    @property
    def theta(self) -> Array:
        """The logarithms of the hyperparameters that are not fixed."""
        return np.log(np.array([v for leaf in self.leaves() for v in leaf.free_values()], dtype=float))

    @property
    def bounds(self) -> Array:
        """The bounds of `theta`, (q, 2), in logarithms."""
        pairs = [b for leaf in self.leaves() for b in leaf.element_bounds() if b != "fixed"]
        return np.log(np.array(pairs, dtype=float).reshape(-1, 2))

    def with_theta(self, theta: Any) -> Self:
        """Return this kernel with other values of the hyperparameters that are not fixed."""
        theta = np.asarray(theta, dtype=float)
        expected = len(self.theta)
        if theta.shape != (expected,):
            raise ValueError(f"theta has {expected} entries ({', '.join(self.names)}), got shape {theta.shape}")
        if not np.isfinite(theta).all():
            raise ValueError(f"theta[{int(np.argmax(~np.isfinite(theta)))}] is not finite")
        with np.errstate(over="ignore"):  # an infinite value is refused with its name below
            values = iter(np.exp(theta).tolist())
        return self.with_leaves(iter([leaf.with_free_values(values) for leaf in self.leaves()]))  # type: ignore[return-value]

    def fix(self, *names: str) -> Self:
        """Return this kernel with the named hyperparameters fixed: `k.fix("RBF.length_scale", "Constant.variance")`."""
        matched: set[str] = set()
        leaves = iter([leaf._fix(prefix, names, matched) for prefix, leaf in _labels(self)])
        fixed = self.with_leaves(leaves)
        unknown = [name for name in names if name not in matched]
        if unknown:
            raise ValueError(
                f"no hyperparameter {unknown[0]!r}; this kernel has {', '.join(self.names) or 'none free'}"
            )
        return fixed  # type: ignore[return-value]

    def __add__(self, other: Kernel | float) -> Kernel:
        return _sum(self, other)

    def __radd__(self, other: Kernel | float) -> Kernel:
        return _sum(other, self)

    def __mul__(self, other: Kernel | float) -> Kernel:
        return _multiply(self, other)

    def __rmul__(self, other: Kernel | float) -> Kernel:
        return _multiply(other, self)

    def __pow__(self, exponent: float) -> Kernel:
        from precog.kernels.algebra import Power

        return Power(self, exponent)

    def __repr__(self) -> str:
        return self.text(repr)

    def __str__(self) -> str:
        return self.text(lambda v: f"{v:.4g}")


def _as_kernel(value: Any) -> Any:
    """Return kernels as they are and positive numbers as constants; anything else makes the operator refuse."""
    from precog.kernels.dotproduct import Constant

    if isinstance(value, Kernel):
        return value
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return Constant(float(value))
    if type(value).__module__.startswith("sklearn."):
        from precog.kernels.sklearn import from_sklearn

        return from_sklearn(value)
    return NotImplemented


def _sum(left: Any, right: Any) -> Any:
    from precog.kernels.algebra import Sum

    a, b = _as_kernel(left), _as_kernel(right)
    return NotImplemented if a is NotImplemented or b is NotImplemented else Sum.of(a, b)


def _multiply(left: Any, right: Any) -> Any:
    from precog.kernels.algebra import Product

    a, b = _as_kernel(left), _as_kernel(right)
    return NotImplemented if a is NotImplemented or b is NotImplemented else Product.of(a, b)


def _labels(kernel: Kernel) -> Iterator[tuple[str, Leaf]]:
    """Yield each leaf with the prefix of its hyperparameters: the class name, numbered from the second one on."""
    leaves, seen = kernel.leaves(), {}  # type: ignore[var-annotated]
    for leaf in leaves:
        kind = type(leaf).__name__
        seen[kind] = seen.get(kind, 0) + 1
        number = f"#{seen[kind]}" if seen[kind] > 1 else ""
        yield ("" if kernel is leaf else f"{kind}{number}."), leaf


class Leaf(Parametrised, Kernel):
    """A kernel with a formula. Subclasses are frozen dataclasses without asking for it.

    Fields declared by `parameter(default)` are hyperparameters; each gets a keyword `<name>_bounds` of its own.
    """

    statistic: ClassVar[Statistic | None] = None

    @abstractmethod
    def formula(self, s: Any, p: Any) -> Any:
        """Return k from the pair statistic s and the hyperparameters p, in plain NumPy."""

    def pairs(self, X: Any, Z: Any) -> Any:
        """Return the pair statistic for all rows of X and Z (None for kernels that look at no input)."""
        return None

    def pair_diag(self, X: Any) -> Any:
        """Return the pair statistic of every row with itself."""
        return None

    def check(self, name: str, X: Any) -> None:
        """Raise a ValueError if this kernel cannot act on the inputs X."""

    def leaves(self) -> tuple[Leaf, ...]:
        return (self,)

    def with_leaves(self, leaves: Iterator[Leaf]) -> Kernel:
        return next(leaves)

    def combine(self, values: Iterator[Any]) -> Any:
        return next(values)


class White(Leaf):
    """k(x, z) = noise where x and z are the same row of the same array, else 0: independent noise on each row."""

    noise: float = parameter(default=1.0)

    def formula(self, s: Any, p: Any) -> Any:
        return 0.0


def is_white(leaf: Leaf) -> bool:
    return isinstance(leaf, White)


def has_white(kernel: Kernel) -> bool:
    """Return whether the diagonal of the matrix differs from what the pair formula gives for a row with itself."""
    return any(is_white(leaf) for leaf in kernel.leaves())
