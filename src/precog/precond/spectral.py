"""Random Fourier features: Z with E ZZ' = K for kernels of differences [Rahimi07], [Lazaro10].

    K_ij = σ² E cos(ω'(uᵢ - uⱼ)),   Z = √(σ² / s) [cos UΩ', sin UΩ'],   Ω (s, width) drawn from the spectral density

U are features as the kernel's statistic sees them: x / ℓ, or points on circles for a periodic kernel. In a product of
kernels phases add up, as for features side by side. A sum shares the frequencies out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from precog import checks
from precog.kernels import (
    RBF,
    Constant,
    Kernel,
    Leaf,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Power,
    Product,
    RationalQuadratic,
    Stationary,
    Sum,
    White,
)
from precog.kernels.statistics import Array

# A kernel multiplied out: the variance of each product of leaves, leaves in one order; () is the constant.
Terms: TypeAlias = dict[tuple[Any, ...], float]
Sampler: TypeAlias = Callable[[Any, np.random.Generator, int, int], Array]

MOST_TERMS = 10_000


def features(kernel: Kernel, X: Array, count: int, rng: np.random.Generator) -> Array:
    """Return Z (n, 2 count) with E ZZ' = K, from `count` random frequencies.

    Sums are multiplied out. Constants take one frequency (zero) and linear terms half as many as they have columns;
    both are exact. All other terms share the rest in proportion to their variances, at least one each. A kernel of
    one's own, such as a subclass of `Stationary`, takes part with a method

        def frequencies(self, rng, count, width):
            return ...  # (count, width) draws of ω with k(u, w) = E cos(ω'(u - w)) for features u, w = x / length_scale
    """
    X = X.astype(np.float64, copy=False)
    terms = _terms(kernel)
    Z, start = np.zeros((len(X), 2 * checks.count("count", count))), 0
    for leaves, share in _shares(terms, X, count).items():
        part = Z[:, 2 * start : 2 * (start + share)]
        start += share
        if _exact(leaves):
            U = np.concatenate([leaf.features(X) for leaf in leaves] or [np.ones((len(X), 1))], axis=1)
            part[:, : U.shape[1]] = np.sqrt(terms[leaves]) * U
        else:
            phase = reduce(np.add, [_phase(leaf, X, share, rng) for leaf in leaves])
            part[:, :share], part[:, share:] = np.cos(phase), np.sin(phase)
            part *= np.sqrt(terms[leaves] / share)
    return Z


def _phase(leaf: Any, X: Array, count: int, rng: np.random.Generator) -> Array:
    """Return UΩ' for newly drawn frequencies, (n, count)."""
    U, sampler = leaf.features(X), SAMPLERS.get(type(leaf))
    width = U.shape[1]
    omega = sampler(leaf, rng, count, width) if sampler else np.asarray(leaf.frequencies(rng, count, width), float)
    if omega.shape != (count, width):
        raise ValueError(f"{type(leaf).__name__}.frequencies must return shape {(count, width)}, got {omega.shape}")
    phase: Array = U @ omega.T
    return phase


def _exact(leaves: tuple[Any, ...]) -> bool:
    """Return whether a term has features without randomness: the constant and linear ones."""
    return all(isinstance(leaf, Linear) for leaf in leaves)


def _terms(kernel: Kernel) -> Terms:
    """Return the kernel multiplied out."""
    if isinstance(kernel, Constant):
        return {(): kernel.variance}
    if isinstance(kernel, Sum):
        return _added([_terms(term) for term in kernel.terms])
    if isinstance(kernel, Product):
        return reduce(_multiplied, [_terms(factor) for factor in kernel.factors])
    if isinstance(kernel, Power) and isinstance(kernel.exponent, int):
        return reduce(_multiplied, [_terms(kernel.base)] * kernel.exponent)
    if isinstance(kernel, Linear) or (isinstance(kernel, Leaf) and _samples(kernel)):
        return {(kernel,): 1.0}
    raise _refusal(kernel)


def _samples(leaf: Leaf) -> bool:
    return type(leaf) in SAMPLERS or callable(getattr(leaf, "frequencies", None))


def _refusal(kernel: Kernel) -> TypeError:
    remedy = "take another preconditioner, such as 'rpcholesky'"
    if isinstance(kernel, White):
        remedy = (
            "White is noise: make it a term of the whole kernel, or add it to the operator, Gram(kernel, X) + noise"
        )
    elif isinstance(kernel, Stationary):
        remedy = f"give {type(kernel).__name__} a method frequencies(rng, count, width), or {remedy}"
    return TypeError(f"the preconditioner 'spectral' knows no spectral density of {kernel!s}; {remedy}")


def _added(terms: list[Terms]) -> Terms:
    out: Terms = {}
    for some in terms:
        for leaves, variance in some.items():
            out[leaves] = out.get(leaves, 0.0) + variance
    return out


def _multiplied(left: Terms, right: Terms) -> Terms:
    out: Terms = {}
    for a, u in left.items():
        for b, v in right.items():
            leaves = tuple(sorted(a + b, key=repr))
            out[leaves] = out.get(leaves, 0.0) + u * v
            if len(leaves) > 1 and any(isinstance(leaf, Linear) for leaf in leaves):
                raise TypeError(
                    f"the preconditioner 'spectral' takes Linear as a term of a sum only, not in the product "
                    f"{' * '.join(map(str, leaves))}; take another preconditioner, such as 'rpcholesky'"
                )
    if len(out) > MOST_TERMS:
        raise ValueError(
            f"the kernel has more than {MOST_TERMS} terms when it is multiplied out; take another preconditioner"
        )
    return out


def _shares(terms: Terms, X: Array, count: int) -> dict[tuple[Any, ...], int]:
    """Return how many of the frequencies each term gets."""
    shares = dict.fromkeys(terms, 1)
    for leaves in terms:
        if leaves and _exact(leaves):
            shares[leaves] = -(-leaves[0].features(X[:1]).shape[1] // 2)
    least = sum(shares.values())
    if least > count:
        raise ValueError(
            f"the kernel has {len(terms)} terms that need {least} frequencies together, got {count}; a rank of "
            f"{2 * least} is the least"
        )
    # From the smallest variance on: whoever is left has at least the average, so there is one for each to the end.
    drawn = sorted((leaves for leaves in terms if not _exact(leaves)), key=terms.__getitem__)
    left, variance = count - least + len(drawn), sum(terms[leaves] for leaves in drawn)
    for leaves in drawn:
        shares[leaves] = max(round(left * terms[leaves] / variance), 1)
        left, variance = left - shares[leaves], variance - terms[leaves]
    return shares


def _gaussian(leaf: Any, rng: np.random.Generator, count: int, width: int) -> Array:
    return rng.standard_normal((count, width))


def _student(freedom: int) -> Sampler:
    """Return draws from Student's t, the spectral density of the Matérn kernel with 2 ν degrees of freedom."""

    def draw(leaf: Any, rng: np.random.Generator, count: int, width: int) -> Array:
        return rng.standard_normal((count, width)) / np.sqrt(rng.chisquare(freedom, (count, 1)) / freedom)

    return draw


def _gamma_mixture(leaf: Any, rng: np.random.Generator, count: int, width: int) -> Array:
    """Return √τ times normal draws: (1 + s / 2α)^-α = E exp(-τ s / 2) for τ ~ Gamma(α) of mean one."""
    return np.sqrt(rng.gamma(leaf.alpha, 1.0 / leaf.alpha, (count, 1))) * rng.standard_normal((count, width))


# On its circles the periodic kernel is the RBF kernel.
SAMPLERS: Mapping[type[Leaf], Sampler] = {
    RBF: _gaussian,
    Matern12: _student(1),
    Matern32: _student(3),
    Matern52: _student(5),
    RationalQuadratic: _gamma_mixture,
    Periodic: _gaussian,
}
