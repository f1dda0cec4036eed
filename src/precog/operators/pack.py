"""The inputs as the compiled loops read them: scaled features in rows, and the same in tiles of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from precog.codegen import expr
from precog.codegen.expr import Expr
from precog.codegen.layout import Layout
from precog.codegen.plan import Plan
from precog.kernels import SQUARED_DISTANCE, Additive, Kernel
from precog.kernels.statistics import Array, Index

# Products round a squared distance by about 4 eps |u|². The mean of that over the rows may be this, and a single row
# eight times as much; beyond, the loops take differences.
PRODUCT_ERROR = {"float32": 8e-6, "float64": 5e-14}
OUTLIER = 8.0
CACHE_LINE = 64


@dataclass(frozen=True)
class Features:
    """Scaled and centred features of one set of rows, for every accumulator, in float64."""

    n: int
    values: tuple[Array, ...]
    tangents: tuple[Array | None, ...]


def features(kernel: Kernel, plan: Plan, X: Array, Z: Array | None) -> tuple[Features, Features]:
    """Return the features of X and of Z (of X again, if Z is None), moved to a common centre."""
    leaves = kernel.leaves()
    pairs = []
    for accumulator in plan.accumulators:
        leaf = leaves[accumulator.leaf]
        assert isinstance(leaf, Additive)
        both = leaf.centred(X, X if Z is None else Z)
        factor = abs(accumulator.scale) ** (1.0 / accumulator.statistic.degree)
        used = both[:1] if Z is None else both
        values = [leaf.features(A) * factor for A in used]
        slopes = [leaf.tangents(A) if accumulator.tangent else None for A in used]
        pairs.append((values[0], values[-1], *(None if t is None else t * factor for t in (slopes[0], slopes[-1]))))
    left = Features(len(X), tuple(p[0] for p in pairs), tuple(p[2] for p in pairs))
    right = Features(len(X if Z is None else Z), tuple(p[1] for p in pairs), tuple(p[3] for p in pairs))
    return left, right


def parameters(kernel: Kernel, plan: Plan) -> dict[str, float]:
    """Return the values of the plan's parameters."""
    leaves = kernel.leaves()
    values = {f"{name}{i}": value for i, leaf in enumerate(leaves) for name, value in vars(leaf.values()).items()}
    sharing = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, Additive) and leaf.shares_features}
    heads = [sharing[a.leaf] for a in plan.accumulators if a.leaf in sharing]
    scales = {(head.statistic, head.columns): np.asarray(head.length_scale) for head in heads}
    for i, leaf in sharing.items():
        if (leaf.statistic, leaf.columns) in scales:
            ratio = float(scales[leaf.statistic, leaf.columns] / np.asarray(leaf.length_scale))
            values[f"ratio{i}"] = ratio**leaf.statistic.degree
    return {name: values[name] for name in plan.parameters if name in values}


def invariants(expressions: tuple[Expr, ...], values: dict[str, float], dtype: str) -> Array:
    """Return what the loops find in `par`: numbers made of hyperparameters alone, rounded once."""
    return np.array([float(expr.evaluate(e, values)) for e in expressions] or [0.0]).astype(dtype)


def takes_differences(plan: Plan, sides: tuple[Features, Features], dtype: str) -> bool:
    """Return whether products would lose more digits than the operator promises."""
    if plan.steep:
        return True
    limit = PRODUCT_ERROR[dtype] / (4.0 * float(np.finfo(dtype).eps))
    for a, accumulator in enumerate(plan.accumulators):
        if accumulator.statistic is SQUARED_DISTANCE:
            for side in sides if sides[0] is not sides[1] else sides[:1]:
                norms = np.einsum("ik,ik->i", side.values[a], side.values[a]) / abs(accumulator.scale)
                if norms.mean() > limit or norms.max() > OUTLIER * limit:
                    return True
    return False


def rows(
    side: Features, plan: Plan, place: Layout, dtype: str, multiple: int, order: Index | slice = slice(None)
) -> Array:
    """Return the features as rows in the order given, (n padded to a multiple, size), the last row repeated."""
    n = side.n
    out = np.zeros((-(-n // multiple) * multiple, place.size), dtype)
    for a, U in enumerate(side.values):
        first = place.offsets[a]
        out[:n, first : first + U.shape[1]] = U[order]
        norm, tangent = place.norms[a], place.tangents[a]
        if norm is not None:
            # Of the features as rounded, so that a point has distance zero from itself.
            rounded = out[:n, first : first + U.shape[1]].astype(np.float64, copy=False)
            out[:n, norm] = np.einsum("ik,ik->i", rounded, rounded)
        slopes = side.tangents[a]
        if tangent is not None and slopes is not None:
            out[:n, tangent : tangent + U.shape[1]] = slopes[order]
    out[n:] = out[n - 1]
    return out


def tiles(A: Array, tile: int) -> Array:
    """Return rows as tiles of columns, flat: for each tile feature by feature. Rows are a multiple of the tile."""
    held = np.empty(A.size + CACHE_LINE // A.itemsize, A.dtype)
    # Tiles begin with a cache line: a vector that lies in two takes twice as long to load.
    first = -held.ctypes.data % CACHE_LINE // A.itemsize
    out = held[first : first + A.size]
    out.reshape(len(A) // tile, A.shape[1], tile)[...] = A.reshape(len(A) // tile, tile, A.shape[1]).transpose(0, 2, 1)
    return out


def padded(V: Array, n: int, dtype: str, scale: Array | float = 1.0) -> Array:
    """Return V, its columns scaled, with zero rows up to n, in the loop's type."""
    out = np.zeros((n, V.shape[1]), dtype)
    np.multiply(V, scale, out=out[: len(V)], casting="same_kind")
    return out
