"""What a preconditioner offers, and the problem that it is built for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from precog.kernels import Kernel, Sum, White
from precog.kernels.additive import Additive
from precog.kernels.base import has_white
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array
from precog.operators import Congruent, Gram, Noisy, Operator
from precog.operators.derivative import white_diag


@dataclass(frozen=True)
class Report:
    """How a preconditioner was built.

    rank: columns of the factor F (0 without one). products: columns of K that were multiplied while building.
    entries: kernel entries that were evaluated in blocks. seconds: build time. trace: tr(K - F F'), what the factor
    leaves out, where it is known. dtype: how factors are stored. why: what decided between choices, in words.
    condition: the condition number of P⁻¹ A as a few products with A estimate it.
    """

    name: str
    rank: int
    products: int = 0
    entries: int = 0
    seconds: float = 0.0
    trace: float | None = None
    dtype: str = "float64"
    why: str = ""
    condition: float | None = None


class Preconditioner(Protocol):
    """A matrix P near A = K + D that is easy to solve with. All right-hand sides are float64 (n, p) arrays.

    exact: whether `solve` is the same linear map every time, as conjugate gradients need; the others are for
    `FlexiblePCG`, since they solve by iteration.
    """

    @property
    def exact(self) -> bool: ...

    @property
    def rank(self) -> int: ...

    def solve(self, V: Array) -> Array:
        """Return P⁻¹ V."""
        ...

    def matmat(self, V: Array) -> Array:
        """Return P V."""
        ...

    def logdet(self) -> float:
        """Return log det P."""
        ...

    def sample(self, rng: np.random.Generator, k: int) -> Array:
        """Return k columns drawn from N(0, P), (n, k)."""
        ...

    def report(self) -> Report:
        """Return how it was built."""
        ...


@dataclass(frozen=True)
class Problem:
    """A = S G S + D as builders see it.

    K: S G S, the part to be approximated, without what `White` puts on the diagonal. noise: the diagonal of D, (n,),
    `White` included. base: G itself, and scale: the diagonal of S, where K is not plain (None for S = I).
    """

    A: Operator
    K: Operator
    noise: Array
    base: Operator
    scale: Array | None

    @property
    def n(self) -> int:
        return self.K.shape[0]

    @property
    def uniform(self) -> float | None:
        """The noise, if it is the same for all rows."""
        return float(self.noise[0]) if np.ptp(self.noise) == 0 else None

    def gram(self, name: str) -> Gram:
        """Return G as a kernel matrix of rows of inputs, or say that the named preconditioner needs one."""
        if not isinstance(self.base, Gram) or self.base.Z is not None or on_objects(self.base.kernel):
            raise TypeError(
                f"the preconditioner {name!r} needs the inputs of a kernel on vectors: an operator Gram(kernel, X) "
                f"plus noise, got {self.base!r}. Use one that works on any matrix, such as 'rpcholesky'"
            )
        return self.base

    def places(self) -> Array:
        """Return the rows as the kernel's statistics see them, (n, width): scaled inputs, for trees and clusters."""
        gram = self.gram("local")
        X = gram.X.astype(np.float64, copy=False)
        maps = {(leaf.statistic, leaf.columns): leaf for leaf in gram.kernel.leaves() if isinstance(leaf, Additive)}
        return np.concatenate([leaf.features(X) for leaf in maps.values()] or [X], axis=1)


def problem(A: Operator) -> Problem:
    """Return the parts of A = K + D or A = S K S + D."""
    if not isinstance(A, Noisy):
        raise TypeError(
            f"a preconditioner is built for K + noise, got {A!r}; add the noise to the operator, as in Gram(kernel, X) "
            "+ 0.1 (a part of it may be a White term of the kernel)"
        )
    base, scale = (A.K.K, A.K.scale) if isinstance(A.K, Congruent) else (A.K, None)
    noise = np.array(np.broadcast_to(A.noise, len(A)), dtype=np.float64)
    if isinstance(base, Gram) and has_white(base.kernel):
        plain = without_white(base.kernel)
        if plain is not None:
            white = white_diag(base.kernel, base.X)
            assert white is not None
            noise += white if scale is None else scale**2 * white
            base = Gram(plain, base.X, None, base.dtype, base.threads)
    if not (noise > 0).all():
        row = int(np.argmax(noise <= 0))
        raise ValueError(
            f"preconditioners need positive noise on every row; row {row} has {noise[row]:g}. Add some, such as 1e-8 "
            "times the largest entry of the diagonal"
        )
    return Problem(A, base if scale is None else Congruent(base, scale), noise, base, scale)


def without_white(kernel: Kernel) -> Kernel | None:
    """Return a sum without its `White` terms, or None where `White` stands elsewhere too or alone."""
    terms: Sequence[Any] = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    rest = [term for term in terms if not isinstance(term, White)]
    if not rest or any(has_white(term) for term in rest):
        return None
    return rest[0] if len(rest) == 1 else Sum.of(*rest)
