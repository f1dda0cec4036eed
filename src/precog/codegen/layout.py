"""The shape of a generated loop: its literals, where features stand in a row, how large a tile is."""

from __future__ import annotations

from dataclasses import dataclass

from precog.codegen import calculus
from precog.codegen.plan import Plan
from precog.codegen.vector import BYTES
from precog.kernels.statistics import DOT, SQUARED_DISTANCE

# Accumulators over more features are summed in pieces through a buffer, so that code and registers stay small.
WIDE = 32
PIECE = 16
# Sums over features in the gradient keep this many accumulators in registers.
GROUP = 8
# From so many vectors on, entries go through a block of this many rows in the first-level cache.
MANY, BLOCK = 3, 16
# What the columns of one tile may take of the first-level cache.
TILE_BYTES = 28_000
# A tile on the diagonal is done in squares of this size, each with itself one way and with the rest both ways.
SQUARE = 64


# Formulas of more instructions than this gain little from eight rows at once, which compile twice as long as four.
COSTLY = 40
# Numbers of a cache line, at most.
LINE = 16


@dataclass(frozen=True)
class Shape:
    """The literals of one generated file."""

    use: str  # both, one, block, grad, inputs
    dtype: str
    vectors: int  # columns of V, or of A and of B

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "float32" else 8

    @property
    def lanes(self) -> int:
        return BYTES // self.itemsize


@dataclass(frozen=True)
class Layout:
    """Where each feature stands in a row, and how long a tile is."""

    offsets: tuple[int, ...]  # first feature of each accumulator
    widths: tuple[int, ...]  # padded to whole pieces where the accumulator is wide
    wide: tuple[bool, ...]
    norms: tuple[int | None, ...]  # position of |u|²
    tangents: tuple[int | None, ...]  # first tangent
    size: int
    tile: int

    @property
    def features(self) -> int:
        return sum(self.widths)

    def rooms(self, shape: Shape, R: int) -> int:
        """Return how many rows of a tile the buffer of a thread holds, before it holds the features of R rows."""
        return (len(self.widths) + 1) * R + (BLOCK if shape.vectors >= MANY else 0)


def layout(plan: Plan, shape: Shape) -> Layout:
    wide = tuple(a.width > WIDE for a in plan.accumulators)
    widths = tuple(-(-a.width // PIECE) * PIECE if w else a.width for a, w in zip(plan.accumulators, wide, strict=True))
    offsets = tuple(sum(widths[:a]) for a in range(len(widths)))
    at = sum(widths)
    norms: list[int | None] = []
    for accumulator in plan.accumulators:
        squared = accumulator.statistic is SQUARED_DISTANCE
        norms.append(at if squared else None)
        at += squared
    tangents: list[int | None] = []
    for accumulator, width in zip(plan.accumulators, widths, strict=True):
        with_tangent = accumulator.tangent and shape.use == "grad"
        tangents.append(at if with_tangent else None)
        at += width if with_tangent else 0
    held = min(sum(widths), 2 * PIECE) + 2 * shape.vectors + 2
    tile = 512 if 512 * held * shape.itemsize <= TILE_BYTES else 256
    return Layout(offsets, widths, wide, tuple(norms), tuple(tangents), at, tile)


def rows_at_once(plan: Plan, shape: Shape) -> int:
    """Return R: as many rows as keep the vector units busy without spilling what is used most. Measured."""
    if BYTES < 64:
        return 2
    in_registers = any(a.statistic not in (SQUARED_DISTANCE, DOT) for a in plan.accumulators)
    few = in_registers or shape.use in ("grad", "inputs") or calculus.cost(plan.value) > COSTLY
    return 4 if few else 8


def forms(plan: Plan) -> tuple[str, ...]:
    """Return the ways to accumulate that the plan allows."""
    squared = any(a.statistic is SQUARED_DISTANCE for a in plan.accumulators)
    if not squared:
        return ("products",)
    return ("differences",) if plan.steep else ("products", "differences")
