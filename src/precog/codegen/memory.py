"""Memory as the loops need it: counters that threads share, where arrays begin, and what must be read again."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic


def _counter(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return a pointer to args[0][args[1]], a flat array of int64."""
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


@intrinsic
def fetch_add(typing, array, index, amount):
    """Add to array[index] as one indivisible step and return what was there."""

    def generate(context, builder, sig, args):
        where = _counter(context, builder, sig, args)
        return builder.atomic_rmw("add", where, args[2], "acq_rel")

    return types.int64(array, index, amount), generate


@intrinsic
def peek(typing, array, index):
    """Return array[index] as the other threads left it, with all that they wrote before."""

    def generate(context, builder, sig, args):
        where = _counter(context, builder, sig, args)
        return builder.load_atomic(where, "acquire", 8)

    return types.int64(array, index), generate


@intrinsic
def aligned(typing, array):
    """Return a flat array from the first number on that a cache line begins with: no vector then lies in two lines."""

    def generate(context, builder, sig, args):
        view = context.make_array(array)(context, builder, args[0])
        address = builder.ptrtoint(view.data, ir.IntType(64))
        bytes_over = builder.and_(builder.neg(address), ir.Constant(address.type, 63))
        skipped = builder.udiv(bytes_over, ir.Constant(address.type, array.dtype.bitwidth // 8))
        left = builder.sub(view.nitems, skipped)
        view.data, view.nitems = builder.gep(view.data, [skipped]), left
        view.shape = cgutils.pack_array(builder, [left])
        return impl_ret_borrowed(context, builder, sig.return_type, view._getvalue())

    return array(array), generate


@intrinsic
def reread(typing):
    """Make the compiler load again what it may have loaded before: numbers in memory stay there.

    A row's features are read where they are used, by instructions that spread one number over a register on its way
    from the cache. Without this they would be spread once before the loop, into more registers than there are, and be
    kept on a stack that is not aligned.
    """

    def generate(context, builder, sig, args):
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.asm(kind, "", "~{memory}", [], True)
        return context.get_dummy_value()

    return types.void(), generate
