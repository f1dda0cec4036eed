"""A certified lower bound on the log marginal likelihood, from any approximate solution [Artemev21].

With P = F F' + D below A = K + D (F F' below K, as landmarks and pivots give it), T = tr(D^-½ (K - F F') D^-½) and
r = y - H b - A v for any v,

    log|A|     <= log|P| + n log(1 + T / n)                arithmetic over geometric mean of the eigenvalues of P⁻¹A
    ½ y'A⁻¹y   <= v'y - ½ v'A v + ½ r'P⁻¹r                 tight where r = 0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.inference.marginal import LOG_2PI
from precog.inference.model import Model, Targets
from precog.kernels.statistics import Array
from precog.operators import Noisy
from precog.precond import make


def lower_bound(
    model: Model, targets: Targets, A: Noisy, alpha: Array, mean: Array, *, rank: int | None = None, rng: Any = None
) -> float:
    """Return a number that the log marginal likelihood does not fall below but for rounding.

    alpha, mean: approximations of A⁻¹(Y - H B) and B; the better they are, the higher the bound.
    """
    P: Any = make("rpcholesky", A, rank=rank, rng=rng, residual="drop")
    n, outputs = targets.Y.shape
    noise = np.broadcast_to(np.asarray(targets.noise(model), dtype=np.float64), n)
    left_out = float(P.built.trace) / float(noise.min())
    logdet = P.logdet() + n * np.log1p(left_out / n)
    R = targets.Y - targets.H @ mean
    A_alpha = A.astype("float64") @ alpha
    rest = R - A_alpha
    quadratic = 2.0 * np.vdot(alpha, R) - np.vdot(alpha, A_alpha) + np.vdot(rest, P.solve(rest))
    extra, _ = targets.repeats(model)
    return float(-0.5 * (quadratic + outputs * (logdet + n * LOG_2PI)) + extra)
