"""Reads, writes and sums over whole vector registers.

One call here stands for many instructions: `spread_row` fills a register for each feature of a row, `add_products` runs
over all features of a vector of columns. The instructions are written out one after the other as LLVM sees them, so the
generated text stays short, quick to compile, and readable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from precog.codegen.vector import Vector, Words


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


@intrinsic
def load(typing, array, index):
    """Return the vector that starts at array[index]."""
    vector = Vector(array.dtype)

    def generate(context, builder, sig, args):
        where = _address(context, builder, sig.args[0], args[0], args[1], vector.llvm)
        return builder.load(where, align=array.dtype.bitwidth // 8)

    return vector(array, index), generate


@intrinsic
def store(typing, array, index, value):
    """Write a vector to array[index] and on."""

    def generate(context, builder, sig, args):
        where = _address(context, builder, sig.args[0], args[0], args[1], value.llvm)
        builder.store(args[2], where, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def spread(typing, scalar):
    """Return a vector with `scalar` in every lane."""
    vector = Vector(scalar)

    def generate(context, builder, sig, args):
        return _spread(builder, vector.llvm, args[0])

    return vector(scalar), generate


@intrinsic(prefer_literal=True)
def spread_row(typing, array, i, k, count, factor):
    """Return factor · array[i, k], factor · array[i, k + 1], ..., each in every lane of a vector of its own."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        k64 = context.cast(builder, args[2], sig.args[2], types.int64)
        at = _flat(context, builder, sig.args[0], args[0], args[1], k64)
        vectors = []
        for q in range(result.count):
            scalar = builder.load(builder.gep(data, [builder.add(at, ir.Constant(at.type, q))]))
            vectors.append(_spread(builder, result.dtype.llvm, builder.fmul(args[4], scalar)))
        return context.make_tuple(builder, result, vectors)

    return result(array, i, k, count, factor), generate


@intrinsic(prefer_literal=True)
def keep_rows(typing, held, at, step, array, i, height, k, count, factor):
    """Write factor · array[i + r, k + q] to held[at + r step + q], for `height` rows and `count` numbers of each."""

    def generate(context, builder, sig, args):
        whole = types.int64
        at, step, k = (context.cast(builder, args[n], sig.args[n], whole) for n in (1, 2, 6))
        data, target = (context.make_array(sig.args[n])(context, builder, args[n]).data for n in (3, 0))
        for r in range(height.literal_value):
            row = builder.add(args[4], ir.Constant(args[4].type, r))
            source = _flat(context, builder, sig.args[3], args[3], row, k)
            first = builder.add(at, builder.mul(step, ir.Constant(at.type, r)))
            for q in range(count.literal_value):
                number = builder.load(builder.gep(data, [builder.add(source, ir.Constant(at.type, q))]))
                where = builder.gep(target, [builder.add(first, ir.Constant(at.type, q))])
                builder.store(builder.fmul(args[8], number), where)
        return context.get_dummy_value()

    return types.void(held, at, step, array, i, height, k, count, factor), generate


@intrinsic(prefer_literal=True)
def zeros(typing, array, count):
    """Return `count` vectors of zeros, of the array's type."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):
        zero = Words(builder, result.dtype.llvm).const(0.0)
        return context.make_tuple(builder, result, [zero] * result.count)

    return result(array, count), generate


class _Held:
    """The numbers held[at + r step + q], each spread over a register as it is read."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any, first: int) -> None:
        self.builder = builder
        self.at, self.step = (context.cast(builder, args[n], sig.args[n], types.int64) for n in (first + 1, first + 2))
        self.data = context.make_array(sig.args[first])(context, builder, args[first]).data
        self.vector = Vector(sig.args[first].dtype).llvm

    def spread(self, r: int, q: int) -> Any:
        row = self.builder.mul(self.step, ir.Constant(self.at.type, r))
        where = self.builder.add(self.builder.add(self.at, row), ir.Constant(self.at.type, q))
        return _spread(self.builder, self.vector, self.builder.load(self.builder.gep(self.data, [where])))


def _beginning(name: str, doc: str, rule: Callable[[Any, Any, Any], Any]) -> Any:
    """Return an intrinsic (held, x, step, height, h) that gives rule(builder, x_r, h) for every row r."""

    def typed(typing: Any, held: Any, x: Any, step: Any, height: Any, h: Any) -> Any:
        result = types.UniTuple(h, height.literal_value)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            numbers = _Held(context, builder, sig, args, 0)
            new = [rule(builder, numbers.spread(r, 0), args[4]) for r in range(result.count)]
            return context.make_tuple(builder, result, new)

        return result(held, x, step, height, h), generate

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(prefer_literal=True)(typed)


begin_sum = _beginning("begin_sum", "x + h", lambda b, x, h: b.fadd(x, h))
begin_difference = _beginning("begin_difference", "x - h", lambda b, x, h: b.fsub(x, h))


def _summing(name: str, doc: str, rule: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """Return an intrinsic (s, held, x, step, count, array, at, stride) -> s, one sum s_r for each row.

    Applies rule(builder, s_r, x_rq, y_q) for every q: x_rq is the number held[x + r step + q] in every lane, y_q the
    vector array[at + q stride].
    """

    def typed(typing: Any, s: Any, held: Any, x: Any, step: Any, count: Any, array: Any, at: Any, stride: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            sums = cgutils.unpack_tuple(builder, args[0])
            numbers = _Held(context, builder, sig, args, 1)
            stride = context.cast(builder, args[7], sig.args[7], types.int64)
            column = _Column(context, builder, sig.args[5], args[5], args[6], stride)
            for q in range(count.literal_value):
                y = column.load(q)
                sums = [rule(builder, total, numbers.spread(r, q), y) for r, total in enumerate(sums)]
            return context.make_tuple(builder, s, sums)

        return s(s, held, x, step, count, array, at, stride), generate

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(prefer_literal=True)(typed)


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


weigh_column = _each("weigh_column", "f + w y", lambda b, w, x, y: b.fmul(w, y))
weigh_products = _each("weigh_products", "f + w x y", lambda b, w, x, y: b.fmul(w, b.fmul(x, y)))
weigh_differences = _each("weigh_differences", "f + w (x - y)", lambda b, w, x, y: b.fmul(w, b.fsub(x, y)))
weigh_squares = _each("weigh_squares", "f + w (x - y)²", lambda b, w, x, y: b.fmul(w, _square(b, x, y)))


@intrinsic(prefer_literal=True)
def load_all(typing, array, at, stride, count):
    """Return the vectors at array[at], array[at + stride], ..., `count` of them."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)

    def generate(context, builder, sig, args):
        stride = context.cast(builder, args[2], sig.args[2], types.int64)
        column = _Column(context, builder, sig.args[0], args[0], args[1], stride)
        return context.make_tuple(builder, result, [column.load(q) for q in range(result.count)])

    return result(array, at, stride, count), generate


@intrinsic
def store_all(typing, array, at, stride, vectors):
    """Write vectors to array[at], array[at + stride], ..."""

    def generate(context, builder, sig, args):
        column = _Column(context, builder, sig.args[0], *args[:3])
        for q, value in enumerate(cgutils.unpack_tuple(builder, args[3])):
            column.store(q, value)
        return context.get_dummy_value()

    return types.void(array, at, stride, vectors), generate


@intrinsic
def weigh_columns(typing, f, weights, array, at, stride):
    """Return f with f_rq + w_r array[at + q stride] for every weight w_r and every q, row by row."""

    def generate(context, builder, sig, args):
        sums, weights = (cgutils.unpack_tuple(builder, args[n]) for n in (0, 1))
        column = _Column(context, builder, sig.args[2], *args[2:])
        columns = [column.load(q) for q in range(len(sums) // len(weights))]
        pairs = [(w, y) for w in weights for y in columns]
        new = [builder.fadd(total, builder.fmul(w, y)) for total, (w, y) in zip(sums, pairs, strict=True)]
        return context.make_tuple(builder, f, new)

    return f(f, weights, array, at, stride), generate


@intrinsic
def weigh_rows(typing, f, weights, array, i):
    """Return f with f_q + Σ_r w_r array[i + r, q] for every q."""

    def generate(context, builder, sig, args):
        sums, weights = (cgutils.unpack_tuple(builder, args[n]) for n in (0, 1))
        data = context.make_array(sig.args[2])(context, builder, args[2]).data
        zero = ir.Constant(ir.IntType(64), 0)
        for r, w in enumerate(weights):
            at = _flat(context, builder, sig.args[2], args[2], builder.add(args[3], ir.Constant(zero.type, r)), zero)
            for q, total in enumerate(sums):
                scalar = builder.load(builder.gep(data, [builder.add(at, ir.Constant(at.type, q))]))
                sums[q] = builder.fadd(total, builder.fmul(w, _spread(builder, w.type, scalar)))
        return context.make_tuple(builder, f, sums)

    return f(f, weights, array, i), generate


@intrinsic(prefer_literal=True)
def rank_sums(typing, left, i, height, count, right, at, stride):
    """Return Σ_q left[i + r, q] · right[at + q stride] for `height` rows r and two neighbouring vectors, row by row.

    The sums stay in registers while q runs, so every number that is loaded is used at least twice.
    """
    vector = Vector(left.dtype)
    result = types.UniTuple(vector, 2 * height.literal_value)

    def generate(context, builder, sig, args):
        words, whole = Words(builder, vector.llvm), ir.IntType(64)
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


@intrinsic(prefer_literal=True)
def add_totals(typing, out, i, k, vectors, height):
    """Add the sum of the lanes of each vector to out[i, k], out[i, k + 1], ... in float64, and so for `height` rows."""

    def generate(context, builder, sig, args):
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        k = context.cast(builder, args[2], sig.args[2], types.int64)
        each = cgutils.unpack_tuple(builder, args[3])
        width = len(each) // height.literal_value
        for n, vector in enumerate(each):
            row = builder.add(args[1], ir.Constant(args[1].type, n // width))
            at = _flat(context, builder, sig.args[0], args[0], row, k)
            where = builder.gep(data, [builder.add(at, ir.Constant(at.type, n % width))])
            builder.store(builder.fadd(builder.load(where), _total(builder, vector)), where)
        return context.get_dummy_value()

    return types.void(out, i, k, vectors, height), generate
