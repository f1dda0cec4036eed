"""Laplace's approximation by dense factors: the log marginal likelihood and its gradient [Rasmussen06 ch. 3 and 5].

    log Z   = ψ - ½ log|B|                               ψ, W = S S', B at the mode, as in `laplace`
    ∂/∂θ    = ½ a'∂K a - ½ tr(R ∂K) + s'∂K a             R = (K + W⁻¹)⁻¹ = S B⁻¹ S'
    s       = (I + W K)⁻¹u,   uᵢ = -½ tr(Σ ∂W/∂fᵢ)       Σ = (K⁻¹ + W)⁻¹;  S'ΣS = I - B⁻¹

and for a hyperparameter φ of the likelihood Σ ∂l/∂φ - ½ Σ Σᵢᵢ ∂Wᵢ/∂φ + (K s)'∂l'/∂φ. It is what estimates by conjugate
gradients are measured against, and the way for small n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from precog.inference.excess import Excess, settled, solve_transposed
from precog.inference.laplace import TOLERANCE, Dense, Factor, Mode
from precog.inference.latent import LatentModel, Observed
from precog.kernels.statistics import Array
from precog.likelihoods import Diagonal, Root


@dataclass(frozen=True, eq=False)
class Laplace:
    """The approximate log marginal likelihood, its gradient in theta, and what of it predictions need."""

    value: float
    gradient: Array
    mode: Mode
    factor: Factor
    excess: Excess | None


def laplace(
    model: LatentModel,
    observed: Observed,
    *,
    gradient: bool = True,
    start: Array | None = None,
    tolerance: float = TOLERANCE,
    threads: int | None = None,
) -> Laplace:
    """Return the approximation at the model's hyperparameters; start: a from hyperparameters nearby."""
    gram = observed.gram(model, threads=threads)
    K = np.asarray(gram.dense(), dtype=np.float64)
    system = Dense(K if observed.copies == 1 else np.kron(K, np.eye(observed.copies)))
    found, B, more = settled(system, model, observed, start, tolerance=tolerance)
    value = found.value - 0.5 * (B.logdet() + (0.0 if more is None else more.logdet()))
    if not gradient:
        return Laplace(value, np.zeros(0), found, B, more)
    inverse = _inverse(B.L)
    root, h = found.local.root, 1.0 - np.diagonal(inverse)
    if more is not None:
        h = h + root.scale**2 * more.variances()
    u = root.pull(h[:, None], found.local.bend)
    s = solve_transposed(system, B, root, more, u, 0.0)
    weights = _between(root, inverse)
    if more is not None:
        H = more.half(more.Q.T)
        weights -= H.T @ H
    # ½ (a a' - R), and s a' in its symmetric form, which weighs a symmetric matrix alike.
    weights *= -0.5
    towards = 0.5 * found.a + s[:, 0]
    weights += 0.5 * np.outer(towards, found.a)
    weights += 0.5 * np.outer(found.a, towards)
    g = np.append(
        gram.grad_weighted(_summed(weights, observed.copies)),
        likelihood_slopes(model, observed, found, h, system.multiply(s)[:, 0]),
    )
    return Laplace(value, g, found, B, more)


def likelihood_slopes(model: LatentModel, observed: Observed, found: Mode, h: Array, moved: Array) -> Array:
    """Return the derivative in the likelihood's hyperparameters; h = diag(S'ΣS), moved = K s."""
    slopes = model.likelihood.local_slopes(observed.seen, found.g)
    own = slopes[:, 0].sum(axis=1) + slopes[:, 1] @ moved
    return own + np.array([found.local.root.pull(h[:, None], -w).sum() for w in slopes[:, 2]]).reshape(-1)


def _inverse(L: Array) -> Array:
    """Return B⁻¹ as a full symmetric matrix."""
    inverse, info = scipy.linalg.lapack.dpotri(L, lower=1)
    assert info == 0
    # LAPACK fills the lower triangle; the upper one is its mirror image.
    inverse += np.tril(inverse, -1).T
    # Symmetric, so the transpose of LAPACK's layout is the same matrix in rows.
    out: Array = inverse.T
    return out


def _between(root: Root, inverse: Array) -> Array:
    """Return S B⁻¹ S'."""
    if isinstance(root, Diagonal):
        out = inverse * root.scale[:, None]
        out *= root.scale
        return out
    return root.apply(np.ascontiguousarray(root.apply(inverse).T))


def _summed(weights: Array, copies: int) -> Array:
    """Return the weights of K's entries from those of K ⊗ I."""
    if copies == 1:
        return weights
    n = len(weights) // copies
    return np.ascontiguousarray(np.einsum("icjc->ij", weights.reshape(n, copies, n, copies)))
