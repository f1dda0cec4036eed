"""Explicit vectors for Numba: a register type with arithmetic, and the functions that kernel formulas need.

A loop over arrays is vectorised only if the compiler can prove that nothing overlaps, and is then interleaved until the
registers spill. So the generated loops do not ask: they load, combine and store whole vector registers. The operators
below become single LLVM vector instructions, legal on every instruction set (LLVM splits what the CPU lacks), and the
transcendental functions are range reductions and polynomials made of them.

Accuracy, relative: exp2 1e-7 / 3e-16, log2 1e-7 / 4e-16 (single / double precision). exp2 flushes to the smallest normal
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


class Vector(types.Type):  # type: ignore[misc]
    """The Numba type of one vector register of float32 or float64."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.lanes = BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype} x {self.lanes})")

    @property
    def llvm(self) -> Any:
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


def _arithmetic(op: Any, method: str) -> None:
    class Rule(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    infer_global(op)(Rule)
    lower_builtin(op, Vector, Vector)(lambda context, builder, sig, args: getattr(builder, method)(*args))


for _op, _method in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    _arithmetic(_op, _method)

# Additions that must not be reassociated: a large constant is added and taken off again to round to a whole number.
STRICT = ("nsz",)


class _Words:
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


def _exp2(w: _Words, x: Any) -> Any:
    """2^x = 2^k 2^f with k whole: k is added to the exponent bits of the polynomial's value."""
    x = w.pick(">", x, w.const(1.0 - w.bias))
    z, k = w.round(x)
    p = w.polynomial(w.b.fsub(x, k), EXP2_SINGLE if w.single else EXP2_DOUBLE)
    return w.as_float(w.b.add(w.as_int(p), w.b.shl(w.as_int(z), w.whole(w.mantissa))))


def _log2(w: _Words, x: Any, lost: Any = None) -> Any:
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


def _log1p(w: _Words, x: Any) -> Any:
    """log(1 + x), with what the addition loses put back."""
    one = w.const(1.0)
    u = w.b.fadd(x, one, flags=STRICT)
    lost = w.b.fsub(x, w.b.fsub(u, one, flags=STRICT), flags=STRICT)
    return w.b.fmul(_log2(w, u, lost), w.const(math.log(2.0)))


# π/2 in three parts, each but the last short enough that whole multiples of it are exact.
HALF_PI_SINGLE = (1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8)
HALF_PI_DOUBLE = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21)


def _sine(w: _Words, x: Any, *, quarter: int) -> Any:
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


def _step(w: _Words, x: Any) -> Any:
    zero, half, one = w.const(0.0), w.const(0.5), w.const(1.0)
    above = w.b.select(w.b.fcmp_ordered(">", x, zero), one, half)
    return w.b.select(w.b.fcmp_ordered("<", x, zero), zero, above)


def _elementwise(name: str, rule: Callable[..., Any]) -> Any:
    def typed(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return rule(_Words(builder, sig.return_type.llvm), *args)

        return x(x), generate

    typed.__name__ = name
    return intrinsic(typed)


def _pairwise(name: str, rule: Callable[..., Any]) -> Any:
    def typed(typing: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return rule(_Words(builder, sig.return_type.llvm), *args)

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


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, kind: Any) -> Any:
    """Return a pointer to array[index], the array taken as flat."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


class _Column:
    """The vectors array[at], array[at + stride], ... of a flat array."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any, at: Any, stride: Any) -> None:
        self.builder, self.at, self.stride = builder, at, stride
        self.bytes = array_type.dtype.bitwidth // 8
        self.vector = Vector(array_type.dtype).llvm
        self.data = context.make_array(array_type)(context, builder, array).data

    def pointer(self, q: int) -> Any:
        step = self.builder.mul(self.stride, ir.Constant(self.stride.type, q))
        where = self.builder.gep(self.data, [self.builder.add(self.at, step)])
        return self.builder.bitcast(where, self.vector.as_pointer())

    def load(self, q: int) -> Any:
        return self.builder.load(self.pointer(q), align=self.bytes)

    def store(self, q: int, value: Any) -> None:
        self.builder.store(value, self.pointer(q), align=self.bytes)


def _spread(builder: Any, vector: Any, scalar: Any) -> Any:
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, empty, lanes)


def _total(builder: Any, x: Any) -> Any:
    """Return the sum of the lanes as float64."""
    scalar, bits = x.type.element, 32 if isinstance(x.type.element, ir.FloatType) else 64
    kind = ir.FunctionType(scalar, [scalar, x.type])
    reduce = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{x.type.count}f{bits}")
    result = builder.call(reduce, [ir.Constant(scalar, -0.0), x], fastmath=("reassoc", "nsz"))
    return builder.fpext(result, ir.DoubleType()) if bits == 32 else result


def _flat(context: Any, builder: Any, array_type: Any, array: Any, i: Any, k: Any) -> Any:
    """Return the flat index of array[i, k]."""
    width = cgutils.unpack_tuple(builder, context.make_array(array_type)(context, builder, array).shape)[1]
    return builder.add(builder.mul(i, width), k)


@intrinsic  # type: ignore[misc]
def load(typing, array, index):  # type: ignore[no-untyped-def]
    """Return the vector that starts at array[index]."""
    vector = Vector(array.dtype)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, sig.args[0], *args, vector.llvm)
        return builder.load(where, align=array.dtype.bitwidth // 8)

    return vector(array, index), generate


@intrinsic  # type: ignore[misc]
def store(typing, array, index, value):  # type: ignore[no-untyped-def]
    """Write a vector to array[index] and on."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, sig.args[0], args[0], args[1], value.llvm)
        builder.store(args[2], where, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic  # type: ignore[misc]
def spread(typing, scalar):  # type: ignore[no-untyped-def]
    """Return a vector with `scalar` in every lane."""
    vector = Vector(scalar)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return _spread(builder, vector.llvm, args[0])

    return vector(scalar), generate


@intrinsic(prefer_literal=True)  # type: ignore[misc]
def spread_row(typing, array, i, k, count, factor):  # type: ignore[no-untyped-def]
    """Return factor · array[i, k], factor · array[i, k + 1], ..., each in every lane of a vector of its own."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        k64 = context.cast(builder, args[2], sig.args[2], types.int64)
        at = _flat(context, builder, sig.args[0], args[0], args[1], k64)
        vectors = []
        for q in range(result.count):
            scalar = builder.load(builder.gep(data, [builder.add(at, ir.Constant(at.type, q))]))
            vectors.append(_spread(builder, result.dtype.llvm, builder.fmul(args[4], scalar)))
        return context.make_tuple(builder, result, vectors)

    return result(array, i, k, count, factor), generate


@intrinsic(prefer_literal=True)  # type: ignore[misc]
def zeros(typing, array, count):  # type: ignore[no-untyped-def]
    """Return `count` vectors of zeros, of the array's type."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zero = _Words(builder, result.dtype.llvm).const(0.0)
        return context.make_tuple(builder, result, [zero] * result.count)

    return result(array, count), generate


def _summing(name: str, doc: str, rule: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """Return an intrinsic (s, x, array, at, stride) -> s with rule(builder, s, x_q, y_q) applied for every q."""

    def typed(typing: Any, s: Any, x: Any, array: Any, at: Any, stride: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            total, rows = args[0], cgutils.unpack_tuple(builder, args[1])
            column = _Column(context, builder, sig.args[2], *args[2:])
            for q, value in enumerate(rows):
                total = rule(builder, total, value, column.load(q))
            return total

        return s(s, x, array, at, stride), generate

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


def _square(b: Any, x: Any, y: Any) -> Any:
    d = b.fsub(x, y)
    return b.fmul(d, d)


add_products = _summing("add_products", "s + Σ x y", lambda b, s, x, y: b.fadd(s, b.fmul(x, y)))
add_squares = _summing("add_squares", "s + Σ (x - y)²", lambda b, s, x, y: b.fadd(s, _square(b, x, y)))
sub_squares = _summing("sub_squares", "s - Σ (x - y)²", lambda b, s, x, y: b.fsub(s, _square(b, x, y)))


def _each(name: str, doc: str, rule: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """Return an intrinsic (f, w, x, array, at, stride) -> f with f_q + rule(builder, w, x_q, y_q) for every q."""

    def typed(typing: Any, f: Any, w: Any, x: Any, array: Any, at: Any, stride: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            sums, rows = (cgutils.unpack_tuple(builder, t) for t in (args[0], args[2]))
            column = _Column(context, builder, sig.args[3], *args[3:])
            new = [builder.fadd(s, rule(builder, args[1], rows[q], column.load(q))) for q, s in enumerate(sums)]
            return context.make_tuple(builder, f, new)

        return f(f, w, x, array, at, stride), generate

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


weigh_columns = _each("weigh_columns", "f + w y", lambda b, w, x, y: b.fmul(w, y))
weigh_products = _each("weigh_products", "f + w x y", lambda b, w, x, y: b.fmul(w, b.fmul(x, y)))
weigh_differences = _each("weigh_differences", "f + w (x - y)", lambda b, w, x, y: b.fmul(w, b.fsub(x, y)))
weigh_squares = _each("weigh_squares", "f + w (x - y)²", lambda b, w, x, y: b.fmul(w, _square(b, x, y)))


@intrinsic(prefer_literal=True)  # type: ignore[misc]
def load_all(typing, array, at, stride, count):  # type: ignore[no-untyped-def]
    """Return the vectors at array[at], array[at + stride], ..., `count` of them."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        stride = context.cast(builder, args[2], sig.args[2], types.int64)
        column = _Column(context, builder, sig.args[0], args[0], args[1], stride)
        return context.make_tuple(builder, result, [column.load(q) for q in range(result.count)])

    return result(array, at, stride, count), generate


@intrinsic  # type: ignore[misc]
def store_all(typing, array, at, stride, vectors):  # type: ignore[no-untyped-def]
    """Write vectors to array[at], array[at + stride], ..."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        column = _Column(context, builder, sig.args[0], *args[:3])
        for q, value in enumerate(cgutils.unpack_tuple(builder, args[3])):
            column.store(q, value)
        return context.get_dummy_value()

    return types.void(array, at, stride, vectors), generate


@intrinsic  # type: ignore[misc]
def weigh_row(typing, f, w, array, i):  # type: ignore[no-untyped-def]
    """Return f with f_q + w array[i, q] for every q."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        data = context.make_array(sig.args[2])(context, builder, args[2]).data
        at = _flat(context, builder, sig.args[2], args[2], args[3], ir.Constant(ir.IntType(64), 0))
        new = []
        for q, total in enumerate(cgutils.unpack_tuple(builder, args[0])):
            scalar = builder.load(builder.gep(data, [builder.add(at, ir.Constant(at.type, q))]))
            new.append(builder.fadd(total, builder.fmul(args[1], _spread(builder, w.llvm, scalar))))
        return context.make_tuple(builder, f, new)

    return f(f, w, array, i), generate


@intrinsic(prefer_literal=True)  # type: ignore[misc]
def rank_sums(typing, left, i, height, count, right, at, stride):  # type: ignore[no-untyped-def]
    """Return Σ_q left[i + r, q] · right[at + q stride] for `height` rows r and two neighbouring vectors, row by row.

    The sums stay in registers while q runs, so every number that is loaded is used at least twice.
    """
    vector = Vector(left.dtype)
    result = types.UniTuple(vector, 2 * height.literal_value)

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        words, whole = _Words(builder, vector.llvm), ir.IntType(64)
        stride = context.cast(builder, args[6], sig.args[6], types.int64)
        next_at = builder.add(args[5], ir.Constant(whole, vector.lanes))
        sides = [_Column(context, builder, sig.args[4], args[4], start, stride) for start in (args[5], next_at)]
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        rows = []
        for r in range(height.literal_value):
            row = builder.add(args[1], ir.Constant(whole, r))
            rows.append(_flat(context, builder, sig.args[0], args[0], row, ir.Constant(whole, 0)))
        sums = [words.const(0.0)] * result.count
        for q in range(count.literal_value):
            columns = [side.load(q) for side in sides]
            for r, first in enumerate(rows):
                scalar = builder.load(builder.gep(data, [builder.add(first, ir.Constant(whole, q))]))
                weight = _spread(builder, vector.llvm, scalar)
                for h, column in enumerate(columns):
                    sums[2 * r + h] = builder.fadd(sums[2 * r + h], builder.fmul(weight, column))
        return context.make_tuple(builder, result, sums)

    return result(left, i, height, count, right, at, stride), generate


@intrinsic  # type: ignore[misc]
def add_totals(typing, out, i, k, vectors):  # type: ignore[no-untyped-def]
    """Add the sum of the lanes of each vector to out[i, k], out[i, k + 1], ..., in float64."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        at = _flat(context, builder, sig.args[0], args[0], args[1], args[2])
        for q, vector in enumerate(cgutils.unpack_tuple(builder, args[3])):
            where = builder.gep(data, [builder.add(at, ir.Constant(at.type, q))])
            builder.store(builder.fadd(builder.load(where), _total(builder, vector)), where)
        return context.get_dummy_value()

    return types.void(out, i, k, vectors), generate


@intrinsic  # type: ignore[misc]
def fetch_add(typing, array, index, amount):  # type: ignore[no-untyped-def]
    """Add to array[index] as one indivisible step and return what was there."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, sig.args[0], args[0], args[1], ir.IntType(64))
        return builder.atomic_rmw("add", where, args[2], "acq_rel")

    return types.int64(array, index, amount), generate


@intrinsic  # type: ignore[misc]
def peek(typing, array, index):  # type: ignore[no-untyped-def]
    """Return array[index] as the other threads left it, with all that they wrote before."""

    def generate(context, builder, sig, args):  # type: ignore[no-untyped-def]
        where = _address(context, builder, sig.args[0], *args, ir.IntType(64))
        return builder.load_atomic(where, "acquire", 8)

    return types.int64(array, index), generate
