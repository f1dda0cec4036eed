"""Derivatives of a likelihood's formula: traced as kernels are, brought into a form that keeps digits, differentiated.

Formulas as they are written in books lose their tails to overflow and cancellation. What has a stable form is replaced:

    log(1 + exp x), log1p(exp x)  ->  softplus x          1 / (1 + exp x)  ->  expit(-x)
    log(expit x)                  ->  -softplus(-x)       1 - expit x      ->  expit(-x)
    log(Φ(x))                     ->  log Φ(x) at once    1 - Φ(x)         ->  Φ(-x)
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from precog.codegen import calculus, expr
from precog.codegen.expr import ONE, Expr, function, mul, power
from precog.kernels.statistics import Array


def derivatives(likelihood: Any, y: Array, f: Array, p: Any) -> tuple[Array, Array, Array, Array]:
    """Return log p and its first three derivatives in f."""
    e = trace(likelihood)
    orders = [e]
    for _ in range(3):
        orders.append(calculus.diff(orders[-1], "f"))
    l0, l1, l2, l3 = (_value(order, y, f, p) for order in orders)
    return l0, l1, l2, l3


def slopes(likelihood: Any, y: Array, f: Array, p: Any) -> Array:
    """Return ∂(l, l', l'')/∂log φ for every free hyperparameter φ, (q, 3, n)."""
    orders = [trace(likelihood)]
    for _ in range(2):
        orders.append(calculus.diff(orders[-1], "f"))
    free = [name for name, is_free in likelihood.elements() if is_free]
    rows = [[getattr(p, name) * _value(calculus.diff(order, name), y, f, p) for order in orders] for name in free]
    return np.array(rows, dtype=np.float64).reshape(len(free), 3, *np.shape(f))


def trace(likelihood: Any) -> Expr:
    """Return log p as an expression in y, f, the hyperparameters, and what rows bring along."""
    kind = type(likelihood).__name__
    names = [*likelihood.parameter_names(), *likelihood.known]
    p = SimpleNamespace(**{name: expr.symbol(name) for name in names})
    try:
        traced = expr.lift(likelihood.log_density(expr.symbol("y"), expr.symbol("f"), p))
    except AttributeError as error:
        raise TypeError(f"{kind}.log_density(y, f, p): {error}; p has {', '.join(names) or 'nothing'}") from error
    used = expr.symbols(traced)
    if "f" not in used:
        raise TypeError(f"{kind}.log_density(y, f, p) does not depend on f")
    for name, free in likelihood.elements():
        if free and name not in used:
            raise TypeError(
                f"{kind}.log_density(y, f, p) does not read p.{name}; write p.{name}, not self.{name}, so that it can "
                "be learnt"
            )
    return stable(traced)


def _value(e: Expr, y: Array, f: Array, p: Any) -> Array:
    with np.errstate(all="ignore"):
        value = expr.evaluate(e, {"y": y, "f": f, **vars(p)})
    return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), np.shape(f)))


@lru_cache(maxsize=256)
def stable(e: Expr) -> Expr:
    """Return `e` with what overflows or cancels in the tails replaced."""
    if not e.args:
        return e
    args = [stable(a) for a in e.args]
    if e.op == "mul":
        factors = [_reciprocal(a, q) for a, q in zip(args, e.value[1], strict=True)]
        return mul(e.value[0], *factors)
    made = expr.rebuild(e, args)
    if made.op == "log1p" and made.args[0].op == "exp":
        return function("softplus", made.args[0].args[0])
    if made.op == "log":
        return _logarithm(made)
    return _complement(made)


def _terms(e: Expr) -> dict[Expr, float]:
    return dict(zip(e.args, e.value, strict=True)) if e.op == "add" else {}


def _one_plus_exp(e: Expr) -> Expr | None:
    """Return x where e is 1 + exp(x)."""
    terms = _terms(e)
    others = [a for a in terms if a != ONE]
    if len(terms) == 2 and terms.get(ONE) == 1.0 and others[0].op == "exp" and terms[others[0]] == 1.0:
        return others[0].args[0]
    return None


def _reciprocal(base: Expr, exponent: float) -> Expr:
    x = _one_plus_exp(base)
    if x is not None and exponent < 0:
        return power(function("expit", mul(-1.0, x)), -exponent)
    return power(base, exponent)


def _logarithm(e: Expr) -> Expr:
    x = e.args[0]
    inner = _one_plus_exp(x)
    if inner is not None:
        return function("softplus", inner)
    if x.op == "expit":
        return mul(-1.0, function("softplus", mul(-1.0, x.args[0])))
    return function("log_ndtr", x.args[0]) if x.op == "ndtr" else e


def _complement(e: Expr) -> Expr:
    terms = _terms(e)
    others = [a for a in terms if a != ONE]
    if len(terms) == 2 and terms.get(ONE) == 1.0 and others[0].op in ("expit", "ndtr") and terms[others[0]] == -1.0:
        return function(others[0].op, mul(-1.0, others[0].args[0]))
    return e
