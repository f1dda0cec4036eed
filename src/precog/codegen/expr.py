"""Expressions: record a NumPy formula and keep it in a collected form.

An `Expr` stands for one entry of a kernel matrix. Calling a formula with one runs its ordinary NumPy functions through
`__array_ufunc__` and leaves a tree behind. Sums and products are kept flat and collected as they are built:

    c₀ + Σᵢ cᵢ eᵢ        one coefficient for each different eᵢ
    c · Πᵢ bᵢ^qᵢ         one exponent for each different bᵢ, and a single exponential
    exp(a) exp(b) = exp(a + b),  √s √s = s

The last line is what makes derivatives of the Matérn family come out finite at zero without a special case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from precog.codegen import special

Number: TypeAlias = float | int
Operand: TypeAlias = "Expr | Number"

# Coefficients that cancel to less than this share of what was added are rounding, not mathematics.
CANCELLED = 1e-13
# A coefficient this close to one came from dividing a number by itself in two steps.
SNAP = 5e-16
# Negative powers are taken of max(base, FLOOR): derivatives in a squared distance meet 1/0 at coinciding points, where
# they are multiplied by a distance of exactly zero.
FLOOR = 1e-30


BRANCH = (
    "a formula cannot branch on the value of an entry; write the branch with np.minimum, np.maximum or "
    "np.abs, for example np.maximum(1 - r, 0) ** 4"
)


@dataclass(frozen=True, eq=False)
class Expr:
    """A node: `op` with `args`; `value` is a symbol's name, a constant, or the coefficients and exponents of `args`."""

    op: str
    args: tuple[Expr, ...] = ()
    value: Any = None

    # A comparison with an array must reach us, not NumPy's broadcasting.
    __array_priority__ = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.value)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expr):
            raise TypeError(BRANCH)
        return (self.op, self.args, self.value) == (other.op, other.args, other.value)

    def _compare(self, other: object) -> bool:
        raise TypeError(BRANCH)

    __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __add__(self, other: Operand) -> Expr:
        return add(self, other)

    def __mul__(self, other: Operand) -> Expr:
        return mul(self, other)

    def __sub__(self, other: Operand) -> Expr:
        return add(self, mul(-1.0, other))

    def __rsub__(self, other: Operand) -> Expr:
        return add(other, mul(-1.0, self))

    def __truediv__(self, other: Operand) -> Expr:
        return mul(self, power(other, -1.0))

    def __rtruediv__(self, other: Operand) -> Expr:
        return mul(other, power(self, -1.0))

    def __pow__(self, other: Operand) -> Expr:
        return power(self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return power(other, self)

    def __neg__(self) -> Expr:
        return mul(-1.0, self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return function("abs", self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __bool__(self) -> bool:
        raise TypeError(BRANCH)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Expr:
        rule = _UFUNCS.get(ufunc.__name__)
        if rule is None or method != "__call__" or kwargs:
            known = ", ".join(sorted(_UFUNCS))
            raise TypeError(f"np.{ufunc.__name__} is not available in a formula; available: {known}")
        return rule(*inputs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Expr:
        known = ", ".join(sorted(_UFUNCS))
        raise TypeError(f"np.{func.__name__} is not available in a formula; available: {known}")


def symbol(name: str) -> Expr:
    return Expr("symbol", (), name)


def constant(value: Number) -> Expr:
    return Expr("constant", (), float(value))


ZERO, ONE = constant(0.0), constant(1.0)


def lift(value: Any) -> Expr:
    """Return `value` as an expression: expressions as they are, numbers as constants."""
    if isinstance(value, Expr):
        return value
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "biuf":
        raise TypeError(
            f"a formula combines what it is given with numbers and its parameters, not with {value!r}; in a kernel a "
            "parameter per input belongs in length_scale"
        )
    return constant(float(array))


def _split(e: Expr) -> tuple[float, Expr]:
    """Return (c, rest) with e = c · rest."""
    if e.op == "constant":
        return e.value, ONE
    if e.op == "mul":
        coefficient, exponents = e.value
        if coefficient != 1.0:
            return coefficient, _product(1.0, dict(zip(e.args, exponents, strict=True)))
    return 1.0, e


def add(*operands: Operand) -> Expr:
    """Return the sum, with like terms collected."""
    weights: dict[Expr, float] = {}
    largest: dict[Expr, float] = {}
    for operand in operands:
        e = lift(operand)
        terms = zip(e.args, e.value, strict=True) if e.op == "add" else [(e, 1.0)]
        for term, outer in terms:
            inner, rest = _split(term)
            weight = outer * inner
            weights[rest] = weights.get(rest, 0.0) + weight
            largest[rest] = max(largest.get(rest, 0.0), abs(weight))
    kept = {e: w for e, w in weights.items() if abs(w) > CANCELLED * largest[e]}
    if not kept:
        return ZERO
    if len(kept) == 1:
        ((rest, weight),) = kept.items()
        return mul(weight, rest)
    return Expr("add", tuple(kept), tuple(kept.values()))


def _product(coefficient: float, exponents: Mapping[Expr, float]) -> Expr:
    kept = {b: q for b, q in exponents.items() if q != 0.0}
    if coefficient == 0.0:
        return ZERO
    if abs(abs(coefficient) - 1.0) < SNAP:
        coefficient = math.copysign(1.0, coefficient)
    if not kept:
        return constant(coefficient)
    if coefficient == 1.0 and len(kept) == 1:
        ((base, exponent),) = kept.items()
        return base if exponent == 1.0 else Expr("mul", (base,), (1.0, (exponent,)))
    return Expr("mul", tuple(kept), (coefficient, tuple(kept.values())))


def mul(*operands: Operand) -> Expr:
    """Return the product, with powers of equal bases and all exponentials collected."""
    coefficient, exponents, exponent_sum = 1.0, {}, ZERO  # type: ignore[var-annotated]
    for operand in operands:
        e = lift(operand)
        if e.op == "constant":
            coefficient *= e.value
            continue
        outer, factors = (e.value[0], zip(e.args, e.value[1], strict=True)) if e.op == "mul" else (1.0, [(e, 1.0)])
        coefficient *= outer
        for base, exponent in factors:
            if base.op == "exp":
                exponent_sum = add(exponent_sum, mul(exponent, base.args[0]))
            else:
                exponents[base] = exponents.get(base, 0.0) + exponent
    if exponent_sum != ZERO:
        exponents[Expr("exp", (exponent_sum,))] = 1.0
    if coefficient != 0.0 and len(exponents) == 1 and coefficient != 1.0:
        ((base, exponent),) = exponents.items()
        if base.op == "add" and exponent == 1.0:  # c (a + b): the coefficient goes inside, where like terms meet
            return Expr("add", base.args, tuple(coefficient * w for w in base.value))
    return _product(coefficient, exponents)


def power(base: Operand, exponent: Operand) -> Expr:
    """Return baseᵉˣᵖᵒⁿᵉⁿᵗ; with an exponent that is not a number, as exp(exponent · log base)."""
    base, exponent = lift(base), lift(exponent)
    if exponent.op != "constant":
        if base.op == "add" and dict(zip(base.args, base.value, strict=True)).get(ONE) == 1.0:
            return function("exp", mul(exponent, function("log1p", add(base, -1.0))))
        return function("exp", mul(exponent, function("log", base)))
    q = exponent.value
    if base.op == "constant":
        if base.value < 0 and q != int(q):
            raise ValueError(f"the formula takes a root of the negative number {base.value:g}")
        return constant(base.value**q)
    if base.op == "exp":
        return function("exp", mul(q, base.args[0]))
    whole = q == int(q)
    if base.op == "mul":
        coefficient, inner = base.value
        if whole or (coefficient > 0 and all(p == 1.0 for p in inner) and len(inner) == 1):
            return mul(coefficient**q, *(power_of(b, p * q) for b, p in zip(base.args, inner, strict=True)))
    return power_of(base, q)


def power_of(base: Expr, exponent: float) -> Expr:
    if base.op == "exp":
        return function("exp", mul(exponent, base.args[0]))
    return _product(1.0, {base: exponent})


_EVALUATE: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "exp2": np.exp2,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "step": lambda x: np.heaviside(x, 0.5),
    **special.FUNCTIONS,
}


def function(name: str, *operands: Operand) -> Expr:
    args = tuple(lift(o) for o in operands)
    if all(a.op == "constant" for a in args):
        return constant(float(_EVALUATE[name](*(a.value for a in args))))
    return Expr(name, args)


def _tanh(x: Operand) -> Expr:
    # 1 - 2 / (1 + exp 2x) stays finite on both sides.
    return add(1.0, mul(-2.0, power(add(1.0, function("exp", mul(2.0, x))), -1.0)))


def _logaddexp(a: Operand, b: Operand) -> Expr:
    return add(a, function("softplus", add(b, mul(-1.0, a))))


_UFUNCS: dict[str, Callable[..., Expr]] = {
    "add": add,
    "subtract": lambda a, b: add(a, mul(-1.0, b)),
    "multiply": mul,
    "divide": lambda a, b: mul(a, power(b, -1.0)),
    "power": power,
    "float_power": power,
    "square": lambda a: power(a, 2.0),
    "sqrt": lambda a: power(a, 0.5),
    "reciprocal": lambda a: power(a, -1.0),
    "negative": lambda a: mul(-1.0, a),
    "positive": lift,
    "exp": lambda a: function("exp", a),
    "exp2": lambda a: function("exp", mul(math.log(2.0), a)),
    "expm1": lambda a: add(function("exp", a), -1.0),
    "log": lambda a: function("log", a),
    "log2": lambda a: mul(1.0 / math.log(2.0), function("log", a)),
    "log1p": lambda a: function("log1p", a),
    "sin": lambda a: function("sin", a),
    "cos": lambda a: function("cos", a),
    "tanh": _tanh,
    "absolute": lambda a: function("abs", a),
    "fabs": lambda a: function("abs", a),
    "minimum": lambda a, b: function("min", a, b),
    "maximum": lambda a, b: function("max", a, b),
    "logaddexp": _logaddexp,
    "expit": lambda a: function("expit", a),
    "log_expit": lambda a: mul(-1.0, function("softplus", mul(-1.0, a))),
    "ndtr": lambda a: function("ndtr", a),
    "log_ndtr": lambda a: function("log_ndtr", a),
    "erf": lambda a: add(mul(2.0, function("ndtr", mul(math.sqrt(2.0), a))), -1.0),
    "gammaln": lambda a: function("gammaln", a),
    "psi": lambda a: function("psi0", a),
}


def symbols(e: Expr) -> frozenset[str]:
    """Return the names of all symbols in `e`."""
    if e.op == "symbol":
        return frozenset((e.value,))
    return frozenset().union(*(symbols(a) for a in e.args))


def rebuild(e: Expr, args: Iterable[Expr]) -> Expr:
    """Return the node of `e` over other arguments, simplified again."""
    if e.op == "add":
        return add(*(mul(w, a) for w, a in zip(e.value, args, strict=True)))
    if e.op == "mul":
        coefficient, exponents = e.value
        return mul(coefficient, *(power(a, q) for a, q in zip(args, exponents, strict=True)))
    return function(e.op, *args)


def substitute(e: Expr, values: Mapping[str, Operand]) -> Expr:
    """Return `e` with symbols replaced."""
    if e.op == "symbol":
        return lift(values.get(e.value, e))
    if not e.args:
        return e
    return rebuild(e, (substitute(a, values) for a in e.args))


def evaluate(e: Expr, values: Mapping[str, Any]) -> Any:
    """Return the value of `e` in NumPy, for arrays or numbers in place of the symbols."""
    return _evaluate(e, values, {})


def evaluate_each(es: Iterable[Expr], values: Mapping[str, Any]) -> list[Any]:
    """Return the values of several expressions; what they have in common is computed once."""
    seen: dict[Expr, Any] = {}
    return [_evaluate(e, values, seen) for e in es]


def _evaluate(e: Expr, values: Mapping[str, Any], seen: dict[Expr, Any]) -> Any:
    if e.op == "symbol":
        return values[e.value]
    if e.op == "constant":
        return e.value
    if e not in seen:
        args = [_evaluate(a, values, seen) for a in e.args]
        if e.op == "add":
            seen[e] = sum((w * a for w, a in zip(e.value, args, strict=True)), 0.0)
        elif e.op == "mul":
            coefficient, exponents = e.value
            seen[e] = math.prod((_raise(a, q) for a, q in zip(args, exponents, strict=True)), start=coefficient)
        else:
            seen[e] = _EVALUATE[e.op](*args)
    return seen[e]


def _raise(base: Any, exponent: float) -> Any:
    if exponent == 1.0:
        return base
    if exponent == int(exponent) and exponent > 0:
        return np.power(base, int(exponent))
    return np.power(np.maximum(base, FLOOR) if exponent != int(exponent) else base, exponent)
