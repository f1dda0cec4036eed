"""Explicit vectors for Numba: a register type with arithmetic, and the functions that kernel formulas need.

A loop over arrays is vectorised only if the compiler can prove that nothing overlaps, and is then interleaved until the
registers spill. So the generated loops do not ask: they load, combine and store whole vector registers. The operators
below become single LLVM vector instructions, legal on every instruction set (LLVM splits what the CPU lacks), and the
transcendental functions are range reductions and polynomials made of them.

Accuracy, relative: exp2 1e-7 / 3e-16, log2 1e-7 / 4e-16 (single / double precision). exp2 gives the smallest normal
number below -126 / -1022; log2(0) is -127 / -1023.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model


def _host_bytes() -> int:
    """Return the widest vector register of this CPU in bytes."""
    chosen = os.environ.get("PRECOG_VECTOR_BYTES")
    if chosen is not None:
        if chosen not in ("16", "32", "64"):
            raise ValueError(f"PRECOG_VECTOR_BYTES must be 16, 32 or 64, got {chosen!r}")
        return int(chosen)
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


BYTES = _host_bytes()


class Vector(types.Type):
    """The Numba type of one vector register of float32 or float64."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.lanes = BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype} x {self.lanes})")

    @property
    def llvm(self) -> Any:
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


def _arithmetic(op: Any, method: str) -> None:
    class Rule(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    infer_global(op)(Rule)
    lower_builtin(op, Vector, Vector)(lambda context, builder, sig, args: getattr(builder, method)(*args))


for _op, _method in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_op, _method)

# Additions that must not be reassociated: a large constant is added and taken off again to round to a whole number.
STRICT = ("nsz",)


class Words:
    """LLVM building blocks for one vector type: constants, integer views and the usual instructions."""

    def __init__(self, builder: Any, vector: Any) -> None:
        self.b, self.vector = builder, vector
        self.single = isinstance(vector.element, ir.FloatType)
        self.bits, self.mantissa, self.bias = (32, 23, 127) if self.single else (64, 52, 1023)
        self.integer = ir.VectorType(ir.IntType(self.bits), vector.count)

    def const(self, x: float) -> Any:
        value = float(np.float32(x)) if self.single else float(x)
        return ir.Constant(self.vector, [value] * self.vector.count)

    def whole(self, k: int) -> Any:
        return ir.Constant(self.integer, [k] * self.vector.count)

    def pattern(self, x: float) -> int:
        kind = (np.float32, np.int32) if self.single else (np.float64, np.int64)
        return int(np.asarray(x, kind[0]).view(kind[1]))

    def as_int(self, x: Any) -> Any:
        return self.b.bitcast(x, self.integer)

    def as_float(self, k: Any) -> Any:
        return self.b.bitcast(k, self.vector)

    def pick(self, comparison: str, x: Any, y: Any) -> Any:
        return self.b.select(self.b.fcmp_ordered(comparison, x, y), x, y)

    def polynomial(self, x: Any, coefficients: Any) -> Any:
        p = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            p = self.b.fadd(self.b.fmul(p, x), self.const(c))
        return p

    def call(self, name: str, *args: Any) -> Any:
        full = f"llvm.{name}.v{self.vector.count}f{self.bits}"
        kind = ir.FunctionType(self.vector, [self.vector] * len(args))
        return self.b.call(cgutils.get_or_insert_function(self.b.module, kind, full), args)

    def round(self, x: Any) -> tuple[Any, Any]:
        """Return (z, k): k = x to the nearest whole number, which also stands in the low bits of z."""
        magic = self.const(1.5 * 2.0**self.mantissa)
        z = self.b.fadd(x, magic, flags=STRICT)
        return z, self.b.fsub(z, magic, flags=STRICT)


# Best approximations of 2^f on [-1/2, 1/2] in relative error: 1.0e-7 with the constant held at 1, and 2.1e-16.
EXP2_SINGLE = (
    1.0,
    0.6931465959152447,
    0.24022166008351933,
    0.055510473825056326,
    0.009674951930198789,
    0.0013202982320438044,
)
EXP2_DOUBLE = (
    1.0,
    0.6931471805599497751,
    0.2402265069590876777,
    0.055504108664458831363,
    0.009618129108034597006,
    0.0013333558228561765893,
    0.00015403529961127075703,
    0.000015252658116409854484,
    1.3215662835959239446e-6,
    1.0208537927657404371e-7,
    7.0372788467269008787e-9,
)


def _exp2(w: Words, x: Any) -> Any:
    """2^x = 2^k 2^f with k whole: k is added to the exponent bits of the polynomial's value."""
    x = w.pick(">", x, w.const(1.0 - w.bias))
    z, k = w.round(x)
    p = w.polynomial(w.b.fsub(x, k), EXP2_SINGLE if w.single else EXP2_DOUBLE)
    return w.as_float(w.b.add(w.as_int(p), w.b.shl(w.as_int(z), w.whole(w.mantissa))))


def _log2(w: Words, x: Any, lost: Any = None) -> Any:
    """log2(x + lost) = k + log2 m with m in [√½, √2), log2 m = 2/ln2 (z + z³/3 + z⁵/5 + ...) for z = (m-1)/(m+1).

    `lost` is what rounding took from x; it goes into m - 1, where it still counts.
    """
    bits = w.as_int(x)
    offset = (w.bias << w.mantissa) - w.pattern(math.sqrt(0.5))
    k = w.b.lshr(w.b.add(bits, w.whole(offset)), w.whole(w.mantissa))
    m = w.as_float(w.b.sub(bits, w.b.shl(w.b.sub(k, w.whole(w.bias)), w.whole(w.mantissa))))
    large = 2.0**w.mantissa
    whole = w.b.fsub(w.as_float(w.b.add(k, w.whole(w.pattern(large)))), w.const(large + w.bias), flags=STRICT)
    above = w.b.fsub(m, w.const(1.0), flags=STRICT)
    if lost is not None:
        two_to_minus_k = w.as_float(w.b.shl(w.b.sub(w.whole(2 * w.bias), k), w.whole(w.mantissa)))
        above = w.b.fadd(above, w.b.fmul(lost, two_to_minus_k))
    z = w.b.fdiv(above, w.b.fadd(m, w.const(1.0)))
    terms = 5 if w.single else 11
    series = w.polynomial(w.b.fmul(z, z), [2.0 / math.log(2.0) / (2 * i + 1) for i in range(terms)])
    return w.b.fadd(whole, w.b.fmul(z, series))


def _log1p(w: Words, x: Any) -> Any:
    """log(1 + x), with what the addition loses put back."""
    one = w.const(1.0)
    u = w.b.fadd(x, one, flags=STRICT)
    lost = w.b.fsub(x, w.b.fsub(u, one, flags=STRICT), flags=STRICT)
    return w.b.fmul(_log2(w, u, lost), w.const(math.log(2.0)))


# π/2 in three parts, each but the last short enough that whole multiples of it are exact.
HALF_PI_SINGLE = (1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8)
HALF_PI_DOUBLE = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21)


def _sine(w: Words, x: Any, *, quarter: int) -> Any:
    """sin(x + quarter π/2): reduce to |r| <= π/4, take sine or cosine there, and the sign of the quadrant."""
    z, k = w.round(w.b.fmul(x, w.const(2.0 / math.pi)))
    r = x
    for part in HALF_PI_SINGLE if w.single else HALF_PI_DOUBLE:
        r = w.b.fsub(r, w.b.fmul(k, w.const(part)), flags=("contract", "nsz"))
    terms = 5 if w.single else 9
    square = w.b.fmul(r, r)
    sine = w.b.fmul(r, w.polynomial(square, [(-1) ** i / math.factorial(2 * i + 1) for i in range(terms)]))
    cosine = w.polynomial(square, [(-1) ** i / math.factorial(2 * i) for i in range(terms)])
    quadrant = w.b.add(w.as_int(z), w.whole(quarter))
    odd = w.b.icmp_signed("!=", w.b.and_(quadrant, w.whole(1)), w.whole(0))
    sign = w.b.shl(w.b.and_(quadrant, w.whole(2)), w.whole(w.bits - 2))
    return w.as_float(w.b.xor(w.as_int(w.b.select(odd, cosine, sine)), sign))


def _step(w: Words, x: Any) -> Any:
    zero, half, one = w.const(0.0), w.const(0.5), w.const(1.0)
    above = w.b.select(w.b.fcmp_ordered(">", x, zero), one, half)
    return w.b.select(w.b.fcmp_ordered("<", x, zero), zero, above)


def _elementwise(name: str, rule: Callable[..., Any]) -> Any:
    def typed(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return rule(Words(builder, sig.return_type.llvm), *args)

        return x(x), generate

    typed.__name__ = name
    return intrinsic(typed)


def _pairwise(name: str, rule: Callable[..., Any]) -> Any:
    def typed(typing: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return rule(Words(builder, sig.return_type.llvm), *args)

        return x(x, y), generate

    typed.__name__ = name
    return intrinsic(typed)


exp2 = _elementwise("exp2", _exp2)
log2 = _elementwise("log2", _log2)
log1p = _elementwise("log1p", _log1p)
sin = _elementwise("sin", lambda w, x: _sine(w, x, quarter=0))
cos = _elementwise("cos", lambda w, x: _sine(w, x, quarter=1))
sqrt = _elementwise("sqrt", lambda w, x: w.call("sqrt", x))
absolute = _elementwise("absolute", lambda w, x: w.call("fabs", x))
step = _elementwise("step", _step)
least = _pairwise("least", lambda w, x, y: w.pick("<", x, y))
greatest = _pairwise("greatest", lambda w, x, y: w.pick(">", x, y))
