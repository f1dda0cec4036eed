"""Ways to the most likely hyperparameters: L-BFGS on an exact objective, quasi-Newton and AdaGrad on noisy gradients.

Each takes a function that evaluates a point and maximises it; the history keeps every evaluation, so that a search that
is interrupted leaves its best point behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.optimize

from precog.kernels.statistics import Array

# An exact search stops when a step gains less than this many nats.
EXACT_GAIN = 1e-3
# Where the exact objective has no value: far below any it has, and finite for the line search.
NOWHERE = -1e25
# Longest step of a logarithm at first, at most, and as it must not become for the search to go on.
FIRST_RADIUS, LARGEST_RADIUS, SMALLEST_RADIUS = 0.7, 2.0, 1e-3
# A noisy search stops when a step promises less than this many nats a row, or less than noise alone would.
GAIN_PER_ROW = 2e-5
# It also stops after so many steps that kept no such promise.
IDLE_STEPS = 2
ADAGRAD_EPSILON = 1e-6


class Point(Protocol):
    """What an evaluation gives back."""

    @property
    def value(self) -> float: ...

    @property
    def gradient(self) -> Array: ...


class NoisyPoint(Point, Protocol):
    @property
    def value_se(self) -> float: ...

    @property
    def covariance(self) -> Array: ...


@dataclass
class History:
    """Every evaluation as a row, and who is to hear of it; what a listener raises ends the search and leaves the rows.

    inside: who is to hear of the steps of solves, which come far more often, as a solver's callback does.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    listener: Callable[[dict[str, Any]], None] | None = None
    inside: Callable[[int, Array], None] | None = None
    started: float = field(default_factory=time.perf_counter)

    def add(self, stage: str, theta: Array, value: float, gradient: Array, **more: Any) -> None:
        row = {
            "stage": stage,
            "seconds": time.perf_counter() - self.started,
            "theta": theta.copy(),
            "value": float(value),
            "gradient_norm": float(np.linalg.norm(gradient)),
            **more,
        }
        self.rows.append(row)
        if self.listener is not None:
            self.listener(row)


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended, the value there, whether it converged or was interrupted, and why it ended."""

    theta: Array
    value: float
    converged: bool
    interrupted: bool
    why: str


def lbfgs(
    evaluate: Callable[[Array], Point],
    theta: Array,
    bounds: Array,
    history: History,
    *,
    max_iter: int,
    stage: str = "exact",
    gain: float = EXACT_GAIN,
) -> Found:
    """Maximise an exact objective from theta; points at which it raises ArithmeticError are avoided."""
    best: list[Any] = [theta.copy(), -np.inf]
    last: list[Any] = [None, None]

    def negative(x: Array) -> tuple[float, Array]:
        # The first point is asked for twice: for the size of the tolerances, and by the search.
        if last[0] is None or not np.array_equal(x, last[0]):
            last[:] = x.copy(), uncached(x)
        value: tuple[float, Array] = last[1]
        return value

    def uncached(x: Array) -> tuple[float, Array]:
        try:
            point = evaluate(x)
        except ArithmeticError:
            return -NOWHERE, np.zeros_like(x)
        history.add(stage, x, point.value, point.gradient)
        if point.value > best[1]:
            best[:] = [x.copy(), point.value]
        return -point.value, -point.gradient

    if not theta.size:
        return Found(theta, float(-negative(theta)[0]), True, False, "nothing is free")
    try:
        size = abs(negative(theta)[0])
        options = {"maxiter": max_iter, "ftol": gain / max(size, 1.0), "gtol": 1e-6 * max(size, 1.0)}
        minimize: Any = scipy.optimize.minimize
        result = minimize(negative, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    except KeyboardInterrupt:
        if not np.isfinite(best[1]):
            raise
        return Found(best[0], best[1], False, True, "interrupted")
    if not np.isfinite(best[1]):
        raise ArithmeticError(
            "K + noise is not positive definite as computed at the first hyperparameters: start with more noise, or "
            "check that the kernel is positive definite on these inputs"
        )
    return Found(best[0], float(best[1]), bool(result.success), False, str(result.message))


def quasi_newton(
    evaluate: Callable[[Array], NoisyPoint],
    theta: Array,
    bounds: Array,
    curvature: Array,
    rows: int,
    history: History,
    *,
    max_iter: int,
) -> Found:
    """Maximise from gradients whose error is known, in steps H⁻¹g within a radius, H updated by BFGS.

    curvature: H at the start, minus the second derivative. The gain of a step s is judged by ½ s'(g + g'), the
    trapezoidal rule, which with the same probes at both ends is less noisy than a difference of values.
    """
    H, radius = curvature.copy(), FIRST_RADIUS
    theta = np.clip(theta, *bounds.T)
    value = -np.inf
    try:
        point = evaluate(theta)
        value, g = point.value, point.gradient
        history.add("stochastic", theta, value, g, value_se=point.value_se)
        idle = 0
        for _ in range(max_iter):
            step = _step(H, g, theta, bounds, radius)
            promised, chance = _gain(H, g, step), _chance(H, point.covariance, step)
            enough = max(GAIN_PER_ROW * rows, chance)
            if promised <= enough:
                return Found(
                    theta, value, True, False, f"a further step promises {promised:.2g} nats, noise alone {chance:.2g}"
                )
            new = evaluate(theta + step)
            gained = 0.5 * float(step @ (g + new.gradient))
            more = {"value_se": new.value_se, "promised": promised, "gained": gained, "chance": chance}
            history.add("stochastic", theta + step, new.value, new.gradient, **more)
            H = _updated(H, step, g - new.gradient)
            if gained > 0:
                idle = idle + 1 if gained <= enough else 0
                longest = float(np.abs(step).max())
                if gained > 0.5 * promised:
                    radius = min(max(radius, 2.0 * longest), LARGEST_RADIUS)
                theta, point, value, g = theta + step, new, new.value, new.gradient
            else:
                radius = 0.25 * float(np.abs(step).max())
                if radius < SMALLEST_RADIUS:
                    return Found(theta, value, True, False, "no step gains anything")
            if idle == IDLE_STEPS:
                return Found(theta, value, True, False, f"{idle} steps gained no more than {enough:.2g} nats each")
    except KeyboardInterrupt:
        if not np.isfinite(value):
            raise
        return Found(theta, value, False, True, "interrupted")
    return Found(theta, value, False, False, f"{max_iter} steps, as many as were allowed")


def adagrad(
    evaluate: Callable[[Array], NoisyPoint], theta: Array, bounds: Array, history: History, *, steps: int
) -> Found:
    """Take so many steps g / √Σg² of AdaGrad, with step one, and end where they lead [Cutajar16 section 5]."""
    total, value = np.zeros_like(theta), np.nan
    for k in range(steps):
        try:
            point = evaluate(theta)
        except KeyboardInterrupt:
            if not k:
                raise
            return Found(theta, value, False, True, "interrupted")
        value = point.value
        history.add("adagrad", theta, value, point.gradient, value_se=point.value_se)
        total += point.gradient**2
        theta = np.clip(theta + point.gradient / (np.sqrt(total) + ADAGRAD_EPSILON), *bounds.T)
    return Found(theta, value, True, False, f"{steps} steps, as many as were asked for")


def _free(g: Array, theta: Array, bounds: Array) -> Array:
    """Return which entries are not held by a bound that they would cross."""
    low, high = bounds.T
    free: Array = ~(((theta <= low) & (g < 0)) | ((theta >= high) & (g > 0)))
    return free


def _step(H: Array, g: Array, theta: Array, bounds: Array, radius: float) -> Array:
    """Return H⁻¹g over the free entries, no entry longer than the radius, inside the bounds."""
    free, step = _free(g, theta, bounds), np.zeros_like(g)
    if free.any():
        step[free] = np.linalg.solve(H[np.ix_(free, free)], g[free])
    longest = float(np.abs(step).max(initial=0.0))
    if longest > radius:
        step *= radius / longest
    return np.clip(theta + step, *bounds.T) - theta


def _gain(H: Array, g: Array, step: Array) -> float:
    return float(g @ step - 0.5 * step @ H @ step)


def _chance(H: Array, covariance: Array, step: Array) -> float:
    """Return the gain that a step would promise if the gradient were its own error: ½ tr(H⁻¹ Cov)."""
    moved = step != 0
    if not moved.any():
        return 0.0
    part = np.ix_(moved, moved)
    return 0.5 * float(np.trace(np.linalg.solve(H[part], covariance[part])))


def _updated(H: Array, s: Array, y: Array) -> Array:
    """Return the BFGS update, damped by Powell's rule so that H stays positive definite."""
    Hs = H @ s
    sHs, sy = float(s @ Hs), float(s @ y)
    if sHs <= 0:
        return H
    if sy < 0.2 * sHs:
        t = 0.8 * sHs / (sHs - sy)
        y = t * y + (1.0 - t) * Hs
        sy = float(s @ y)
    return H - np.outer(Hs, Hs) / sHs + np.outer(y, y) / sy


def curvature(gradient: Callable[[Array], Array], theta: Array, rows: int, *, step: float = 1e-3) -> Array:
    """Return minus the second derivative from differences of an exact gradient, made positive definite.

    Directions that bend the wrong way or not at all get a curvature of one hundredth a row.
    """
    q = len(theta)
    J = np.array([(gradient(theta - step * e) - gradient(theta + step * e)) / (2.0 * step) for e in np.eye(q)])
    values, vectors = scipy.linalg.eigh(0.5 * (J + J.T))
    bent: Array = (vectors * np.maximum(np.abs(values), 1e-2 * rows)) @ vectors.T
    return bent
