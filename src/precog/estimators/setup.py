"""What an estimator makes of its arguments: kernels with their noise, targets in one scale, weights, generators."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from precog import checks
from precog.inference import Model
from precog.inference.model import Merged, Targets, basis, merged
from precog.kernels import RBF, Constant, Kernel, Sum, White, from_sklearn, parameters
from precog.kernels.additive import Additive
from precog.kernels.base import has_white
from precog.kernels.statistics import Array, Index
from precog.operators import Gram

DEFAULT_NOISE, DEFAULT_NOISE_BOUNDS = 0.1, (1e-6, 1e2)
# Length scales are learnt within these multiples of a column's own scale.
LENGTH_BOUNDS = (1e-3, 1e5)
# Columns further apart than this are hardly meant for one length scale.
APART = 1e6
# Rows up to which eigenvalues are taken of a stored matrix, and the share by which a shift exceeds what is needed.
DENSE_ROWS, SAFETY = 3000, 1.01


@dataclass(frozen=True, eq=False)
class Scaling:
    """Targets y = centre + scale · z, one centre and one scale for each output."""

    centre: Array
    scale: Array

    @staticmethod
    def of(Y: Array, weights: Array | None, *, normalize: bool, common: bool) -> Scaling:
        """Return the weighted mean and standard deviation; 0 and 1 without `normalize`; one scale where `common`."""
        outputs = Y.shape[1]
        if not normalize:
            return Scaling(np.zeros(outputs), np.ones(outputs))
        # From the first row's value: the mean of a large offset keeps its digits.
        centre = Y[0] + np.average(Y - Y[0], axis=0, weights=weights)
        variance = np.average((Y - centre) ** 2, axis=0, weights=weights)
        if common:
            variance = np.full(outputs, variance.mean())
        scale = np.sqrt(variance)
        # What rounding leaves of a constant is no scale.
        flat = scale <= 10.0 * np.finfo(np.float64).eps * np.abs(centre)
        return Scaling(centre, np.where(flat, 1.0, scale))

    def standardised(self, Y: Array) -> Array:
        return (Y - self.centre) / self.scale


def default_kernel(X: Array, weights: Array | None) -> Kernel:
    """Return a variance times an RBF kernel with a length scale for each column, √d times its standard deviation."""
    centre = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
    scale = np.where(scale > 0, scale, 1.0)
    bounds = [(float(LENGTH_BOUNDS[0] * s), float(LENGTH_BOUNDS[1] * s)) for s in scale]
    start = np.sqrt(X.shape[1]) * scale
    return 1.0 * RBF(start, length_scale_bounds=bounds)


def kernel_and_noise(kernel: Kernel, noise: Any, noise_bounds: Any, *, known: bool) -> Model:
    """Return the model: `White` terms of a sum become its noise, and a number for the noise is where learning starts.

    known: whether the rows bring noise of their own; then only a `White` term adds to it.
    """
    rest, white = _without_white(kernel)
    if white:
        if noise is not None:
            raise ValueError(
                "the kernel has a White term, which is the noise, and noise was given too; leave one of them out"
            )
        free = [w.noise_bounds for w in white if w.noise_bounds != "fixed"]
        return Model(rest, float(sum(w.noise for w in white)), free[0] if free else None)
    if known:
        return Model(rest, 0.0, None)
    value = DEFAULT_NOISE if noise is None else checks.number("noise", noise)
    if noise_bounds is None:
        low, high = DEFAULT_NOISE_BOUNDS
        return Model(rest, value, (min(low, value), max(high, value)) if value > 0 else None)
    if isinstance(noise_bounds, str) and noise_bounds == "fixed":
        return Model(rest, value, None)
    checked = parameters.bounds("GPRegressor", "noise", noise_bounds, None)
    return Model(rest, value, cast("tuple[float, float]", checked))


def _without_white(kernel: Kernel) -> tuple[Kernel, list[Any]]:
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    white, rest = [t for t in terms if isinstance(t, White)], [t for t in terms if not isinstance(t, White)]
    if not rest:
        raise ValueError("the kernel is nothing but White noise; add a kernel of the inputs, such as RBF()")
    return rest[0] if len(rest) == 1 else Sum.of(*rest), white


def warn_of_scales(kernel: Kernel, X: Any) -> None:
    """Warn where one length scale has to serve columns that are far apart."""
    if not hasattr(X, "shape"):
        return
    for leaf in kernel.leaves():
        if isinstance(leaf, Additive) and not isinstance(leaf.length_scale, tuple):
            scale = leaf.take(X).std(axis=0, dtype=np.float64)
            used = scale[scale > 0]
            if used.size and used.max() / used.min() >= APART:
                low, high = np.flatnonzero(scale == used.min())[0], int(scale.argmax())
                warnings.warn(
                    f"columns {low} and {high} of X differ in scale by a factor of {used.max() / used.min():.1g}, and "
                    f"{type(leaf).__name__} has one length scale for all: standardise X, or give a length scale for "
                    "each column",
                    UserWarning,
                    stacklevel=4,
                )
                return


def weights_of(sample_weight: Any, n: int) -> Array | None:
    """Return sample weights as (n,), or None where all are one."""
    if sample_weight is None:
        return None
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"sample_weight[{row}] is {weights[row]:g}; weights must not be negative")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    return None if (weights == 1.0).all() else np.asarray(weights)


def objects_of(X: Any, y: Any) -> tuple[Any, Array]:
    """Return objects and their targets, checked."""
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if checks.length(X) != len(y):
        raise ValueError(f"X has {checks.length(X)} objects, y {len(y)} rows")
    return X, np.asarray(y)


def noise_of_rows(noise: Any, n: int) -> Array | None:
    """Return the known noise variance of every row, (n,), checked."""
    if noise is None:
        return None
    rows = np.asarray(noise, dtype=np.float64)
    if rows.shape != (n,):
        raise ValueError(f"noise must hold one variance for each of the {n} rows, got shape {rows.shape}")
    checks.finite("noise", rows)
    if (rows <= 0).any():
        row = int(np.argmax(rows <= 0))
        raise ValueError(f"noise[{row}] is {rows[row]:g}; variances of rows must be positive")
    return rows


def targets_of(
    model: Model, X: Any, Y: Array, mean: str, weights: Array | None, known: Array | None
) -> Targets | Merged:
    """Return targets for inference, rows with equal inputs made one where that changes nothing."""
    targets = Targets(X, Y, basis(mean, X, len(Y)), weights, known)
    if model.noise <= 0 or has_white(model.kernel):
        return targets
    joined = merged(targets)
    return targets if joined is None else joined


@dataclass(frozen=True, eq=False)
class Joined:
    """Data in which equal rows are one: the targets' means, weights, Σ w (y - ȳ)² of each output, the rows kept."""

    X: Any
    Y: Array
    weights: Array | None
    scatter: Array
    rows: Index

    @staticmethod
    def of(X: Any, Y: Array, weights: Array | None, *, merges: bool) -> Joined:
        """Return the data joined where asked for; weights and repeated rows then give the same to the last bit."""
        made = merged(Targets(X, Y, np.zeros((len(Y), 0)), weights)) if merges else None
        if made is None:
            return Joined(X, Y, weights, np.zeros(Y.shape[1]), np.arange(len(Y)))
        own = made.targets
        scatter = made.weights @ (made.Y - own.Y[made.group]) ** 2
        return Joined(own.X, own.Y, own.weights, scatter, np.unique(made.group, return_index=True)[1])

    def targets(self, scaling: Scaling) -> Targets:
        """Return them in standard units."""
        Y = scaling.standardised(self.Y)
        scatter = float((self.scatter / scaling.scale**2).sum())
        return Targets(self.X, Y, np.zeros((len(Y), 0)), self.weights, None, scatter)


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from what scikit-learn calls a random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(int(check_random_state(random_state).randint(2**31)))


def shifted(kernel: Kernel, X: Any, shift: Any) -> Kernel:
    """Return the kernel with a fixed multiple of the identity; "auto" takes the least that makes k(X, X) definite."""
    if isinstance(shift, str):
        checks.choice("shift", shift, ("auto",))
        shift = least_shift(kernel, X)
    size = checks.number("shift", shift)
    return kernel + Constant(size).fix("variance") * White().fix("noise") if size > 0 else kernel


def least_shift(kernel: Kernel, X: Any) -> float:
    """Return how far the smallest eigenvalue of k(X, X) is below zero, and a little more; 0 where it is not."""
    gram = Gram(kernel, X)
    if len(gram) <= DENSE_ROWS:
        values = scipy.linalg.eigvalsh(gram.dense())
        low, high = float(values[0]), float(values[-1])
    else:
        product: Any = scipy.sparse.linalg.LinearOperator(gram.shape, matvec=gram.matvec, dtype=np.float64)
        ends = [scipy.sparse.linalg.eigsh(product, 1, which=end, return_eigenvectors=False) for end in ("SA", "LA")]
        low, high = (float(end[0]) for end in ends)
    # Below this an eigenvalue is rounding, of which the jitter takes care.
    return 0.0 if low > -1e-10 * high else SAFETY * -low


def resolved(kernel: Any, X: Any, weights: Array | None) -> Kernel:
    """Return the kernel that was given, or the default one."""
    if kernel is None:
        return default_kernel(np.asarray(X, dtype=np.float64), weights)
    return from_sklearn(kernel, X.shape[1] if hasattr(X, "shape") and X.ndim == 2 else None)
