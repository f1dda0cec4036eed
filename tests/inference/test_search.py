"""Searches on objectives whose optimum is known."""

from dataclasses import dataclass

import numpy as np
import pytest

from precog.inference.search import History, adagrad, curvature, lbfgs, quasi_newton

BOUNDS = np.array([[-5.0, 5.0]] * 3)
OPTIMUM = np.array([1.0, -2.0, 0.5])
SCALE = np.array([[400.0, 100.0, 0.0], [100.0, 300.0, 50.0], [0.0, 50.0, 200.0]])


@dataclass
class Point:
    value: float
    gradient: np.ndarray
    covariance: np.ndarray
    value_se: float = 0.1


class Bowl:
    """-½ (θ - θ*)' S (θ - θ*), a little bent, with noise on the gradient that is the same everywhere."""

    def __init__(self, noise=0.0):
        self.noise = noise * np.random.default_rng(0).standard_normal(3)
        self.covariance = noise**2 * np.eye(3)

    def __call__(self, theta):
        t = theta - OPTIMUM
        bend = 1.0 + 0.1 * t @ t
        pull = SCALE @ t
        return Point(-0.5 * bend * t @ pull, -bend * pull - 0.1 * (t @ pull) * t + self.noise, self.covariance)


def test_lbfgs_finds_the_optimum_and_avoids_what_has_no_value():
    bowl = Bowl()

    def risky(theta):
        if theta[0] > 3.0:
            raise ArithmeticError("not positive definite")
        return bowl(theta)

    history = History()
    found = lbfgs(risky, np.array([2.9, 4.0, -4.0]), BOUNDS, history, max_iter=100, gain=1e-6)
    assert found.converged
    assert np.allclose(found.theta, OPTIMUM, atol=1e-3)
    assert found.value == max(row["value"] for row in history.rows)


def test_lbfgs_says_when_there_is_nowhere_to_start():
    def never(theta):
        raise ArithmeticError

    with pytest.raises(ArithmeticError, match="start with more noise"):
        lbfgs(never, np.zeros(3), BOUNDS, History(), max_iter=10)


@pytest.mark.parametrize("start", [SCALE, 50.0 * np.eye(3), 3000.0 * np.eye(3)], ids=["right", "weak", "strong"])
def test_quasi_newton_ends_within_its_noise(start):
    bowl, history = Bowl(noise=5.0), History()
    found = quasi_newton(bowl, np.array([3.0, 1.0, -2.0]), BOUNDS, start, 1000, history, max_iter=60)
    assert found.converged
    assert "noise alone" in found.why
    # Noise moves the optimum by S⁻¹ noise; the search may stop one standard gain of it away.
    assert np.abs(found.theta - OPTIMUM).max() < 5 * 5.0 / np.linalg.eigvalsh(SCALE)[0]


def test_quasi_newton_stays_in_bounds():
    bounds = np.array([[-5.0, 0.0], [-5.0, 5.0], [-5.0, 5.0]])
    found = quasi_newton(Bowl(), np.array([-3.0, 1.0, -2.0]), bounds, SCALE, 1000, History(), max_iter=60)
    assert found.converged
    assert found.theta[0] == 0.0


def test_searches_keep_the_best_point_when_interrupted():
    def interrupted_after(calls):
        bowl, left = Bowl(noise=1.0), [calls]

        def evaluate(theta):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return bowl(theta)

        return evaluate

    theta = np.array([3.0, 1.0, -2.0])
    for search in (
        lambda f: lbfgs(f, theta, BOUNDS, History(), max_iter=50),
        lambda f: quasi_newton(f, theta, BOUNDS, SCALE, 1000, History(), max_iter=50),
        lambda f: adagrad(f, theta, BOUNDS, History(), steps=50),
    ):
        found = search(interrupted_after(6))
        assert found.interrupted
        assert not found.converged
        assert found.value > Bowl()(theta).value
        with pytest.raises(KeyboardInterrupt):
            search(interrupted_after(0))


def test_adagrad_takes_its_first_step_of_one():
    history = History()
    adagrad(Bowl(), np.zeros(3), BOUNDS, history, steps=2)
    assert np.allclose(np.abs(history.rows[1]["theta"]), 1.0, atol=1e-6)


def test_curvature_is_minus_the_second_derivative():
    H = curvature(lambda t: -SCALE @ (t - OPTIMUM), np.zeros(3), 1000)
    assert np.allclose(H, SCALE, rtol=1e-6, atol=1e-6)
    bent = curvature(lambda t: np.array([1.0, -1.0, 0.0]) * 300.0 * t, np.zeros(3), 1000)
    assert np.allclose(np.linalg.eigvalsh(bent), [10.0, 300.0, 300.0], rtol=1e-6)
