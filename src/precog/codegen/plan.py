"""From a kernel and a number of columns to what a compiled loop has to do.

    K = value(s₀, s₁, ...; parameters),    sₐ = scale · Σₖ t(uₖ, wₖ)

Each leaf with a statistic gets an accumulator sₐ. Leaves that look at the same columns through plain length scales
share one, sᵢ = ratioᵢ · sₐ: the distance of an isotropic sum is computed once. What depends on hyperparameters alone is
a runtime number, so that new values never compile. The plan also holds the derivatives that the gradient loops need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from precog.codegen import calculus, expr
from precog.codegen.expr import Expr
from precog.kernels import Additive, Kernel, Leaf, Statistic
from precog.kernels.objects import Objects

# A slope at coinciding points beyond this means a root: k falls like a distance, and the rounding of
# |u|² + |w|² - 2 u·w would show as its square root.
STEEP = 1e6
ONE_OVER_LN2 = 1.0 / math.log(2.0)


@dataclass(frozen=True)
class Accumulator:
    """One statistic over `width` features; `leaf` is the leaf that makes them, `scale` what they are multiplied by."""

    leaf: int
    statistic: Statistic
    width: int
    scale: float = 1.0
    by_feature: bool = False
    tangent: bool = False


@dataclass(frozen=True)
class Plan:
    """The formula of an expression over its accumulators; symbols are s0, s1, ... and the names in `parameters`."""

    value: Expr
    accumulators: tuple[Accumulator, ...]
    parameters: tuple[str, ...]
    slopes: tuple[Expr, ...]  # ∂K/∂sₐ times the sign of the scale
    scalars: tuple[Expr, ...]  # ∂K/∂log φ for hyperparameters φ that need no sum over features of their own
    owners: tuple[tuple[int, str], ...]  # (leaf, hyperparameter) of each scalar
    steep: bool

    @property
    def width(self) -> int:
        return sum(a.width for a in self.accumulators)


@dataclass(frozen=True)
class _Spec:
    """What the traced expression cannot say about a leaf: where its statistic comes from and what is learnt."""

    leaf: int
    statistic: Statistic
    width: int
    shared_with: int | None
    scale_is_scalar: bool
    scale_free: bool
    other_free: bool


def _specs(kernel: Kernel, d: int) -> Iterator[_Spec]:
    first: dict[Any, int] = {}
    for i, leaf in enumerate(kernel.leaves()):
        if not isinstance(leaf, Additive):
            continue
        key = (leaf.statistic, leaf.columns) if leaf.shares_features else i
        shared = first.setdefault(key, i)
        width = leaf.features(np.zeros((1, d))).shape[1]
        free = [name.split("[")[0] for name, is_free in leaf.elements() if is_free]
        yield _Spec(
            leaf=i,
            statistic=leaf.statistic,
            width=width,
            shared_with=None if shared == i else shared,
            scale_is_scalar=not isinstance(leaf.length_scale, tuple),
            scale_free="length_scale" in free,
            other_free=any(name in free for name in leaf.map_parameters() if name != "length_scale"),
        )


def trace_leaf(leaf: Leaf, i: int) -> Expr:
    """Return the leaf's formula as an expression in stat{i} and its hyperparameters, each named with an {i}."""
    if isinstance(leaf, Objects):
        return expr.symbol(f"stat{i}")
    names = leaf.formula_parameters()
    p = SimpleNamespace(**{name: expr.symbol(f"{name}{i}") for name in names})
    kind = type(leaf).__name__
    try:
        traced = expr.lift(leaf.formula(expr.symbol(f"stat{i}") if leaf.statistic else None, p))
    except AttributeError as error:
        raise TypeError(f"{kind}.formula(s, p): {error}; p has {', '.join(names) or 'no parameters'}") from error
    unused = [n for n in names if f"{n}{i}" not in expr.symbols(traced)]
    if unused and kind != "White":
        raise TypeError(
            f"{kind}.formula(s, p) does not read p.{unused[0]}; write p.{unused[0]}, not self.{unused[0]}: a value "
            "taken from self would be compiled in, and never learnt"
        )
    return traced


def trace(kernel: Kernel, d: int) -> Plan:
    """Return the plan of a kernel on d columns. Kernels that differ in values alone share it."""
    leaves = kernel.leaves()
    value = expr.lift(kernel.combine(iter([trace_leaf(leaf, i) for i, leaf in enumerate(leaves)])))
    learnt = tuple(
        (i, name)
        for i, leaf in enumerate(leaves)
        for name in leaf.formula_parameters()
        if any(free and element.split("[")[0] == name for element, free in leaf.elements())
    )
    return _plan(value, tuple(_specs(kernel, d)), learnt)


@lru_cache(maxsize=256)
def _plan(value: Expr, specs: tuple[_Spec, ...], learnt: tuple[tuple[int, str], ...]) -> Plan:
    owned = [(i, name, expr.mul(expr.symbol(f"{name}{i}"), calculus.diff(value, f"{name}{i}"))) for i, name in learnt]
    for spec in specs:
        if spec.scale_is_scalar and spec.scale_free:
            stat = expr.symbol(f"stat{spec.leaf}")
            slope = calculus.diff(value, f"stat{spec.leaf}")
            owned.append((spec.leaf, "length_scale", expr.mul(-spec.statistic.degree, stat, slope)))
    owned = [(i, name, e) for i, name, e in owned if e != expr.ZERO]

    heads = [s for s in specs if s.shared_with is None and f"stat{s.leaf}" in _read(value, specs, s.leaf)]
    slot = {s.leaf: a for a, s in enumerate(heads)}
    renamed: dict[str, Expr] = {}
    for s in specs:
        if s.leaf in slot:
            renamed[f"stat{s.leaf}"] = expr.symbol(f"s{slot[s.leaf]}")
        elif s.shared_with in slot:
            renamed[f"stat{s.leaf}"] = expr.mul(expr.symbol(f"ratio{s.leaf}"), expr.symbol(f"s{slot[s.shared_with]}"))
    value = expr.substitute(value, renamed)
    scalars = [expr.substitute(e, renamed) for _, _, e in owned]
    slopes = [calculus.diff(value, f"s{a}") for a in range(len(heads))]

    accumulators = []
    for a, s in enumerate(heads):
        scale = _absorbed(value, f"s{a}")
        change = {f"s{a}": expr.mul(1.0 / scale, expr.symbol(f"s{a}"))}
        value = expr.substitute(value, change)
        scalars = [expr.substitute(e, change) for e in scalars]
        slopes = [expr.substitute(e, change) for e in slopes]
        # Features carry √|scale| (for squares), so their own terms do the rest: only the sign stays.
        slopes[a] = expr.mul(1.0 / abs(scale), slopes[a])
        by_feature = s.scale_free and not s.scale_is_scalar
        accumulators.append(Accumulator(s.leaf, s.statistic, s.width, scale, by_feature or s.other_free, s.other_free))
    names = sorted({n for e in (value, *slopes, *scalars) for n in expr.symbols(e) if not is_accumulator(n)})
    return Plan(
        value=value,
        accumulators=tuple(accumulators),
        parameters=tuple(names),
        slopes=tuple(slopes),
        scalars=tuple(scalars),
        owners=tuple((i, name) for i, name, _ in owned),
        steep=any(_steep(e, a) for e, a in zip(slopes, accumulators, strict=True)),
    )


def _read(value: Expr, specs: tuple[_Spec, ...], head: int) -> frozenset[str]:
    """Return the statistics in `value`, those of leaves that share with `head` under its name."""
    present = expr.symbols(value)
    sharing = any(s.shared_with == head and f"stat{s.leaf}" in present for s in specs)
    return present | {f"stat{head}"} if sharing else present


def is_accumulator(name: str) -> bool:
    return name[0] == "s" and name[1:].isdigit()


def _steep(slope: Expr, accumulator: Accumulator) -> bool:
    if not accumulator.statistic.nonnegative:
        return False
    at_zero = {n: 0.0 if is_accumulator(n) else 1.0 for n in expr.symbols(slope)}
    with np.errstate(all="ignore"):
        value = float(expr.evaluate(slope, at_zero))
    return not abs(value) < STEEP


def needs_sign(e: Expr, name: str) -> bool:
    """Return whether `e` takes a root or a logarithm of something that holds the symbol."""
    if name not in expr.symbols(e):
        return False
    if e.op in ("log", "log1p"):
        return True
    if e.op == "mul" and any(q != int(q) and name in expr.symbols(a) for a, q in zip(e.args, e.value[1], strict=True)):
        return True
    return any(needs_sign(a, name) for a in e.args)


def _coefficients(e: Expr, name: str) -> set[float]:
    """Return the constants that stand beside the symbol, or beside its root (squared)."""
    found: set[float] = set()
    s = expr.symbol(name)
    if e.op in ("add", "mul"):
        weights = e.value if e.op == "add" else (e.value[0],) * len(e.args)
        powers = (1.0,) * len(e.args) if e.op == "add" else e.value[1]
        for a, w, q in zip(e.args, weights, powers, strict=True):
            root = a.op == "mul" and a.args == (s,)
            exponent = a.value[1][0] * q if root else q
            if (a == s or root) and exponent in (0.5, 1.0) and w not in (0.0, 1.0):
                found.add(w if exponent == 1.0 else math.copysign(w * w, 1.0))
    for a in e.args:
        found |= _coefficients(a, name)
    return found


def _absorbed(value: Expr, name: str) -> float:
    """Return the scale c for which the formula in s' = c s is cheapest: exp(-s/2) becomes 2^s' with nothing to do."""
    lowered = lower(value)
    signed = needs_sign(lowered, name)
    best, least = 1.0, calculus.cost(lowered)
    for c in sorted(_coefficients(lowered, name)):
        if c < 0.0 and signed:
            continue
        tried = calculus.cost(expr.substitute(lowered, {name: expr.mul(1.0 / c, expr.symbol(name))}))
        if tried < least:
            best, least = c, tried
    return best


def lower(e: Expr) -> Expr:
    """Return `e` with exponentials and logarithms to base two, which is what the vector functions offer."""
    if not e.args:
        return e
    args = [lower(a) for a in e.args]
    if e.op == "exp":
        return expr.function("exp2", expr.mul(ONE_OVER_LN2, args[0]))
    if e.op == "log":
        return expr.mul(math.log(2.0), expr.function("log2", args[0]))
    return expr.rebuild(e, args)
