"""Sums, products and powers of kernels."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precog.kernels.base import Kernel, Leaf, White
from precog.kernels.dotproduct import Constant

# The first weight of an identity in a weighted sum.
IDENTITY = 0.1


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """k = k₁ + k₂ + ..."""

    terms: tuple[Kernel, ...]

    @staticmethod
    def of(*kernels: Kernel) -> Sum:
        """Return the sum, sums among the terms opened."""
        return Sum(tuple(t for k in kernels for t in (k.terms if isinstance(k, Sum) else (k,))))

    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(leaf for term in self.terms for leaf in term.leaves())

    def with_leaves(self, leaves: Iterator[Leaf]) -> Sum:
        return Sum(tuple(term.with_leaves(leaves) for term in self.terms))

    def combine(self, values: Iterator[Any]) -> Any:
        return functools.reduce(operator.add, [term.combine(values) for term in self.terms])

    def text(self, number: Callable[[float], str]) -> str:
        return " + ".join(term.text(number) for term in self.terms)


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """k = k₁ k₂ ..."""

    factors: tuple[Kernel, ...]

    @staticmethod
    def of(*kernels: Kernel) -> Product:
        """Return the product, products among the factors opened."""
        return Product(tuple(f for k in kernels for f in (k.factors if isinstance(k, Product) else (k,))))

    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(leaf for factor in self.factors for leaf in factor.leaves())

    def with_leaves(self, leaves: Iterator[Leaf]) -> Product:
        return Product(tuple(factor.with_leaves(leaves) for factor in self.factors))

    def combine(self, values: Iterator[Any]) -> Any:
        return functools.reduce(operator.mul, [factor.combine(values) for factor in self.factors])

    def text(self, number: Callable[[float], str]) -> str:
        first, *rest = self.factors
        plain = isinstance(first, Constant) and first == Constant(first.variance) and not isinstance(rest[0], Constant)
        head = number(first.variance) if plain and isinstance(first, Constant) else _bracketed(first, Sum, number)
        return " * ".join([head, *(_bracketed(factor, Sum, number) for factor in rest)])


@dataclass(frozen=True, repr=False)
class Power(Kernel):
    """k = baseᵉˣᵖᵒⁿᵉⁿᵗ; the exponent is part of the expression, not a hyperparameter."""

    base: Kernel
    exponent: float

    def __post_init__(self) -> None:
        e = self.exponent
        if isinstance(e, bool) or not isinstance(e, int | float | np.number) or not math.isfinite(e) or e <= 0:
            raise ValueError(f"a kernel is raised to a positive number, got {e!r}")
        object.__setattr__(self, "exponent", int(e) if e == int(e) else float(e))

    def leaves(self) -> tuple[Leaf, ...]:
        return self.base.leaves()

    def with_leaves(self, leaves: Iterator[Leaf]) -> Power:
        return Power(self.base.with_leaves(leaves), self.exponent)

    def combine(self, values: Iterator[Any]) -> Any:
        return self.base.combine(values) ** self.exponent

    def text(self, number: Callable[[float], str]) -> str:
        return f"{_bracketed(self.base, (Sum, Product, Power), number)} ** {self.exponent!r}"


def weighted_sum(kernels: Sequence[Kernel], *, total: bool = False, identity: bool = False) -> Kernel:
    """Return w₁ k₁ + w₂ k₂ + ..., each weight a hyperparameter, with equal weights at first that add up to one.

    total: add the plain sum of all with a weight of its own, which is redundant. A step in that weight moves all
    kernels together, where single weights of hardly any size would each have to be found to matter.
    identity: add a weight times the identity, which belongs to the kernel and not to the noise. It stands for what is
    not explained yet and makes the first steps of learning smooth; its weight falls as inducing inputs and the other
    weights come to explain the data, like a temperature [Cao13 section 4].
    """
    given = list(kernels)
    if not given:
        raise ValueError("weighted_sum: no kernels; at least one is needed")
    share = 1.0 / (len(given) + total)
    terms: list[Kernel] = [share * kernel for kernel in given]
    if total:
        terms.append((share / len(given)) * Sum.of(*given) if len(given) > 1 else share * given[0])
    if identity:
        terms.append(Constant(IDENTITY) * White().fix("noise"))
    return Sum.of(*terms) if len(terms) > 1 else terms[0]


def _bracketed(kernel: Kernel, kinds: Any, number: Callable[[float], str]) -> str:
    text = kernel.text(number)
    return f"({text})" if isinstance(kernel, kinds) else text
