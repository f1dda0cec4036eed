"""The exact log marginal likelihood and its gradient, by a dense Cholesky factor.

    log p(Y) = -½ Σ_q r_q'A⁻¹r_q - p log|L| - ½ n p log 2π,   A = K + D = L L',   R = Y - H B,  B the most likely one
    ∂/∂θ     =  ½ Σᵢⱼ (α α' - p A⁻¹)ᵢⱼ ∂Aᵢⱼ/∂θ,   α = A⁻¹R

It is what the estimates by conjugate gradients are measured against, and the way for small n.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from precog.inference.model import Model, Targets
from precog.kernels.statistics import Array
from precog.operators import Gram

LOG_2PI = float(np.log(2.0 * np.pi))
# Up to so many rows a second thread gains little in a dense factor, and loses a hundredfold where it has to wait for a
# processor that others use: 20 ms for each factor of 200 rows on two busy cores, in place of 0.3.
ONE_THREAD_ROWS = 1000


@functools.cache
def _pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_for(n: int) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which BLAS uses the threads that pay for dense matrices of n rows."""
    if n > ONE_THREAD_ROWS:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limited


@dataclass(frozen=True, eq=False)
class Marginal:
    """The log marginal likelihood with its gradient in theta, and what of it predictions need.

    alpha: A⁻¹(Y - H B), (n, p). mean: B, (b, p). factor: the lower triangle of A.
    """

    value: float
    gradient: Array
    alpha: Array
    mean: Array
    factor: Array


def marginal(model: Model, targets: Targets, *, gradient: bool = True, threads: int | None = None) -> Marginal:
    """Return the exact log marginal likelihood; raises ArithmeticError where A is not positive definite as computed."""
    gram = Gram(model.kernel, targets.X, threads=threads)
    L = factor(gram, targets.noise(model))
    alpha, mean = profiled(targets, lambda V: scipy.linalg.cho_solve((L, True), V, check_finite=False))
    n, outputs = targets.Y.shape
    # H'α = 0, so Y'α is the quadratic form of what is left of Y.
    fit = -0.5 * float(np.vdot(targets.Y, alpha))
    extra, slope = targets.repeats(model)
    value = fit - outputs * float(np.log(np.diagonal(L)).sum()) - 0.5 * n * outputs * LOG_2PI + extra
    if not gradient:
        return Marginal(value, np.zeros(0), alpha, mean, L)
    W = weights(L, alpha)
    g = 0.5 * gram.grad_weighted(W)
    if model.noise_bounds is not None:
        g = np.append(g, 0.5 * float(np.diagonal(W) @ targets.noise_slope(model)) + slope)
    return Marginal(value, g, alpha, mean, L)


def factor(gram: Gram, noise: float | Array) -> Array:
    """Return L with L L' = K + D, lower, or say why there is none."""
    A = np.asarray(gram.dense(), dtype=np.float64)
    A[np.diag_indices_from(A)] += noise
    # The transpose of a C array is what LAPACK may overwrite; A is symmetric.
    L, info = scipy.linalg.lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    if info or not np.isfinite(np.diagonal(L)).all():
        raise ArithmeticError(
            f"K + noise of {len(A)} rows is not positive definite as computed: raise the noise (or its lower bound), "
            "or check that the kernel is positive definite on these inputs"
        )
    factored: Array = L
    return factored


def weights(L: Array, alpha: Array) -> Array:
    """Return αα' - p A⁻¹ as a full symmetric matrix."""
    inverse, info = scipy.linalg.lapack.dpotri(L, lower=1)
    assert info == 0
    # LAPACK fills the lower triangle; the upper one is its mirror image.
    inverse += np.tril(inverse, -1).T
    inverse *= -float(alpha.shape[1])
    inverse += alpha @ alpha.T
    # Symmetric, so the transpose of LAPACK's layout is the same matrix in rows.
    W: Array = inverse.T
    return W


def profiled(targets: Targets, solve: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return α = A⁻¹(Y - H B) and B = (H'A⁻¹H)⁻¹ H'A⁻¹Y, from a function that solves with A."""
    outputs = targets.Y.shape[1]
    solved = solve(np.hstack([targets.Y, targets.H]))
    return removed(targets.H, solved[:, :outputs], solved[:, outputs:])


def removed(H: Array, solved_Y: Array, solved_H: Array) -> tuple[Array, Array]:
    """Return α and B from A⁻¹Y and A⁻¹H; columns of H that depend on others get no weight."""
    if not H.shape[1]:
        return solved_Y, np.zeros((0, solved_Y.shape[1]))
    B = np.linalg.pinv(H.T @ solved_H, hermitian=True) @ (H.T @ solved_Y)
    return solved_Y - solved_H @ B, B
