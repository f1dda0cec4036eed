"""Derivatives of a sparse likelihood in theta and in the inducing inputs, in a second pass over the stripes.

With S = ∂ log N(Y; 0, A)/∂A = ½ (αα' - p A⁻¹), F = K_NM L⁻ᵀ and B = I + F'Λ⁻¹F, whatever depends on Q moves by

    tr(S̄ dQ) = Σ (2 S̄ F L⁻¹) ∘ dK_NM - Σ (L⁻ᵀ F'S̄F L⁻¹) ∘ dK_MM,    A⁻¹F = Λ⁻¹F B⁻¹,   F'A⁻¹F = I - B⁻¹

where S̄ = S (SoR, DTC), S + ½ p D⁻¹ (VFE, from its trace), or S less the part of it that belongs to Λ (FITC, PITC).
For the first three the weights of a stripe are one product, L⁻ᵀW α' + p L⁻ᵀ(c I - B⁻¹) F'D⁻¹ with c = 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from precog.kernels.statistics import Array
from precog.operators.blockwise import take
from precog.operators.derivative import Theta, add_diagonal, add_white
from precog.operators.weighted import Pairs
from precog.operators.weighted import gradient as weighted_gradient
from precog.sparse.approximations import System
from precog.sparse.parts import Block, Part


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of the likelihood or bound, its derivative in `model.theta`, and in the inducing inputs, (m, d)."""

    value: float
    gradient: Array
    inputs: Array | None
    system: System


def evaluation(system: System, *, moved: bool = False) -> Evaluation:
    """Return the value with its derivatives; moved: in the inducing inputs too."""
    slopes = _Slopes(system, moved=moved)
    keeps = system.how.keeps
    for rows, F in system.F:
        (slopes.plain if keeps == "nothing" else slopes.kept)(rows, F)
    return slopes.finished()


class _Slopes:
    """What the second pass adds up."""

    def __init__(self, system: System, *, moved: bool) -> None:
        self.system, self.model, self.targets = system, system.model, system.targets
        solved, kernel = system.solved, system.model.kernel
        self.W, self.Binv, self.outputs = solved.W, solved.inverse(), self.targets.Y.shape[1]
        m = system.inducing.m
        shift = np.eye(m) if system.how.bound else np.zeros((m, m))
        self.left = self._back(self.W)
        self.fold = self.outputs * self._back(shift - self.Binv)
        self.moved = moved
        self.theta = Theta(kernel)
        self.pairs = Pairs(kernel, self.targets.X, system.inducing.Z, moved=moved)
        self.white = np.zeros(m)
        # F'S̄F, without what `kept` adds to it.
        self.core = 0.5 * (self.W @ self.W.T - self.outputs * (np.eye(m) - self.Binv))
        self.noise_slope = self.targets.noise_slope(self.model)
        self.noise = 0.0
        self.diag = np.zeros(self.targets.n)
        self.blocks = np.zeros(len(kernel.theta))

    def _back(self, A: Array) -> Array:
        """Return L⁻ᵀA."""
        solved = scipy.linalg.solve_triangular(self.system.F.L, A, lower=True, trans=1, check_finite=False)
        return np.asfortranarray(solved)

    def _missing(self, rows: slice, F: Array) -> Array:
        """Return Y' - W'F'."""
        missing: Array = self.targets.Y[rows].T - self.W.T @ F
        return missing

    def plain(self, rows: slice, F: Array) -> None:
        """Λ = D."""
        D, slope = self.system.noise[rows], self.noise_slope[rows]
        alpha = self._missing(rows, F) / D
        dgemm, same = scipy.linalg.blas.dgemm, self.system.part(rows, F).uniform
        weights = dgemm(1.0, self.left, alpha)
        scale, scaled = (1.0, F / D) if same is None else (1.0 / same, F)
        self._cross(rows, dgemm(scale, self.fold, scaled, beta=1.0, c=weights, overwrite_c=1))
        if self.targets.known is None:
            # Σ (1 - leverage), of which `finished` takes the leverage, since all of D moves with the noise.
            S = 0.5 * (np.einsum("pi,pi->i", alpha, alpha) - self.outputs / D)
        else:
            H = scipy.linalg.solve_triangular(self.system.solved.R, F / np.sqrt(D), trans=1, check_finite=False)
            S = self.system.part(rows, F).slope(alpha, H)
        self.noise += float(S @ slope)
        if self.system.how.bound:
            self.diag[rows] = -0.5 * self.outputs / D
            left = self.system.F.left(rows, F)
            self.noise += 0.5 * self.outputs * float((left / D**2) @ slope)

    def kept(self, rows: slice, F: Array) -> None:
        """Λ = D and some of K - Q."""
        part = self.system.part(rows, F)
        H = scipy.linalg.solve_triangular(self.system.solved.R, part.whiten(F), trans=1, check_finite=False)
        alpha = part.unwhiten(part.whiten(self._missing(rows, F)))
        S = part.slope(alpha, H)
        drawn = part.weighted(F, S)
        shared = scipy.linalg.solve_triangular(self.system.solved.R, part.unwhiten(H), check_finite=False)
        weights = self.left @ alpha - self._back(self.outputs * shared + 2.0 * drawn)
        self._cross(rows, np.asfortranarray(weights))
        self.core -= drawn @ F.T
        diagonal = part.diagonal(S)
        self.noise += float(diagonal @ self.noise_slope[rows])
        self._own(rows, part, S)

    def _own(self, rows: slice, part: Part, S: Array) -> None:
        """Take in what weighs K itself."""
        if isinstance(part, Block):
            self.blocks += weighted_gradient(self.model.kernel, take(self.targets.X, rows), S)
        else:
            self.diag[rows] = S

    def _cross(self, rows: slice, weights: Array) -> None:
        """Take in the weights of K_NM, transposed."""
        self.pairs.add_stripes(self.theta, rows, weights.T)
        J = self.system.inducing.rows
        if J is not None:
            here = self.system.inducing.within(rows)
            self.white[here] += weights[here, J[here] - rows.start]

    def finished(self) -> Evaluation:
        system, kernel, Z = self.system, self.model.kernel, self.system.inducing.Z
        core = self.core
        if system.how.bound:
            R = system.solved.R
            core += 0.5 * self.outputs * (R.T @ R - np.eye(len(R)))
        inner = -self._back(self._back(core).T)
        inner = 0.5 * (inner + inner.T)
        # The jitter is a share of the diagonal.
        inner[np.diag_indices_from(inner)] *= 1.0 + system.jitter
        gradient = self.blocks + weighted_gradient(kernel, Z, inner)
        if system.inducing.rows is not None:
            add_white(self.theta, Z, self.white)
        if system.how.keeps == "diagonal" or system.how.bound:
            add_diagonal(self.theta, self.targets.X, self.diag)
        gradient += self.theta.vector()
        if self.model.noise_bounds is not None:
            gradient = np.append(gradient, self._noise())
        inputs = None
        if self.moved:
            pairs = Pairs(kernel, Z, Z, moved=True)
            pairs.add_stripes(Theta(kernel), slice(0, len(inner)), 2.0 * inner)
            inputs = self.pairs.inputs() + pairs.inputs()
        return Evaluation(system.value(), gradient, inputs, system)

    def _noise(self) -> float:
        """Return the derivative in log σ²."""
        _, extra = self.targets.repeats(self.model)
        leverage = 0.0
        if self.system.how.keeps == "nothing" and self.targets.known is None:
            leverage = len(self.Binv) - float(np.trace(self.Binv))
        return self.noise + 0.5 * self.outputs * leverage + extra
