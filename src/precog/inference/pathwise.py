"""Samples of functions given data, at any number of points [Wilson20].

    f(z) + k(z, X) A⁻¹(y - f(X) - ε),   f = Φ w a sample before the data, ε of the noise

has the mean and the covariance of the posterior. Φ are random Fourier features, which is the one approximation; the
update is exact, so features only have to be right where there are no data. One solve for each sample, then a product
for as many points as are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from precog.inference.marginal import removed
from precog.inference.posterior import COLUMNS, Posterior
from precog.kernels.statistics import Array
from precog.operators.blockwise import take
from precog.precond.spectral import features

FREQUENCIES = 1000
# Up to so many points a joint covariance gives samples without an approximation.
JOINT_ROWS = 1000
ROWS = 4096


def joint(posterior: Posterior, Z: Any, H: Array, count: int, rng: np.random.Generator) -> Array:
    """Return samples (m, p, count) from the joint covariance."""
    covariance = posterior.covariance(Z, H)
    values, vectors = scipy.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    mean = posterior.mean(Z, H)
    drawn = np.stack([root @ rng.standard_normal((len(H), count)) for _ in range(mean.shape[1])], axis=1)
    return mean[:, :, None] + drawn


def paths(posterior: Posterior, Z: Any, H: Array, count: int, rng: np.random.Generator) -> Array:
    """Return samples (m, p, count) by pathwise conditioning, some thousand rows at a time."""
    model, targets = posterior.model, posterior.targets
    outputs, seed = targets.Y.shape[1], int(rng.integers(2**32))

    def prior(X: Any) -> Array:
        # The same seed draws the same frequencies, so parts of one function fit together.
        return features(model.kernel, X, FREQUENCIES, np.random.default_rng(seed))

    weights = rng.standard_normal((2 * FREQUENCIES, outputs * count))
    noise = np.sqrt(np.broadcast_to(targets.noise(model), targets.n))[:, None]
    at_X = np.vstack([prior(take(targets.X, rows)) @ weights for rows in _stripes(targets.n)])
    missing = np.repeat(targets.Y, count, axis=1) - at_X - noise * rng.standard_normal(at_X.shape)
    solved = np.hstack(
        [posterior.system.solve(missing[:, some : some + COLUMNS]) for some in range(0, missing.shape[1], COLUMNS)]
    )
    alpha, coefficients = removed(targets.H, solved, posterior.solved_H)
    out = np.empty((len(H), outputs * count))
    for rows in _stripes(len(H)):
        part = take(Z, rows)
        out[rows] = prior(part) @ weights + posterior._gram(part) @ alpha + H[rows] @ coefficients
    return out.reshape(len(H), outputs, count)


def _stripes(n: int) -> list[slice]:
    return [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)]
