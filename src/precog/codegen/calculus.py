"""Derivatives of expressions, and which of two forms is cheaper."""

from __future__ import annotations

import math
from functools import cache

from precog.codegen import special
from precog.codegen.expr import ONE, ZERO, Expr, add, constant, function, mul, power, power_of, symbols

LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


@cache
def diff(e: Expr, name: str) -> Expr:
    """Return ∂e/∂name in the cheaper of its factored and its expanded form."""
    raw = _diff(e, name)
    expanded = collect(expand(raw))
    return min(raw, expanded, key=cost)


def _diff(e: Expr, name: str) -> Expr:
    if e.op == "symbol":
        return ONE if e.value == name else ZERO
    if name not in symbols(e):
        return ZERO
    inner = [_diff(a, name) for a in e.args]
    if e.op == "add":
        return add(*(mul(w, d) for w, d in zip(e.value, inner, strict=True)))
    if e.op == "mul":
        coefficient, exponents = e.value
        factors = [power_of(a, q) for a, q in zip(e.args, exponents, strict=True)]
        terms = []
        for i, (a, q, d) in enumerate(zip(e.args, exponents, inner, strict=True)):
            others = factors[:i] + factors[i + 1 :]
            terms.append(mul(coefficient * q, power_of(a, q - 1.0), d, *others))
        return add(*terms)
    x = e.args[0]
    if e.op in special.FUNCTIONS:
        return mul(_outer_special(e), inner[0])
    if e.op in ("min", "max"):
        larger = function("step", add(x, mul(-1.0, e.args[1])))
        first = larger if e.op == "max" else add(1.0, mul(-1.0, larger))
        return add(mul(first, inner[0]), mul(add(1.0, mul(-1.0, first)), inner[1]))
    outer = {
        "exp": lambda: e,
        "log": lambda: power(x, -1.0),
        "log1p": lambda: power(add(1.0, x), -1.0),
        "sin": lambda: function("cos", x),
        "cos": lambda: mul(-1.0, function("sin", x)),
        "abs": lambda: add(mul(2.0, function("step", x)), -1.0),
        "step": lambda: ZERO,
    }[e.op]()
    return mul(outer, inner[0])


def _outer_special(e: Expr) -> Expr:
    """Return the derivative of a function of likelihoods in its argument."""
    x = e.args[0]
    if e.op == "softplus":
        return function("expit", x)
    if e.op == "expit":
        return mul(e, function("expit", mul(-1.0, x)))
    if e.op in ("ndtr", "log_ndtr"):
        density = add(mul(-0.5, x, x), -LOG_ROOT_2PI)
        return function("exp", density if e.op == "ndtr" else add(density, mul(-1.0, e)))
    if e.op == "gammaln":
        return function("psi0", x)
    order = int(e.op.removeprefix("psi")) + 1
    if order == special.POLYGAMMAS:
        raise NotImplementedError("a derivative of ln Γ of an order that no likelihood needs")
    return function(f"psi{order}", x)


def expand(e: Expr) -> Expr:
    """Return `e` with products of sums multiplied out (function arguments stay as they are)."""
    if e.op == "add":
        return add(*(mul(w, expand(a)) for w, a in zip(e.value, e.args, strict=True)))
    if e.op != "mul":
        return e
    coefficient, exponents = e.value
    terms: list[Expr] = [constant(coefficient)]
    for base, exponent in zip(e.args, exponents, strict=True):
        opened = expand(base)
        if opened.op == "add" and exponent == int(exponent) and 0 < exponent <= 4:
            for _ in range(int(exponent)):
                terms = [mul(w, t, a) for t in terms for w, a in zip(opened.value, opened.args, strict=True)]
        else:
            terms = [mul(t, power_of(base, exponent)) for t in terms]
    return add(*terms)


def collect(e: Expr) -> Expr:
    """Return a sum with the terms that share an exponential put into one bracket."""
    if e.op != "add":
        return e
    groups: dict[Expr, list[Expr]] = {}
    for weight, term in zip(e.value, e.args, strict=True):
        factors = list(zip(term.args, term.value[1], strict=True)) if term.op == "mul" else [(term, 1.0)]
        scale = weight * (term.value[0] if term.op == "mul" else 1.0)
        exponential = next((b for b, _ in factors if b.op == "exp"), ONE)
        rest = mul(scale, *(power_of(b, q) for b, q in factors if b != exponential))
        groups.setdefault(exponential, []).append(rest)
    return add(*(mul(add(*rest), exponential) for exponential, rest in groups.items()))


_COSTS = {
    "exp": 10,
    "exp2": 10,
    "log": 16,
    "log2": 16,
    "log1p": 20,
    "sin": 16,
    "cos": 16,
    "abs": 1,
    "min": 1,
    "max": 1,
    "step": 3,
    **dict.fromkeys(special.FUNCTIONS, 40),
}


def cost(*roots: Expr) -> int:
    """Return the vector instructions that evaluating `roots` takes, common parts counted once, roughly."""
    seen: set[Expr] = set()

    def count(e: Expr) -> int:
        if e in seen or not e.args:
            return 0
        seen.add(e)
        total = sum(count(a) for a in e.args)
        if e.op == "add":
            return (
                total
                + len(e.args)
                - 1
                + sum(w not in (1.0, -1.0) and a != ONE for w, a in zip(e.value, e.args, strict=True))
            )
        if e.op == "mul":
            coefficient, exponents = e.value
            total += (coefficient not in (1.0, -1.0)) + (coefficient == -1.0) + len(e.args) - 1
            return int(total) + sum(_power_cost(q) for q in exponents)
        return total + _COSTS[e.op]

    return sum(count(r) for r in roots)


def _power_cost(exponent: float) -> int:
    magnitude, price = abs(exponent), 0
    if magnitude != int(magnitude):
        price += 6 if magnitude % 1.0 == 0.5 else 30
    price += max(int(magnitude).bit_length() - 1, 0)
    return price + (6 if exponent < 0 else 0)
