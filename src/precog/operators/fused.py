"""The compiled loops at work: one matrix K(X, Z), never stored, multiplied, differentiated, or given out in blocks."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from precog.codegen import build
from precog.codegen.build import Compiled
from precog.codegen.layout import BLOCK, Shape, layout
from precog.codegen.plan import Plan, trace
from precog.kernels import Additive, Kernel
from precog.kernels.statistics import Array, Index
from precog.operators import pack, schedule, skipping
from precog.operators.schedule import Progress, Tasks, share
from precog.operators.skipping import NO_SKIPS, Skips, Sorted

# More vectors than this are taken in turns: their accumulators would not stay in registers.
VECTORS = 8
# Panels start at multiples of this: of every tile length, and of the rows that a loop takes at once.
PANEL_STEP = 512


class Fused:
    """K(X, Z) for checked inputs, with the formula of `White` leaves taken as zero; symmetric if Z is None."""

    def __init__(self, kernel: Kernel, X: Array, Z: Array | None, dtype: str, threads: int) -> None:
        self.kernel, self.X, self.Z, self.dtype, self.threads = kernel, X, Z, dtype, threads
        self._packed: dict[Any, Array] = {}
        self._rounds: dict[int, Tasks] = {}

    @cached_property
    def plan(self) -> Plan:
        return trace(self.kernel, self.X.shape[1])

    @cached_property
    def sides(self) -> tuple[pack.Features, pack.Features]:
        double = [None if A is None else A.astype(np.float64, copy=False) for A in (self.X, self.Z)]
        assert double[0] is not None
        return pack.features(self.kernel, self.plan, double[0], double[1])

    @cached_property
    def differences(self) -> bool:
        """Whether distances are taken by differences instead of products."""
        return pack.takes_differences(self.plan, self.sides, self.dtype)

    @property
    def _tile(self) -> int:
        """The tile of products with one vector."""
        return layout(self.plan, Shape("both" if self.Z is None else "one", self.dtype, 1)).tile

    @cached_property
    def _sorted(self) -> Sorted | None:
        """The rows in spatial order, in which products leave out tiles that vanish; None where few of them do."""
        return skipping.sort(self.kernel, self.X, self.Z, self.dtype, self._tile)

    @property
    def skipped(self) -> float:
        """The share of the entries that products leave out."""
        return 0.0 if self._sorted is None else self._sorted.share((self._tile, self._tile))

    def _order(self, side: int) -> Index | slice:
        """Return the order in which products take the rows of X (side 0) or of Z (side 1)."""
        return slice(None) if self._sorted is None else self._sorted.orders[side]

    def _skips(self, sides: tuple[int, int], starts: tuple[Index, Index], *, slopes: bool = False) -> Skips:
        return NO_SKIPS if self._sorted is None else self._sorted.skips(sides, starts, slopes=slopes)

    def _compiled(self, use: str, vectors: int) -> tuple[Compiled, Array, bool]:
        """Return the loop, its numbers, and the choice of its form."""
        loop = build.compiled(self.plan, Shape(use, self.dtype, vectors))
        forms = loop.source.forms
        form = forms[0] if len(forms) == 1 else ("differences" if self.differences else "products")
        numbers = pack.parameters(self.kernel, self.plan)
        return loop, pack.invariants(loop.source.invariants[form], numbers, self.dtype), form == "differences"

    def _rows(self, side: int, loop: Compiled, multiple: int, *, as_given: bool = False) -> Array:
        """Return the rows in the order of products, or in that in which they were given."""
        order, place = slice(None) if as_given else self._order(side), loop.source.layout
        key = ("rows", side if self.Z is not None else 0, place, multiple, isinstance(order, slice))
        if key not in self._packed:
            self._packed[key] = pack.rows(self.sides[side], self.plan, place, self.dtype, multiple, order)
        return self._packed[key]

    def _columns(self, side: int, loop: Compiled, *, as_given: bool = False) -> tuple[Array, int]:
        """Return the columns in tiles, and how many columns that is."""
        tile = loop.source.layout.tile
        rows = self._rows(side, loop, tile, as_given=as_given)
        key = ("columns", side if self.Z is not None else 0, loop.source.layout, as_given or self._sorted is None)
        if key not in self._packed:
            self._packed[key] = pack.tiles(rows, tile)
        return self._packed[key], len(rows)

    def matmat(self, V: Array, callback: Progress | None = None, *, transposed: bool = False) -> Array:
        """Return K V (K' V where transposed) in float64, a few columns at a time."""
        scale = balance(V, self.dtype)
        multiply = self._symmetric if self.Z is None else self._rectangular
        target, source = (1, 0) if transposed else (0, 1)
        V = V[self._order(source)]
        starts, parts = range(0, V.shape[1], VECTORS), []
        for part, c in enumerate(starts):
            chosen = slice(c, c + VECTORS)
            product = multiply(V[:, chosen], scale[chosen], transposed, share(callback, part, len(starts)))
            product /= scale[chosen]
            parts.append(product)
        return _restored(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), self._order(target))

    def _symmetric(self, V: Array, scale: Array, transposed: bool, callback: Progress | None) -> Array:
        loop, par, differences = self._compiled("both", V.shape[1])
        tile = loop.source.layout.tile
        columns, n = self._columns(0, loop)
        left = pack.padded(V, n, self.dtype, scale)
        span, tiles = schedule.span(n // tile), np.arange(0, n, tile)
        skips = self._skips((0, 0), (tiles, tiles))
        chunks = -(-(n // tile) // span)
        out, mirrored = np.zeros((n, V.shape[1])), np.zeros((n // tile, V.shape[1] * tile))
        schedule.work(
            loop.run,
            (self._rows(0, loop, tile), columns, left, pack.tiles(left, tile), par, out, mirrored),
            (skips, span, differences),
            self._pairs(skips, span) if skips.size else schedule.tournament(chunks),
            chunks=chunks,
            entries=n * n // 2,
            threads=self.threads,
            callback=callback,
        )
        out += mirrored.reshape(-1, V.shape[1], tile).transpose(0, 2, 1).reshape(out.shape)
        return out[: len(V)]

    def _pairs(self, skips: Skips, span: int) -> Tasks:
        """Return the pairs of chunks, each of `span` tiles, that have tiles to meet."""
        if len(skips) not in self._rounds:
            starts = np.arange(0, len(skips), span)
            kept = np.triu(skips == 0).astype(np.int64)
            work = np.add.reduceat(np.add.reduceat(kept, starts, axis=0), starts, axis=1)
            self._rounds[len(skips)] = schedule.rounds(work)
        return self._rounds[len(skips)]

    def _rectangular(self, V: Array, scale: Array, transposed: bool, callback: Progress | None) -> Array:
        loop, par, differences = self._compiled("one", V.shape[1])
        target, source = (1, 0) if transposed else (0, 1)
        columns, m = self._columns(source, loop)
        rows = self._rows(target, loop, BLOCK)
        right = pack.tiles(pack.padded(V, m, self.dtype, scale), loop.source.layout.tile)
        out = np.zeros((len(rows), V.shape[1]))
        arguments = (rows, columns, np.zeros((1, 1), self.dtype), right, par, out)
        self._stripes(loop, arguments, differences, m, callback, sides=(target, source))
        return out[: self.sides[target].n]

    def _stripes(
        self,
        loop: Compiled,
        arguments: Any,
        differences: bool,
        m: int,
        callback: Progress | None,
        *,
        stride: int = 0,
        sides: tuple[int, int] | None = None,
        slopes: bool = False,
    ) -> None:
        """Let all rows meet m columns, stripe by stripe; pairs are left out if it is said which sides they are."""
        rows, tile = arguments[0], loop.source.layout.tile
        tasks = schedule.stripes(len(rows), m // tile)
        skips = self._skips(sides, (tasks[:, 0], np.arange(0, m, tile)), slopes=slopes) if sides else NO_SKIPS
        schedule.work(
            loop.run,
            arguments,
            (skips, stride, differences),
            tasks,
            chunks=0,
            entries=len(rows) * m,
            threads=self.threads,
            callback=callback,
        )

    def block(self) -> Array:
        """Return the whole matrix in the operator's type (the caller keeps it small)."""
        return self.panel(slice(0, self.sides[0].n), slice(0, self.sides[1].n))

    def panel(self, rows: slice, columns: slice, *, transposed: bool = False) -> Array:
        """Return K[rows, columns] (of K' where transposed); both start at a multiple of `PANEL_STEP`."""
        loop, par, differences = self._compiled("block", 0)
        tile, width = loop.source.layout.tile, loop.source.layout.size
        first, last = columns.start // tile, -(-columns.stop // tile)
        packed, _ = self._columns(0 if transposed else 1, loop, as_given=True)
        some = self._rows(1 if transposed else 0, loop, BLOCK, as_given=True)[
            rows.start : -(-rows.stop // BLOCK) * BLOCK
        ]
        stride = (last - first) * tile
        out = np.empty(len(some) * stride, self.dtype)
        nothing = np.zeros((1, 1), self.dtype)
        held = packed[first * tile * width : last * tile * width]
        self._stripes(loop, (some, held, nothing, nothing[0], par, out), differences, stride, None, stride=stride)
        return out.reshape(len(some), stride)[: rows.stop - rows.start, : columns.stop - columns.start]

    def gradient(
        self, A: Array, B: Array, callback: Progress | None = None
    ) -> tuple[Array, list[Array], list[Array | None]]:
        """Return Σ (A B')_ij ∂K_ij in three parts, all for the log of a hyperparameter.

        The scalars of the plan; for each accumulator the sum weighted with each feature's own term; for each with
        tangents the sum along them.
        """
        total: Array = np.zeros(0)
        starts = range(0, A.shape[1], VECTORS)
        for part, c in enumerate(starts):
            report = share(callback, part, len(starts))
            sums, loop = self._gradient(A[:, c : c + VECTORS], B[:, c : c + VECTORS], report)
            total = sums if c == 0 else total + sums
        place, plan = loop.source.layout, self.plan
        scalars, by_feature = total[: len(plan.scalars)], total[len(plan.scalars) :]
        scaling, tangent = by_feature[: place.features], by_feature[place.features :]
        slices = [slice(o, o + a.width) for o, a in zip(place.offsets, plan.accumulators, strict=True)]
        along: list[Array | None] = [
            tangent[s] if a.tangent else None for s, a in zip(slices, plan.accumulators, strict=True)
        ]
        return scalars, [scaling[s] for s in slices], along

    def _gradient(self, A: Array, B: Array, callback: Progress | None) -> tuple[Array, Compiled]:
        loop, par, differences = self._compiled("grad", A.shape[1])
        tile, symmetric = loop.source.layout.tile, self.Z is None
        columns, m = self._columns(1, loop)
        rows = self._rows(0, loop, tile)
        A, B, scale = _balanced(A[self._order(0)], B[self._order(1)], self.dtype)
        left = (
            np.concatenate([pack.padded(A, len(rows), self.dtype), pack.padded(B, len(rows), self.dtype)], axis=1)
            if symmetric
            else np.concatenate(
                [pack.padded(A, len(rows), self.dtype), np.zeros((len(rows), A.shape[1]), self.dtype)], axis=1
            )
        )
        right_B = pack.padded(B, m, self.dtype)
        right_A = pack.padded(A, m, self.dtype) if symmetric else np.zeros_like(right_B)
        right = pack.tiles(np.concatenate([right_B, right_A], axis=1), tile)
        alone = pack.tiles(np.concatenate([right_B, np.zeros_like(right_A)], axis=1), tile)
        tasks = schedule.gradient_pairs(len(rows) // tile, m // tile, symmetric=symmetric)
        skips = self._skips((0, 1), (np.arange(0, len(rows), tile), np.arange(0, m, tile)), slopes=True)
        out = np.zeros((len(tasks), len(self.plan.scalars) + 2 * loop.source.layout.features))
        schedule.work(
            loop.run,
            (rows, columns, left, right, alone, par, out),
            (skips, differences),
            tasks,
            chunks=0,
            entries=len(rows) * m // (2 if symmetric else 1),
            threads=self.threads,
            callback=callback,
        )
        return out.sum(axis=0) * scale, loop

    def input_gradient(self, A: Array, B: Array, callback: Progress | None = None) -> list[Array]:
        """Return, for each accumulator, Σ_i (A B')_ij ∂K_ij/∂w_j for the features w_j of the rows of Z."""
        sums: Array | None = None
        starts = range(0, A.shape[1], VECTORS)
        for part, c in enumerate(starts):
            report = share(callback, part, len(starts))
            some, loop = self._input_gradient(A[:, c : c + VECTORS], B[:, c : c + VECTORS], report)
            sums = some if sums is None else sums + some
        assert sums is not None
        place = loop.source.layout
        return [
            sums[:, o : o + a.width] * abs(a.scale) ** (1.0 / a.statistic.degree)
            for o, a in zip(place.offsets, self.plan.accumulators, strict=True)
        ]

    def pull_back(self, by_feature: list[Array]) -> Array:
        """Return the derivative in the rows of Z from those in their features."""
        X = self.X.astype(np.float64, copy=False)
        Z = X if self.Z is None else self.Z.astype(np.float64, copy=False)
        out = np.zeros(Z.shape)
        leaves = self.kernel.leaves()
        for accumulator, G in zip(self.plan.accumulators, by_feature, strict=True):
            leaf = leaves[accumulator.leaf]
            assert isinstance(leaf, Additive)
            out += leaf.pull_back(leaf.centred(X, Z)[1], G)
        return out

    def _input_gradient(self, A: Array, B: Array, callback: Progress | None) -> tuple[Array, Compiled]:
        loop, par, differences = self._compiled("inputs", A.shape[1])
        columns, n = self._columns(0, loop)
        rows = self._rows(1, loop, BLOCK)
        A, B, scale = _balanced(A[self._order(0)], B[self._order(1)], self.dtype)
        right = pack.tiles(pack.padded(A, n, self.dtype), loop.source.layout.tile)
        out = np.zeros((len(rows), loop.source.layout.features))
        arguments = (rows, columns, pack.padded(B, len(rows), self.dtype), right, par, out)
        self._stripes(loop, arguments, differences, n, callback, sides=(1, 0), slopes=True)
        return _restored(out[: self.sides[1].n] * scale, self._order(1)), loop


def _restored(A: Array, order: Index | slice) -> Array:
    """Return rows that were taken in an order in their old places."""
    if isinstance(order, slice):
        return A
    out = np.empty_like(A)
    out[order] = A
    return out


def balance(V: Array, dtype: str) -> Array:
    """Return powers of two that bring every column near one, so that small residuals keep their digits in float32."""
    if dtype != "float32":
        return np.ones(V.shape[1])
    largest = np.abs(V).max(axis=0, initial=0.0).astype(np.float64)
    _, exponent = np.frexp(largest)
    return np.where(largest > 0, np.ldexp(1.0, np.clip(-exponent, -1000, 1000)), 1.0)


def _balanced(A: Array, B: Array, dtype: str) -> tuple[Array, Array, float]:
    """Return A and B near one and the factor that their products then lack."""
    a, b = balance(A.reshape(-1, 1), dtype), balance(B.reshape(-1, 1), dtype)
    return A * a, B * b, float(1.0 / (a[0] * b[0]))
