"""Sets of rows that a preconditioner couples fully: leaves of a k-d tree, clusters, or runs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.kernels.statistics import Array, Index
from precog.precond.base import Problem


def tree(U: Array, leaf: int) -> list[Index]:
    """Return the leaves of a k-d tree: rows are split at the median of their widest variance until `leaf` are left."""
    leaves, stack = [], [np.arange(len(U))]
    while stack:
        rows = stack.pop()
        if len(rows) <= leaf:
            leaves.append(rows)
            continue
        axis = int(U[rows].var(axis=0).argmax())
        order = rows[np.argsort(U[rows, axis], kind="stable")]
        half = len(order) // 2
        stack += [order[half:], order[:half]]
    return leaves


def rows_of(problem: Problem, blocks: Any, count: int, rng: np.random.Generator) -> list[Index]:
    """Return about `count` sets of rows: "tree", "clusters" or "contiguous", or those of given labels (n,)."""
    n = problem.n
    if not isinstance(blocks, str):
        labels = np.asarray(blocks)
        if labels.shape != (n,) or labels.dtype.kind not in "iu":
            raise ValueError(f"blocks must be a name or whole numbers of shape ({n},), got shape {labels.shape}")
        order = np.argsort(labels, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    if blocks == "contiguous":
        return [rows for rows in np.array_split(np.arange(n), count) if len(rows)]
    leaf = -(-n // count)
    if blocks == "tree":
        return tree(problem.places(), leaf)
    if blocks == "clusters":
        return _clusters(problem.places(), count, leaf, rng)
    raise ValueError(f'blocks must be "tree", "clusters", "contiguous" or labels of shape ({n},), got {blocks!r}')


def _clusters(U: Array, count: int, leaf: int, rng: np.random.Generator) -> list[Index]:
    """Return clusters around k-means centres; those much larger than the average are split."""
    from sklearn.cluster import MiniBatchKMeans

    seed = int(rng.integers(2**31))
    labels = MiniBatchKMeans(min(count, len(U)), random_state=seed, n_init=1).fit_predict(U)
    clusters = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return [rows[some] for rows in clusters for some in tree(U[rows], 3 * leaf)]
