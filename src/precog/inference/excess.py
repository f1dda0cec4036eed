"""Negative curvature: W = S S' - V V' where log p is not concave, V a scaled column of I for each such observation.

With M = K⁻¹ + S S', whose inverse is K - K S B⁻¹ S'K, and C = I - V'M⁻¹V,

    |I + K W|       = |B| |C|
    (K⁻¹ + W)⁻¹     = M⁻¹ + M⁻¹V C⁻¹ V'M⁻¹
    (K + W⁻¹)⁻¹     = S B⁻¹ S' - Q C⁻¹ Q',   Q = V - S T,   T = B⁻¹ S'K V,   K Q = M⁻¹V
    (I + W K)⁻¹u    = u - S B⁻¹ S'K u + Q C⁻¹ (K Q)'u

C is positive definite exactly where f is a mode. Where it is not, K Q z leads uphill for its lowest eigenvector z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from precog.inference.laplace import MAX_ITER, TOLERANCE, Mode, Point, System, evaluator, mode
from precog.inference.latent import LatentModel, Observed
from precog.kernels.statistics import Array, Index
from precog.likelihoods import Root

# Columns that are solved for at a time, and arrays of all of them that are held.
COLUMNS, HELD = 64, 4
# Eigenvalues of C below are a saddle as far as can be computed.
SADDLE = 1e-10
# Where steps that leave negative curvature out end, in nats.
ROUGH = 1e-2
# Ways on from where Newton's steps ended, and halvings of each.
ATTEMPTS, SHORTER = 12, 30


@dataclass(frozen=True, eq=False)
class Excess:
    """V (rows and their scales), Q, K Q, T, and the Cholesky factor of C, lower."""

    rows: Index
    scale: Array
    T: Array
    Q: Array
    KQ: Array
    factor: Array

    def logdet(self) -> float:
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())

    def solve(self, Z: Array) -> Array:
        """Return C⁻¹Z."""
        X: Array = scipy.linalg.cho_solve((self.factor, True), Z, check_finite=False)
        return X

    def half(self, Z: Array) -> Array:
        """Return L⁻¹Z for C = L L'."""
        X: Array = scipy.linalg.solve_triangular(self.factor, Z, lower=True, check_finite=False)
        return X

    def variances(self) -> Array:
        """Return the diagonal of M⁻¹V C⁻¹ V'M⁻¹."""
        H = self.half(self.KQ.T)
        return np.einsum("ij,ij->j", H, H)

    def pulled(self, U: Array) -> Array:
        """Return Q C⁻¹ (K Q)'U."""
        out: Array = self.Q @ self.solve(self.KQ.T @ U)
        return out

    def explained(self, C: Array, scaled: Array) -> Array:
        """Return what V adds to variances at new rows: |L⁻¹ V'(c - K S B⁻¹ S'c)|² for columns c, scaled = S'c."""
        H = self.half(self.scale[:, None] * C[self.rows] - self.T.T @ scaled)
        return np.einsum("ij,ij->j", H, H)


@dataclass(frozen=True, eq=False)
class Uphill:
    """A direction in which a stationary point that is no mode falls away on both sides: steps in a and in g."""

    a: Array
    g: Array


def excess(
    system: System, B: Any, root: Root, values: Array | None, rtol: float, max_memory: float
) -> Excess | Uphill | None:
    """Return what negative curvature changes, a way uphill where f is no mode, or None where there is none of it."""
    rows = np.flatnonzero(values) if values is not None else np.zeros(0, np.intp)
    if values is None or not len(rows):
        return None
    n, m = len(values), len(rows)
    needed = 8.0 * n * m * HELD
    if needed > max_memory:
        raise MemoryError(
            f"{m} of {n} observations are outliers with negative curvature, whose exact treatment takes "
            f'{needed / 1e9:.1f} GB; max_memory allows {max_memory / 1e9:.1f}. Use StudentT(curvature="expected"), or '
            "raise max_memory"
        )
    scale = np.sqrt(values[rows])
    T, Q, KQ, SKV = np.empty((n, m)), np.zeros((n, m)), np.empty((n, m)), np.empty((n, m))
    C = np.eye(m)
    for start in range(0, m, COLUMNS):
        some = slice(start, min(start + COLUMNS, m))
        V = np.zeros((n, some.stop - some.start))
        V[rows[some], np.arange(V.shape[1])] = scale[some]
        KV = system.multiply(V)
        SKV[:, some] = root.transposed(KV)
        T[:, some] = B.solve(SKV[:, some], rtol)
        ST = root.apply(T[:, some])
        Q[:, some] = V - ST
        KQ[:, some] = KV - system.multiply(ST)
        C[:, some] -= scale[:, None] * KV[rows]
    C += SKV.T @ T
    values_of_C, vectors = scipy.linalg.eigh(0.5 * (C + C.T))
    if values_of_C[0] <= SADDLE:
        z = vectors[:, 0]
        return Uphill(Q @ z, KQ @ z)
    return Excess(rows, scale, T, Q, KQ, scipy.linalg.cholesky(0.5 * (C + C.T), lower=True))


def settled(
    system: System,
    model: LatentModel,
    observed: Observed,
    start: Array | None = None,
    *,
    tolerance: float = TOLERANCE,
    rtol: float = 1e-8,
    max_iter: int = MAX_ITER,
    max_memory: float = np.inf,
) -> tuple[Mode, Any, Excess | None]:
    """Return the mode, B there, and what negative curvature changes.

    Where there is some, steps that leave it out converge slowly: they end early, and what is left is done by steps with
    all of W, each as dear as the answer. Saddle points are left in a direction that rises.
    """
    evaluate, taken = evaluator(model, observed), 0

    def search(tolerance: float) -> Mode:
        nonlocal taken
        found = mode(
            system,
            evaluate,
            observed.n * observed.copies,
            start,
            tolerance=tolerance,
            max_iter=max(max_iter - taken, 1),
        )
        taken += found.steps
        return replace(found, steps=taken)

    for _ in range(ATTEMPTS):
        found = search(tolerance if model.likelihood.concave else max(ROUGH, tolerance))
        negative = found.local.excess is not None and found.local.excess.any()
        if not negative and found.converged and 0.5 * found.decrement > tolerance:
            start = found.a
            found = search(tolerance)
        root = found.local.root
        B = system.at(root)
        more = excess(system, B, root, found.local.excess, rtol, max_memory)
        if more is None:
            return found, B, None
        if isinstance(more, Uphill):
            start = _better(evaluate, found, more.a, more.g, both=True)
        else:
            r = (found.local.slope - found.a)[:, None]
            step = solve_transposed(system, B, root, more, r, rtol)
            moved = system.multiply(step)
            if 0.5 * float(np.vdot(r, moved)) <= tolerance:
                return found, B, more
            start = _better(evaluate, found, step[:, 0], moved[:, 0], both=False)
        if start is None:
            break
    if isinstance(more, Excess):
        return found, B, more
    raise ArithmeticError(
        "no mode of the latent values was found, only saddle points: use a likelihood with lighter tails or a larger "
        'scale, or StudentT(curvature="expected")'
    )


def solve_transposed(system: System, B: Any, root: Root, more: Excess | None, U: Array, rtol: float) -> Array:
    """Return (I + W K)⁻¹U."""
    out: Array = U - root.apply(B.solve(root.transposed(system.multiply(U)), rtol))
    return out if more is None else out + more.pulled(U)


def _better(evaluate: Any, found: Mode, a: Array, g: Array, *, both: bool) -> Array | None:
    """Return an a that is better than the one that was found, along a direction, or against it too if `both`."""
    step = 1.0 / max(float(np.abs(g).max()), 1e-300) if both else 1.0
    for _ in range(SHORTER):
        ends = [Point(evaluate, found.a + t * a, found.g + t * g) for t in ((step, -step) if both else (step,))]
        best = max(ends, key=lambda point: point.value)
        if best.value > found.value:
            return best.a
        step *= 0.5
    return None
