"""Stochastic Lanczos quadrature for log-determinants [Ubaru17], with probes from N(0, P).

    log|A| = log|P| + tr log(P^-½ A P^-½)
           ≈ log|P| + mean over probes z ~ N(0, P) of  n · e₁' log(T_z) e₁

T_z is the Lanczos matrix that conjugate gradients build while they solve A v = z from v = 0. For Gaussian probes z'P⁻¹z
is independent of the direction, so its mean n is exact and only the direction is left to vary; the nearer P is to A,
the less it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from precog import checks
from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.solvers.pcg import PCG
from precog.solvers.result import Status


class Distribution(Protocol):
    """What the quadrature asks of a preconditioner beyond solving."""

    def solve(self, V: Array) -> Array: ...

    def logdet(self) -> float: ...

    def sample(self, rng: np.random.Generator, k: int) -> Array: ...


@dataclass(frozen=True)
class LogDeterminant:
    """An estimate of log|A|: its value, its standard error, and what it cost."""

    value: float
    standard_error: float
    probes: int
    iterations: int
    products: int


def logdet(
    A: Operator,
    *,
    precond: Distribution | None = None,
    probes: int = 16,
    rng: Any = None,
    rtol: float = 1e-3,
    max_iter: int | None = None,
    precision: str = "auto",
) -> LogDeterminant:
    """Return an estimate of log|A|, unbiased but for the quadrature's own error.

    rtol: the relative residual at which a probe has seen enough of A; the quadrature's error falls like its square.
    """
    probes = checks.count("probes", probes, low=2)
    if max_iter is not None:
        checks.count("max_iter", max_iter)
    generator, n = np.random.default_rng(rng), A.shape[0]
    Z = np.sign(generator.standard_normal((n, probes))) if precond is None else precond.sample(generator, probes)
    solver = PCG(rtol=rtol, max_iter=max_iter, precision=precision)
    solution = solver.solve(A, Z, precond=precond)
    products = solution.products
    if not solution.lanczos.cold.all():
        # float32 led nowhere: the solve began anew, and its coefficients belong to what was left of the probes.
        solution = replace(solver, precision="float64").solve(A, Z, precond=precond)
        products += solution.products
    if solution.status is not Status.MAX_ITER:
        solution.raise_if_failed()
    estimates = np.array([n * log_mean(*solution.lanczos.quadrature(q)) for q in range(probes)])
    base = 0.0 if precond is None else precond.logdet()
    error = float(estimates.std(ddof=1) / np.sqrt(probes))
    return LogDeterminant(base + float(estimates.mean()), error, probes, solution.iterations, products)


def log_mean(nodes: Array, weights: Array) -> float:
    """Return Σ weights log(nodes); nodes of a positive definite matrix that rounding made negative are left out."""
    kept = nodes > 0
    return float(weights[kept] @ np.log(nodes[kept]) / weights[kept].sum())
