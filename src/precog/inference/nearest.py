"""Quadratic forms c'A⁻¹c from the rows that matter most to c, without a solve.

For any subset S of the rows, c_S'(A_SS)⁻¹c_S is at most c'A⁻¹c: a variance given some of the data is never below that
given all. S holds the rows of the largest |cᵢ| / √Aᵢᵢ. How much longer variances are for it is measured on points
between neighbouring rows whose variances are solved for, and S is as large as that asks for. For smooth kernels, whose
variances are small differences between many rows, no S is large enough, and there are only solves.

With the most correlated rows first and A_SS = L L', w = L⁻¹c_S, the form of the first j rows is q_j = Σ_{i≤j} wᵢ². A
point in an unusual place shows in how q has risen: the last doubling of S added r, the one before it ρ r, so further
ones add about r / (ρ - 1).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg

from precog.inference.marginal import blas_for
from precog.kernels.statistics import Array, Index
from precog.operators import Gram, Noisy
from precog.operators.schedule import available_threads
from precog.precond.base import problem

# Rows of S that are tried: 1,024 take 10 to 20 ms and 25 MB for each form.
SIZES = (128, 256, 512, 1024)
# How much longer a variance may be than that given all rows, in nine of ten points that are solved for.
SHARE, QUANTILE, POINTS = 0.05, 0.9, 32
# Bounds of ρ: a smaller one promises that rows without end would be missing, a larger one is an accident.
SLOWEST, FASTEST = 1.1, 6.0
# Neighbours between which points are drawn.
NEIGHBOURS = 8
# A variance is never taken to be below this share of the prior's.
TINY = 1e-12
# Added to the diagonal where rounding leaves A_SS without a factor, relative to its largest entry.
JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)


class Nearest:
    """Quadratic forms of A = K + D from `size` rows each.

    share: how much longer they make variances. usual: the largest share that the rise of a form may promise beyond it;
    where it is larger the point is an unusual one.
    """

    def __init__(self, A: Noisy, size: int, share: float = 0.0, usual: float = SHARE) -> None:
        # One thread for each form, all forms at once.
        K: Any = A.K
        self.A = Noisy(Gram(K.kernel, K.X, None, "float64", 1) if isinstance(K, Gram) else K.astype("float64"), A.noise)
        self.size, self.share, self.usual = size, share, usual
        self.scale = 1.0 / np.sqrt(np.asarray(self.A.diag(), dtype=np.float64))

    def forms(self, C: Array, left: Array, without: Index | None = None) -> tuple[Array, Array]:
        """Return c'A⁻¹c for every column of C, and what may be missing of it: nan where that is not known, (p,) both.

        left: what the forms are going to be taken from. without: for each column the row that A is to be without.
        """
        absent = [None] * len(left) if without is None else list(without)
        with blas_for(1), ThreadPoolExecutor(available_threads()) as pool:
            found = np.array(list(pool.map(self._form, C.T, absent))).reshape(-1, 2)
        values = np.minimum(found[:, 0], left)
        variance, missing = left - values, found[:, 1]
        return values, np.where(missing <= self.usual * variance, np.maximum(missing, self.share * variance), np.nan)

    def _form(self, c: Array, absent: int | None) -> tuple[float, float]:
        strength = np.abs(c) * self.scale
        if absent is not None:
            strength[absent] = -1.0
        every = len(c) - (absent is not None)
        count = min(self.size, every)
        if not count:
            return 0.0, 0.0
        S = np.argpartition(-strength, count - 1)[:count] if count < len(c) else np.arange(count)
        S = S[np.argsort(-strength[S], kind="stable")]
        rises = np.cumsum(self._whitened(S, c) ** 2)
        return float(rises[-1]), 0.0 if count == every else _missing(rises)

    def _whitened(self, S: Index, c: Array) -> Array:
        """Return w = L⁻¹c_S."""
        part = np.asarray(self.A.block(S, S))
        inner, size = np.arange(len(S)), float(np.diagonal(part).max())
        for jitter in JITTERS:
            part[inner, inner] += jitter * size
            try:
                L = np.linalg.cholesky(part)
            except np.linalg.LinAlgError:
                continue
            if np.isfinite(L[-1, -1]):
                w: Array = scipy.linalg.solve_triangular(L, c[S], lower=True, check_finite=False)
                return w
        raise ArithmeticError(
            "K + noise of some rows is not positive definite as computed: raise the noise, or check that the kernel is "
            "positive definite on these inputs"
        )


def _missing(rises: Array) -> float:
    """Return what further rows would add to a form that has risen like this."""
    last = len(rises)
    quarter, half = (float(rises[last // k - 1]) if last >= k else 0.0 for k in (4, 2))
    rise, before = float(rises[-1]) - half, half - quarter
    if rise <= 0.0:
        return 0.0
    return rise / (float(np.clip(before / rise, SLOWEST, FASTEST)) - 1.0)


def points_between(A: Noisy, count: int, rng: np.random.Generator) -> Array:
    """Return points on lines between random rows and some of those near them, in random places in the middle."""
    places, X = problem(A).places(), np.asarray(problem(A).gram("nearest").X, dtype=np.float64)
    n = len(X)
    out = np.empty((count, X.shape[1]))
    for i, row in enumerate(rng.integers(n, size=count)):
        distances = ((places - places[row]) ** 2).sum(axis=1)
        near = np.argpartition(distances, min(NEIGHBOURS, n - 1))[: NEIGHBOURS + 1]
        out[i] = X[row] + rng.uniform(0.3, 0.7) * (X[rng.choice(near)] - X[row])
    return out


def calibrated(A: Noisy, C: Array, left: Array, exact: Array) -> Nearest | None:
    """Return forms from as many rows as the points need whose variances left - exact are known; None if no S does."""
    for size in SIZES:
        tried = Nearest(A, size, usual=np.inf)
        values, missing = tried.forms(C, left)
        variance = np.maximum(left - exact, TINY * left)
        share = float(np.quantile((exact - values) / variance, QUANTILE))
        if share <= SHARE:
            return Nearest(A, size, max(share, 0.0), max(float((missing / variance).max()), SHARE))
    return None
