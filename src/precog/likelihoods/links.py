"""Probabilities from latent values: the probit Φ(f) and the logit 1 / (1 + exp(-f)), exact in both tails.

For the probit, with r = φ(z) / Φ(z) and t = r + z,

    (log Φ)' = r,   (log Φ)'' = -r t,   (log Φ)''' = r (t² + r t - 1)

Far to the left r ≈ -z, so that t and r t - 1 cancel; there they come from the asymptotic series of Mills' ratio.
"""

from __future__ import annotations

import numpy as np
import scipy.special

from precog.kernels.statistics import Array
from precog.likelihoods import quadrature

LINKS = ("probit", "logit")
# Left of here the series is more exact than the difference: both are to 2e-8 in the third derivative.
SERIES_FROM = -25.0
# t = Σ cₖ x^(-2k-1) for x = -z.
SERIES = (1.0, -2.0, 10.0, -74.0, 706.0, -8162.0, 110410.0)


def probability(link: str, f: Array) -> Array:
    """Return π(f)."""
    p: Array = scipy.special.ndtr(f) if link == "probit" else scipy.special.expit(f)
    return p


def log_probability(link: str, z: Array) -> tuple[Array, Array, Array, Array]:
    """Return log π(z) and its first three derivatives; log(1 - π(z)) is log π(-z)."""
    if link == "logit":
        up, down = scipy.special.expit(z), scipy.special.expit(-z)
        return -np.logaddexp(0.0, -z), down, -up * down, up * down * (up - down)
    value = scipy.special.log_ndtr(z)
    r = np.sqrt(2.0 / np.pi) / scipy.special.erfcx(-z / np.sqrt(2.0))
    t, rest = r + z, r * (r + z) - 1.0
    far = z < SERIES_FROM
    if np.any(far):
        x = -z[far]
        u = 1.0 / (x * x)
        # x t = 1 + tail, and r t - 1 = (x t - 1) + t².
        tail = u * np.polynomial.polynomial.polyval(u, SERIES[1:])
        t[far] = (1.0 + tail) / x
        r[far] = x + t[far]
        rest[far] = tail + t[far] ** 2
    return value, r, -r * t, r * (t * t + rest)


def averaged(link: str, mean: Array, variance: Array) -> Array:
    """Return E π(f) for f ~ N(mean, variance): Φ(mean / √(1 + variance)) for the probit, quadrature for the logit."""
    if link == "probit":
        p: Array = scipy.special.ndtr(mean / np.sqrt(1.0 + variance))
        return p
    return quadrature.expectation(lambda f, rows: scipy.special.expit(f), mean, variance)
