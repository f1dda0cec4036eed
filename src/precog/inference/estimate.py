"""The log marginal likelihood and its gradient from solves alone, unbiased and with standard errors.

With probes E zz' = P, solves v = A⁻¹z and u = P⁻¹z (P = I for random signs, [Cutajar16 eq. 2]),

    tr(A⁻¹ ∂A) = E u'∂A v                              whatever P is
    log|A|     = log|P| + E quadrature of log on the Lanczos matrix of P⁻¹A that the solve leaves behind

so one block of solves gives α = A⁻¹(Y - HB), the gradient and the value. Y's columns may start from an earlier answer;
probes start from zero, or their Lanczos matrices would belong to something else.

A control variate takes out most of what is left of the variance when P is near A: c = u'∂A u has the expectation
tr(P⁻¹∂A), which further probes estimate without solves. Its coefficient is regressed, for each group of probes on the
others, so that the estimate stays unbiased; with coefficient one it would be worse than nothing for a weak P.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog.inference.marginal import LOG_2PI, removed
from precog.inference.model import Model, Targets
from precog.kernels.statistics import Array
from precog.operators import Gram, Noisy
from precog.precond import Preconditioner
from precog.solvers import PCG, Solution, Status
from precog.solvers.logdet import log_mean

# Rows from which derivatives are summed up in float32: their error, 1e-5 of the terms, is far below the probes'.
SINGLE_ROWS = 4096


@dataclass(frozen=True)
class Probing:
    """How traces are estimated.

    probes: solved columns, in `groups` passes over the derivatives, whose spread gives the standard error.
    signs: random signs instead of draws from N(0, P); the value is then estimated only without a preconditioner.
    control: further probes without solves for the control variate; 0 leaves it out.
    """

    probes: int = 8
    groups: int = 4
    signs: bool = False
    control: int = 0


@dataclass(frozen=True, eq=False)
class Estimate:
    """Value and gradient with their standard errors, α and B for predictions, and the solve that they came from.

    covariance: of the gradient's error, (q, q). alpha, mean: as in `Marginal`. solved: A⁻¹[Y, H], to start from.
    """

    value: float
    value_se: float
    gradient: Array
    covariance: Array
    alpha: Array
    mean: Array
    solved: Array
    solution: Solution

    @property
    def gradient_se(self) -> Array:
        return np.sqrt(np.diagonal(self.covariance))


def estimate(
    model: Model,
    targets: Targets,
    A: Noisy,
    precond: Preconditioner | None,
    *,
    solver: PCG,
    probing: Probing,
    rng: np.random.Generator,
    start: Array | None = None,
    callback: Callable[[int, Array], None] | None = None,
) -> Estimate:
    """Return the estimate at the model's hyperparameters; A = K + D and P belong to them.

    start: A⁻¹[Y, H] from hyperparameters nearby.
    """
    fixed = np.hstack([targets.Y, targets.H])
    Z = _probes(precond, A, probing, rng)
    x0 = None if start is None else np.hstack([start, np.zeros_like(Z)])
    solution = solver.solve(A, np.hstack([fixed, Z]), precond=precond, x0=x0, callback=callback)
    if solution.status not in (Status.CONVERGED, Status.MAX_ITER, Status.STAGNATED):
        solution.raise_if_failed()
    solved, V = solution.x[:, : fixed.shape[1]], solution.x[:, fixed.shape[1] :]
    outputs = targets.Y.shape[1]
    alpha, mean = removed(targets.H, solved[:, :outputs], solved[:, outputs:])
    terms = Derivatives(model, targets, A)
    traces, covariance = _traces(terms, precond, Z, V, probing, rng)
    gradient = 0.5 * (terms.sums(alpha, alpha) - outputs * traces)
    extra, slope = targets.repeats(model)
    if model.noise_bounds is not None:
        gradient[-1] += slope
    value, value_se = _value(targets, A, alpha, mean, precond, solution, probing)
    return Estimate(value + extra, value_se, gradient, 0.25 * outputs**2 * covariance, alpha, mean, solved, solution)


class Derivatives:
    """Sums over ∂A/∂θ: those over ∂K in one pass over its entries, that over ∂D in closed form."""

    def __init__(self, model: Model, targets: Targets, A: Noisy) -> None:
        gram: Any = A.K
        self.gram: Gram = gram.astype("float32") if A.shape[0] >= SINGLE_ROWS else gram
        self.slope = None if model.noise_bounds is None else targets.noise_slope(model)

    def sums(self, V: Array, U: Array) -> Array:
        """Return Σᵢⱼ (V U')ᵢⱼ ∂Aᵢⱼ/∂θ."""
        out = self.gram.grad(V, U)
        return out if self.slope is None else np.append(out, np.einsum("i,ij,ij->", self.slope, V, U))

    def grouped(self, V: Array, U: Array, groups: int) -> Array:
        """Return the mean over the columns of each group, (groups, q)."""
        parts = np.array_split(np.arange(V.shape[1]), groups)
        return np.array([self.sums(V[:, some], U[:, some]) / len(some) for some in parts])


def _probes(precond: Preconditioner | None, A: Noisy, probing: Probing, rng: np.random.Generator) -> Array:
    if probing.signs or precond is None:
        return np.sign(rng.standard_normal((A.shape[0], probing.probes)))
    return _drawn(precond, rng, probing.probes)[0]


def _drawn(precond: Preconditioner, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Return z ~ N(0, P), scaled to z'P⁻¹z = n, and P⁻¹z.

    The length of a normal vector is independent of its direction, so fixing it at its mean leaves everything unbiased
    and takes out its spread: three quarters of the standard error in the direction of the noise, at n = 4,000.
    """
    Z = precond.sample(rng, count)
    U = precond.solve(Z)
    scale = np.sqrt(len(Z) / np.einsum("ij,ij->j", Z, U))
    return Z * scale, U * scale


def _traces(
    terms: Derivatives, precond: Preconditioner | None, Z: Array, V: Array, probing: Probing, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return tr(A⁻¹ ∂A) for every entry of theta, and the covariance of its error."""
    drawn = precond is not None and not probing.signs
    U = precond.solve(Z) if precond is not None and drawn else Z
    e = terms.grouped(V, U, probing.groups)
    if precond is None or not drawn or not probing.control:
        return e.mean(axis=0), np.cov(e.T, ddof=1).reshape(e.shape[1], -1) / probing.groups
    cheap = _drawn(precond, rng, probing.control)[1]
    return controlled(e, terms.grouped(U, U, probing.groups), terms.grouped(cheap, cheap, probing.groups))


def controlled(e: Array, c: Array, cheap: Array) -> tuple[Array, Array]:
    """Return the mean of e - b (c - E c) with E c from `cheap`, and its covariance; all arguments (groups, q).

    b of a group, one for each entry, is regressed on the other groups and clipped to [0, 1].
    """
    groups = len(e)
    b = np.array([_slope(np.delete(e, g, axis=0), np.delete(c, g, axis=0)) for g in range(groups)])
    mean = cheap.mean(axis=0)
    each = e - b * (c - mean)
    # The mean of the cheap probes is common to all groups and multiplied by the mean of b.
    shared = np.cov(cheap.T, ddof=1).reshape(e.shape[1], -1) / len(cheap)
    common = b.mean(axis=0)
    own = np.cov((e - b * (c - c.mean(axis=0))).T, ddof=1).reshape(e.shape[1], -1) / groups
    return each.mean(axis=0), own + common[:, None] * shared * common


def _slope(e: Array, c: Array) -> Array:
    de, dc = e - e.mean(axis=0), c - c.mean(axis=0)
    spread = (dc * dc).sum(axis=0)
    return np.clip((de * dc).sum(axis=0) / np.where(spread > 0, spread, np.inf), 0.0, 1.0)


def _value(
    targets: Targets,
    A: Noisy,
    alpha: Array,
    mean: Array,
    precond: Preconditioner | None,
    solution: Solution,
    probing: Probing,
) -> tuple[float, float]:
    """Return the value without `repeats`, and the standard error of its log-determinant.

    The quadratic form is r'α + α'(r - Aα): too small by the square of the residual only.
    """
    n, outputs = targets.Y.shape
    R = targets.Y - targets.H @ mean
    fit = -0.5 * float(np.vdot(R, alpha) + np.vdot(alpha, R - A @ alpha))
    if probing.signs and precond is not None:
        return np.nan, np.nan
    first = outputs + targets.H.shape[1]
    each = np.array([n * log_mean(*solution.lanczos.quadrature(first + q)) for q in range(probing.probes)])
    logdet = float(each.mean()) + (0.0 if precond is None else precond.logdet())
    error = 0.5 * outputs * float(each.std(ddof=1)) / np.sqrt(probing.probes)
    return fit - 0.5 * outputs * (logdet + n * LOG_2PI), error
