"""The mode of p(f | y) by Newton's method on linear solves alone [Cutajar16 algorithm 2], [Rasmussen06 ch. 3].

    ψ(a) = log p(y | f) - ½ a'g,  f = m + g,  g = K a         largest where a = ∇ log p(y | f)
    W = S S' = -∇² log p,         B = I + S'K S
    r = ∇ log p - a,              B δ = S'K r,   a ← ∇ log p - S δ

One solve and two products with K for each step, whatever solves: a dense factor or conjugate gradients. As a step is
solved for from zero, an inexact solve shortens it but never turns it downhill. Its residual ρ costs at most ½ ρ'ρ nats,
as B is above I, so its tolerance is set in nats, by the decrement r'Δg of the step before. Steps are halved until ψ
rises, which takes no product, since f moves along a line.

Where log p is not concave, as for Student's distribution, steps use a curvature that is positive throughout; the mode
that they end in is one of log p(f | y) as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from precog.inference.latent import LatentModel, Observed
from precog.inference.preconditioned import preconditioner
from precog.kernels.statistics import Array
from precog.likelihoods import Diagonal, Local, Root
from precog.operators import Congruent, Noisy, Operator
from precog.precond import Preconditioner
from precog.solvers import PCG, Status

# Newton's steps end when one promises less than so many nats; where log p is concave the error is then its square.
TOLERANCE = 1e-10
MAX_ITER, HALVINGS = 100, 60
# Residual of a solve over the root λ of the last decrement, or over λ² where that is less.
SHARE = 0.1
# A preconditioner serves until the curvature has changed by this share in all.
CHANGED = 0.2
# What rounding may take off ψ, over the size of its terms.
ROUNDING = 1e-14


class Curved(Protocol):
    """B = I + S'K S at one S."""

    def solve(self, V: Array, rtol: float, atol: float = 0.0) -> Array:
        """Return B⁻¹V, residuals at most max(rtol |v|, atol)."""
        ...


class System(Protocol):
    """K (N, N), and a way to solve with B."""

    def multiply(self, V: Array) -> Array:
        """Return K V in float64."""
        ...

    def at(self, root: Root) -> Any:
        """Return B at this S."""
        ...


@dataclass(frozen=True, eq=False)
class Factor:
    """B through its dense Cholesky factor, lower."""

    L: Array

    def solve(self, V: Array, rtol: float = 0.0, atol: float = 0.0) -> Array:
        X: Array = scipy.linalg.cho_solve((self.L, True), V, check_finite=False)
        return X

    def logdet(self) -> float:
        return 2.0 * float(np.log(np.diagonal(self.L)).sum())


@dataclass(frozen=True, eq=False)
class Dense:
    """A stored K."""

    K: Array

    def multiply(self, V: Array) -> Array:
        product: Array = self.K @ V
        return product

    def at(self, root: Root) -> Factor:
        if isinstance(root, Diagonal):
            B: Array = self.K * root.scale[:, None]
            B *= root.scale
        else:
            B = root.transposed(np.ascontiguousarray(root.transposed(self.K).T))
        B[np.diag_indices_from(B)] += 1.0
        # The transpose of a C array is what LAPACK may overwrite; B is symmetric.
        L, info = scipy.linalg.lapack.dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
        if info or not np.isfinite(np.diagonal(L)).all():
            raise ArithmeticError(
                f"I + W^½ K W^½ of {len(B)} rows is not positive definite as computed: check that the kernel is "
                "positive definite on these inputs, and that its variance is within reason"
            )
        return Factor(L)


@dataclass(frozen=True, eq=False)
class Iterative:
    """B as an operator, with its preconditioner."""

    A: Noisy
    precond: Preconditioner | None
    owner: Solving

    def solve(self, V: Array, rtol: float, atol: float = 0.0) -> Array:
        solution = PCG(rtol=rtol, atol=atol, max_iter=self.owner.max_iter).solve(self.A, V, precond=self.precond)
        self.owner.note(solution)
        return solution.x


@dataclass(eq=False)
class Solving:
    """K as an operator, and how B is solved with; counts what it took.

    name: of the preconditioner, or None. It is kept while the curvature stays near the one that it was built for.
    """

    K: Operator
    name: str | None = "auto"
    rank: int | None = None
    seed: int = 0
    max_memory: float = 2e9
    max_iter: int | None = None
    products: int = 0
    iterations: int = 0
    built: list[tuple[Array, Preconditioner | None]] = field(default_factory=list)

    def multiply(self, V: Array) -> Array:
        self.products += V.shape[1]
        return np.asarray(self.K.astype("float64") @ V, dtype=np.float64)

    def at(self, root: Root) -> Iterative:
        A = Congruent(self.K, root.scale) + 1.0
        assert isinstance(A, Noisy)
        return Iterative(A, self.preconditioner(A, root.scale), self)

    def preconditioner(self, A: Noisy, scale: Array) -> Preconditioner | None:
        """Return the one that was built last if it still serves, or a new one."""
        w = scale**2
        if self.built and np.abs(w - self.built[0][0]).sum() <= CHANGED * self.built[0][0].sum():
            return self.built[0][1]
        self.built[:] = []
        P = preconditioner(self.name, A, self.rank, self.seed, self.max_memory)
        self.built.append((w, P))
        return P

    def note(self, solution: Any) -> None:
        """Count what a solve took; a solve that cannot go on is an error."""
        self.products += solution.products
        self.iterations += solution.iterations
        if solution.status not in (Status.CONVERGED, Status.MAX_ITER, Status.STAGNATED):
            solution.raise_if_failed()


@dataclass(frozen=True, eq=False)
class Mode:
    """Where p(f | y) is largest: a, g = K a, what log p looks like there, ψ, and how Newton's method went.

    decrement: r'Δg of the last step, twice the nats that it promised. residual: |∇ log p - a| over |a|.
    """

    a: Array
    g: Array
    local: Local
    value: float
    steps: int
    decrement: float
    converged: bool

    @property
    def residual(self) -> float:
        size = float(np.linalg.norm(self.a))
        return float(np.linalg.norm(self.local.slope - self.a)) / (size if size > 0 else 1.0)


class Point:
    """ψ and what it is made of at one a: -∞ where it has no value."""

    def __init__(self, evaluate: Callable[[Array], Local], a: Array, g: Array) -> None:
        self.a, self.g, self.local = a, g, evaluate(g)
        quadratic = 0.5 * float(a @ g)
        with np.errstate(invalid="ignore"):
            value = self.local.value - quadratic
        finite = np.isfinite(value) and np.isfinite(self.local.slope).all()
        self.value = value if finite else -np.inf
        self.size = abs(self.local.value) + abs(quadratic) if finite else 0.0


def mode(
    system: System,
    evaluate: Callable[[Array], Local],
    N: int,
    start: Array | None = None,
    *,
    tolerance: float = TOLERANCE,
    max_iter: int = MAX_ITER,
) -> Mode:
    """Return the mode of log p(y | m + g) - ½ g'K⁻¹g, from a = `start` if that is better than zero."""
    here = _begin(system, evaluate, N, start)
    # Before the first step: that a nat is gained for every other latent value.
    decrement, steps, converged = float(N), 0, False
    while steps < max_iter and not converged:
        steps += 1
        towards = _newton(system, here, decrement, tolerance)
        decrement = max(float((here.local.slope - here.a) @ (towards[1] - here.g)), 0.0)
        new = _halved(evaluate, here, *towards)
        converged = 0.5 * decrement <= tolerance
        if new is None:
            # Rounding is all that is left, or there is no way up that can be computed.
            converged = converged or 0.5 * decrement <= 1e3 * ROUNDING * here.size
            break
        here = new
    return Mode(here.a, here.g, here.local, here.value, steps, decrement, converged)


def _begin(system: System, evaluate: Callable[[Array], Local], N: int, start: Array | None) -> Point:
    zero = Point(evaluate, np.zeros(N), np.zeros(N))
    if not np.isfinite(zero.value):
        raise ArithmeticError(
            "the log likelihood of the data is not finite at the prior mean: check y for values that are out of range, "
            "and the formula of the likelihood for overflow"
        )
    if start is None:
        return zero
    warm = Point(evaluate, start, system.multiply(start[:, None])[:, 0])
    return warm if warm.value > zero.value else zero


def _newton(system: System, here: Point, decrement: float, tolerance: float) -> tuple[Array, Array]:
    """Return a and g where the quadratic model of ψ is largest; decrement: of the step before."""
    steps, r = here.local.steps, (here.local.slope - here.a)[:, None]
    moved = system.multiply(r)
    # The decrement of this step cannot be above r'K r, which says how far a warm start has come.
    expected = min(decrement, max(float(np.vdot(r, moved)), tolerance))
    atol = SHARE * max(min(expected, float(np.sqrt(expected))), float(np.sqrt(tolerance)))
    delta = system.at(steps).solve(steps.transposed(moved), 0.0, atol)
    a = here.local.slope - steps.apply(delta)[:, 0]
    return a, system.multiply(a[:, None])[:, 0]


def _halved(evaluate: Callable[[Array], Local], here: Point, a: Array, g: Array) -> Point | None:
    """Return the point on the way to a at the first halving that does not lower ψ, or a better one further down."""
    best: Point | None = None
    step = 1.0
    for _ in range(HALVINGS):
        new = Point(evaluate, here.a + step * (a - here.a), here.g + step * (g - here.g))
        floor = here.value - ROUNDING * here.size if best is None else best.value
        if best is not None and new.value <= floor:
            return best
        if new.value >= floor:
            best = new
            if step == 1.0:
                return best
        step *= 0.5
    return best


def evaluator(model: LatentModel, observed: Observed) -> Callable[[Array], Local]:
    """Return what the mode is searched with: g to log p and its derivatives."""
    return lambda g: model.likelihood.local(observed.seen, g)
