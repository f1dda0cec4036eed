"""Sparse approximations as values: what stands for K, and what of the rest of K stays in the likelihood.

With Q = K_NM K_MM⁻¹ K_MN, D the noise and A = Q + Λ:

    SoR    Λ = D                       and Q for K at new points too: variances fall to zero far from Z
    DTC    Λ = D                       K at new points
    FITC   Λ = D + diag(K - Q)
    PITC   Λ = D + blockdiag(K - Q)
    VFE    Λ = D                       log N(y; 0, A) - ½ tr D⁻¹(K - Q), a lower bound on the log likelihood

The first four as in [Quinonero05], the bound of [Titsias09].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog.inference.model import Model, Targets
from precog.kernels import Kernel
from precog.kernels.statistics import Array, Index
from precog.operators import Gram
from precog.operators.blockwise import take
from precog.sparse.gather import LARGEST, Gatherer, Normal, Orthogonal, Solved
from precog.sparse.inducing import JITTER, Inducing, Whitened, residual, stripes, whitened
from precog.sparse.parts import Block, Diagonal, Part

MAX_MEMORY = 1e9
LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Approximation:
    """keeps: what of K - Q stays in Λ, "nothing", "diagonal" or "blocks". bound: whether its trace is taken off.

    degenerate: whether Q stands for K at new points too.
    """

    name: str
    keeps: str = "nothing"
    bound: bool = False
    degenerate: bool = False


SOR = Approximation("sor", degenerate=True)
DTC = Approximation("dtc")
FITC = Approximation("fitc", keeps="diagonal")
PITC = Approximation("pitc", keeps="blocks")
VFE = Approximation("vfe", bound=True)
APPROXIMATIONS = {how.name: how for how in (SOR, DTC, FITC, PITC, VFE)}


def positive_noise(model: Model, targets: Targets) -> Array:
    """Return the diagonal of D, (n,), or say that there is none."""
    noise = np.broadcast_to(np.asarray(targets.noise(model), dtype=np.float64), targets.n)
    if not (noise > 0).all():
        raise ValueError("sparse approximations need positive noise on every row; give some, such as 1e-6")
    return noise


@dataclass(frozen=True, eq=False)
class Blocked:
    """Data in the order of its blocks, which are then slices."""

    targets: Targets
    inducing: Inducing
    slices: list[slice]

    @staticmethod
    def of(targets: Targets, inducing: Inducing, blocks: list[Index] | None) -> Blocked:
        """Return the data as they are, in stripes, or with the rows of each block beside each other."""
        if blocks is None:
            return Blocked(targets, inducing, stripes(targets.n, inducing.m))
        order, edges = np.concatenate(blocks), np.cumsum([0, *map(len, blocks)])
        if not np.array_equal(np.sort(order), np.arange(targets.n)):
            raise ValueError(f"blocks must hold each of the {targets.n} rows once")
        rows = None if inducing.rows is None else np.argsort(order)[inducing.rows]
        slices = [slice(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
        return Blocked(targets.take(order), Inducing(inducing.Z, rows), slices)


class System:
    """Q + Λ of a model, data and inducing inputs, a stripe at a time."""

    def __init__(
        self,
        how: Approximation,
        model: Model,
        targets: Targets,
        inducing: Inducing,
        *,
        blocks: list[Index] | None = None,
        jitter: float = JITTER,
        max_memory: float = MAX_MEMORY,
    ) -> None:
        if how.keeps == "blocks" and blocks is None:
            raise ValueError(f"{how.name} needs blocks: a list with the rows of each")
        data = Blocked.of(targets, inducing, blocks if how.keeps == "blocks" else None)
        self.how, self.model, self.jitter = how, model, jitter
        self.targets, self.inducing = data.targets, data.inducing
        self.noise = positive_noise(model, self.targets)
        self.F = Whitened(model.kernel, self.targets.X, data.inducing, data.slices, jitter, max_memory)
        self.solved, self.logdet, self.trace = self._solve()

    def part(self, rows: slice, F: Array) -> Part:
        """Return Λ of some rows."""
        if self.how.keeps == "nothing":
            return Diagonal(self.noise[rows])
        left = self.F.left(rows, F)
        if self.how.keeps == "diagonal":
            return Diagonal(self.noise[rows] + left)
        K = np.array(Gram(self.model.kernel, take(self.targets.X, rows)).dense(), dtype=np.float64)
        K -= F.T @ F
        np.fill_diagonal(K, left + self.noise[rows])
        return Block.of(K)

    def _solve(self) -> tuple[Solved, float, float]:
        """Return the least squares, log|Λ| and tr D⁻¹(K - Q), with all the digits that they need."""
        kinds: tuple[type[Normal] | type[Orthogonal], ...] = (Normal, Orthogonal)
        for kind in kinds:
            gatherer: Gatherer = kind(self.inducing.m, self.targets.Y.shape[1])
            logdet, trace = self._gather(gatherer)
            solved = gatherer.solved()
            if solved.size <= LARGEST:
                break
        return solved, logdet, trace

    def _gather(self, gatherer: Gatherer) -> tuple[float, float]:
        logdet = trace = 0.0
        for rows, F in self.F:
            part = self.part(rows, F)
            gatherer.add(F, self.targets.Y[rows].T, part)
            logdet += part.logdet()
            if self.how.bound:
                trace += float((self.F.left(rows, F) / self.noise[rows]).sum())
        return logdet, trace

    def value(self) -> float:
        """Return log N(Y; 0, Q + Λ), or the bound."""
        n, outputs = self.targets.Y.shape
        logdet = self.logdet + self.solved.logdet() + n * LOG_2PI
        extra, _ = self.targets.repeats(self.model)
        return -0.5 * (outputs * (logdet + self.trace) + float(self.solved.rest.sum())) + extra

    def posterior(self) -> Posterior:
        """Return what is known of f after the data; it keeps the inducing inputs and nothing of the others."""
        inducing = Inducing(self.inducing.Z)
        return Posterior(self.how, self.model.kernel, inducing, self.F.L, self.solved.R, self.solved.W)


@dataclass(frozen=True, eq=False)
class Posterior:
    """mean(z) = f'W and var(z) = k(z, z) - f'f + |R⁻ᵀf|² with f = L⁻¹k(Z, z): two terms, neither ever negative."""

    how: Approximation
    kernel: Kernel
    inducing: Inducing
    L: Array
    R: Array
    W: Array

    def mean(self, X: Any) -> Array:
        """Return the mean at new inputs, (n, p)."""
        gram = self._gram(X)
        return np.concatenate([self._features(gram, rows).T @ self.W for rows in self._stripes(gram)])

    def variance(self, X: Any) -> Array:
        """Return the variance of f at new inputs, (n,)."""
        gram, diag = self._gram(X), self.kernel.diag(X)
        parts = []
        for rows in self._stripes(gram):
            F = self._features(gram, rows)
            H = scipy.linalg.solve_triangular(self.R, F, trans=1, check_finite=False)
            kept = np.einsum("mi,mi->i", H, H)
            if not self.how.degenerate:
                kept += residual(self.kernel, diag[rows], np.einsum("mi,mi->i", F, F), float(diag.max()))
            parts.append(kept)
        return np.concatenate(parts)

    def covariance(self, X: Any) -> Array:
        """Return the covariance of f at new inputs, (n, n)."""
        gram = self._gram(X)
        F = self._features(gram, slice(0, gram.shape[0]))
        H = scipy.linalg.solve_triangular(self.R, F, trans=1, check_finite=False)
        out: Array = H.T @ H
        if not self.how.degenerate:
            K = np.asarray(Gram(self.kernel, X).dense(), dtype=np.float64) - F.T @ F
            np.fill_diagonal(K, np.maximum(np.diagonal(K), 0.0))
            out += 0.5 * (K + K.T)
        return out

    def _gram(self, X: Any) -> Gram:
        return Gram(self.kernel, X, self.inducing.Z)

    def _stripes(self, gram: Gram) -> list[slice]:
        return stripes(gram.shape[0], self.inducing.m)

    def _features(self, gram: Gram, rows: slice) -> Array:
        return whitened(self.L, self.inducing.cross(gram, rows))
