"""scikit-learn's kernel objects, translated into ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from precog.kernels.algebra import Power, Product, Sum
from precog.kernels.base import Kernel, White
from precog.kernels.dotproduct import Constant, Linear, Polynomial
from precog.kernels.objects import Called
from precog.kernels.parameters import Bounds
from precog.kernels.stationary import RBF, Matern12, Matern32, Matern52, Periodic, RationalQuadratic

MATERN: dict[float, type[RBF | Matern12 | Matern32 | Matern52]] = {
    0.5: Matern12,
    1.5: Matern32,
    2.5: Matern52,
    math.inf: RBF,
}


def from_sklearn(kernel: Any, n_features: int | None = None) -> Kernel:
    """Return the kernel that has the same values, hyperparameters, bounds and fixed parameters.

    scikit-learn's `ExpSineSquared` takes the sine of a Euclidean distance, which is not positive definite in more than
    one dimension; it is translated for `n_features=1` only.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type):
        raise TypeError(f"expected a precog kernel, got the class {kernel.__name__}; make one with {kernel.__name__}()")
    name = type(kernel).__name__
    rule = _RULES.get(name)
    if rule is None and getattr(kernel, "requires_vector_input", True) is False and hasattr(kernel, "diag"):
        # A kernel of one's own on objects; those of scikit-learn itself that take any input have rules.
        return Called(kernel)
    if rule is None or not type(kernel).__module__.startswith("sklearn."):
        raise TypeError(
            f"expected a precog kernel or one of scikit-learn's {', '.join(sorted(_RULES))}; got {type(kernel)!r}"
        )
    translated: Kernel = rule(kernel, n_features)
    return translated


def _bounds(value: Any, change: Callable[[Any], Any] = lambda v: v) -> Any:
    if isinstance(value, str):
        return value
    pairs = change(np.asarray(value, dtype=float))
    return tuple(pairs) if pairs.ndim == 1 else [tuple(pair) for pair in pairs]


def _scale(k: Any) -> dict[str, Any]:
    return {"length_scale": k.length_scale, "length_scale_bounds": _bounds(k.length_scale_bounds)}


def _matern(k: Any, _: int | None) -> Kernel:
    if k.nu not in MATERN:
        raise ValueError(f"Matern with nu={k.nu} has no closed form here; nu can be 0.5, 1.5, 2.5 or inf")
    return MATERN[k.nu](**_scale(k))


def _periodic(k: Any, n_features: int | None) -> Kernel:
    if n_features != 1:
        came = "an unknown number of" if n_features is None else str(n_features)
        raise ValueError(
            f"ExpSineSquared for {came} features: it is positive definite in one dimension only. Use precog.Periodic, "
            "with columns= for the periodic inputs; for one feature call from_sklearn(kernel, n_features=1)"
        )
    return Periodic(**_scale(k), period=k.periodicity, period_bounds=_bounds(k.periodicity_bounds))  # type: ignore[call-arg]


def _dot_product(k: Any, _: int | None) -> Kernel:
    return Constant(k.sigma_0**2, variance_bounds=_bounds(k.sigma_0_bounds, np.square)) + Linear()  # type: ignore[call-arg]


def _pairwise(k: Any, _: int | None) -> Kernel:
    options = dict(k.pairwise_kernels_kwargs or {})

    def inverse_root(factor: float) -> tuple[float, Bounds]:
        bounds: Bounds = _bounds(k.gamma_bounds, lambda g: (factor * g[..., ::-1]) ** -0.5)
        return (factor * k.gamma) ** -0.5, bounds

    if k.metric == "linear" and not options:
        return Linear()
    if k.metric == "rbf" and not options:
        scale, bounds = inverse_root(2.0)
        return RBF(scale, length_scale_bounds=bounds)
    if k.metric in ("poly", "polynomial") and set(options) <= {"degree", "coef0"} and options.get("coef0", 1) > 0:
        scale, bounds = inverse_root(1.0)
        degree, offset = options.get("degree", 3), options.get("coef0", 1)
        return Polynomial(scale, offset, length_scale_bounds=bounds, degree=degree, offset_bounds="fixed")  # type: ignore[call-arg]
    raise ValueError(f"PairwiseKernel with metric={k.metric!r} and {options or 'no options'} has no counterpart here")


_RULES: dict[str, Callable[[Any, int | None], Kernel]] = {
    "RBF": lambda k, _: RBF(**_scale(k)),
    "Matern": _matern,
    "RationalQuadratic": lambda k, _: RationalQuadratic(
        **_scale(k), alpha=k.alpha, alpha_bounds=_bounds(k.alpha_bounds)
    ),  # type: ignore[call-arg]
    "ExpSineSquared": _periodic,
    "DotProduct": _dot_product,
    "ConstantKernel": lambda k, _: Constant(k.constant_value, variance_bounds=_bounds(k.constant_value_bounds)),  # type: ignore[call-arg]
    "WhiteKernel": lambda k, _: White(k.noise_level, noise_bounds=_bounds(k.noise_level_bounds)),  # type: ignore[call-arg]
    "PairwiseKernel": _pairwise,
    "Sum": lambda k, d: Sum.of(from_sklearn(k.k1, d), from_sklearn(k.k2, d)),
    "Product": lambda k, d: Product.of(from_sklearn(k.k1, d), from_sklearn(k.k2, d)),
    "Exponentiation": lambda k, d: Power(from_sklearn(k.kernel, d), k.exponent),
}
