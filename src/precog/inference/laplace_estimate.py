"""Laplace's approximation from solves alone: value and gradient, unbiased, with standard errors [Cutajar16 eq. 9, 13].

With probes E zz' = P (the identity for random signs), v = B⁻¹z and u = P⁻¹z, so that E v u' = B⁻¹, the three terms of
`laplace_exact` are

    ½ a'∂K a                                      from a alone
    -½ tr(S B⁻¹S' ∂K) = -½ E (S u)'∂K (S v)
    s'∂K a,  s = (I + W K)⁻¹u(h)                  u is linear in h = diag(S'ΣS) = 1 - E v ∘ u, and s in u

Everything is linear in what the probes estimate, so all of it is unbiased given the mode. Groups of probes have an s of
their own each, a column of one more solve; what they differ by gives the standard error of the sum of both terms,
correlations included. The control variates of regression serve here too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from precog.inference.estimate import SINGLE_ROWS, Probing, controlled
from precog.inference.excess import Excess, settled, solve_transposed
from precog.inference.laplace import Mode, Solving
from precog.inference.laplace_exact import likelihood_slopes
from precog.inference.latent import LatentModel, Observed
from precog.kernels.statistics import Array
from precog.likelihoods import Root
from precog.operators import Gram
from precog.precond import Preconditioner
from precog.solvers import PCG, Solution
from precog.solvers.logdet import log_mean


@dataclass(frozen=True, eq=False)
class LaplaceEstimate:
    """Value and gradient with their errors, and the mode that they belong to; covariance: of the gradient's error."""

    value: float
    value_se: float
    gradient: Array
    covariance: Array
    mode: Mode
    B: Any
    excess: Excess | None
    probes: Probes

    @property
    def gradient_se(self) -> Array:
        return np.sqrt(np.diagonal(self.covariance))


@dataclass(frozen=True, eq=False)
class Slopes:
    """Sums over ∂K/∂θ of rows with several values each, in float32 where there are many rows."""

    gram: Gram

    @staticmethod
    def of(gram: Gram) -> Slopes:
        return Slopes(gram.astype("float32") if gram.shape[0] >= SINGLE_ROWS else gram)

    def sums(self, V: Array, U: Array) -> Array:
        """Return Σᵢⱼ (V U')ᵢⱼ ∂(K ⊗ I)ᵢⱼ/∂θ."""
        n = self.gram.shape[0]
        return self.gram.grad(V.reshape(n, -1), U.reshape(n, -1))

    def grouped(self, V: Array, U: Array, groups: int) -> Array:
        """Return the mean over the columns of each group, (groups, q)."""
        parts = np.array_split(np.arange(V.shape[1]), groups)
        return np.array([self.sums(V[:, some], U[:, some]) / len(some) for some in parts])


@dataclass(frozen=True, eq=False)
class Probes:
    """z, v = B⁻¹z and u = P⁻¹z (z itself for random signs), (N, probes), and the solve that they came from.

    drawn: whether from N(0, P), not as signs.
    """

    Z: Array
    V: Array
    U: Array
    solution: Solution
    drawn: bool

    def inverse_diagonal(self, P: Preconditioner | None, groups: int) -> Array:
        """Return diag(B⁻¹) as every group estimates it, (N, groups).

        As E u ∘ u = diag(P⁻¹), which many preconditioners tell, only v - u needs to be estimated. For z from N(0, P)
        that took the standard error of the whole gradient from 2.4 to 0.6 (300 labels, rank 60, eight probes).
        """
        known = getattr(P, "inverse_diagonal", None) if self.drawn else None
        V = self.V if known is None else self.V - self.U
        parts = np.array_split(np.arange(self.Z.shape[1]), groups)
        out = np.stack([(V[:, some] * self.U[:, some]).mean(axis=1) for some in parts], axis=1)
        return out if known is None else out + known()[:, None]


def drawn(
    P: Preconditioner | None, N: int, count: int, rng: np.random.Generator, *, signs: bool
) -> tuple[Array, Array]:
    """Return z with E zz' = P, scaled to z'P⁻¹z = N, and P⁻¹z; signs and signs where they are asked for."""
    if signs or P is None:
        Z = np.sign(rng.standard_normal((N, count)))
        return Z, Z
    Z = P.sample(rng, count)
    U = P.solve(Z)
    scale = np.sqrt(N / np.einsum("ij,ij->j", Z, U))
    return Z * scale, U * scale


def estimate(
    model: LatentModel,
    observed: Observed,
    system: Solving,
    *,
    rtol: float,
    probing: Probing,
    rng: np.random.Generator,
    start: Array | None = None,
    tolerance: float,
    gradient: bool = True,
) -> LaplaceEstimate:
    """Return the estimate at the model's hyperparameters, to which the system's K belongs.

    start: a from hyperparameters nearby. rtol: of the solves for probes and for s. tolerance: of the mode, in nats.
    """
    found, B, more = settled(
        system, model, observed, start, tolerance=tolerance, rtol=rtol, max_memory=system.max_memory
    )
    Z, U = drawn(B.precond, len(found.a), probing.probes, rng, signs=probing.signs)
    solution = PCG(rtol=rtol, max_iter=system.max_iter).solve(B.A, Z, precond=B.precond)
    system.note(solution)
    probes = Probes(Z, solution.x, U, solution, B.precond is not None and not probing.signs)
    value, value_se = _value(found, B, more, probes)
    point = LaplaceEstimate(value, value_se, np.zeros(0), np.zeros((0, 0)), found, B, more, probes)
    if not gradient:
        return point
    slopes = Slopes.of(observed.gram(model, threads=getattr(system.K, "threads", None)))
    fixed = quadratic_term(slopes, found, more)
    each = trace_term(slopes, found.local.root, probes, probing.groups)
    implicit, own = implicit_term(model, observed, system, slopes, point, probing.groups, rtol)
    mean, covariance = _averaged(slopes, point, np.hstack([each + implicit, own]), probing, rng)
    mean[: len(fixed)] += fixed
    return replace(point, gradient=mean, covariance=covariance)


def quadratic_term(slopes: Slopes, found: Mode, more: Excess | None) -> Array:
    """Return ½ a'∂K a, and what negative curvature adds to the trace: ½ tr(Q C⁻¹Q' ∂K)."""
    a = found.a[:, None]
    out = 0.5 * slopes.sums(a, a)
    return out if more is None else out + 0.5 * slopes.sums(more.solve(more.Q.T).T, more.Q)


def trace_term(slopes: Slopes, root: Root, probes: Probes, groups: int) -> Array:
    """Return -½ tr(S B⁻¹S' ∂K) as every group of probes estimates it, (groups, q)."""
    return -0.5 * slopes.grouped(root.apply(probes.V), root.apply(probes.U), groups)


def implicit_term(
    model: LatentModel,
    observed: Observed,
    system: Solving,
    slopes: Slopes,
    point: LaplaceEstimate,
    groups: int,
    rtol: float,
) -> tuple[Array, Array]:
    """Return s'∂K a as every group estimates it, and the derivatives in the likelihood's hyperparameters."""
    found, B, more = point.mode, point.B, point.excess
    root = found.local.root
    h = 1.0 - point.probes.inverse_diagonal(B.precond, groups)
    if more is not None:
        h += (root.scale**2 * more.variances())[:, None]
    s = solve_transposed(system, B, root, more, root.pull(h, found.local.bend), rtol)
    a = found.a[:, None]
    through = np.array([slopes.sums(s[:, k : k + 1], a) for k in range(groups)])
    if not len(model.likelihood.theta):
        return through, np.zeros((groups, 0))
    moved = system.multiply(s)
    own = [likelihood_slopes(model, observed, found, h[:, k], moved[:, k]) for k in range(groups)]
    return through, np.array(own)


def _averaged(
    slopes: Slopes, point: LaplaceEstimate, total: Array, probing: Probing, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the mean of the groups and the covariance of its error, with a control variate if one was asked for."""
    groups, width = total.shape
    probes, root = point.probes, point.mode.local.root
    if not probes.drawn or not probing.control:
        return total.mean(axis=0), np.cov(total.T, ddof=1).reshape(width, -1) / groups
    cheap = drawn(point.B.precond, len(probes.Z), probing.control, rng, signs=False)[1]
    controls = []
    for U in (probes.U, cheap):
        own = -0.5 * slopes.grouped(root.apply(U), root.apply(U), groups)
        controls.append(np.hstack([own, np.zeros((groups, width - own.shape[1]))]))
    return controlled(total, *controls)


def _value(found: Mode, B: Any, more: Excess | None, probes: Probes) -> tuple[float, float]:
    """Return ψ - ½ log|B| - ½ log|C| by Lanczos quadrature, and the standard error."""
    if B.precond is not None and not probes.drawn:
        return np.nan, np.nan
    N, count = probes.Z.shape
    each = np.array([N * log_mean(*probes.solution.lanczos.quadrature(q)) for q in range(count)])
    logdet = float(each.mean()) + (0.0 if B.precond is None else B.precond.logdet())
    error = 0.5 * float(each.std(ddof=1)) / np.sqrt(count)
    return found.value - 0.5 * (logdet + (0.0 if more is None else more.logdet())), error
