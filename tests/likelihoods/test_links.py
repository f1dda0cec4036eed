"""The probit's derivatives in the far tails, against Mills' ratio by its continued fraction in sixty digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.stats

from precog.likelihoods import links

# Levels of the continued fraction; it converges the faster the larger its argument.
LEVELS = 3000


def exact(z):
    """Return the first three derivatives of log Φ at a z < -2."""
    with localcontext() as context:
        context.prec = 60
        x, tail = Decimal(-z), Decimal(0)
        for k in range(LEVELS, 0, -1):
            tail = Decimal(k) / (x + tail)
        r = x + tail
        w = r * tail
        return [float(value) for value in (r, -w, r * (tail * tail + w - 1))]


@pytest.mark.parametrize("z", [-1e4, -300.0, -60.0, -40.0, -25.1, -24.9, -8.0, -3.0])
def test_probit_keeps_its_digits_on_the_left(z):
    found = [float(order[0]) for order in links.log_probability("probit", np.array([z]))]
    assert found[0] == pytest.approx(scipy.stats.norm.logcdf(z), rel=1e-12)
    for mine, truth, digits in zip(found[1:], exact(z), (1e-14, 1e-12, 1e-7), strict=True):
        assert mine == pytest.approx(truth, rel=digits)


@pytest.mark.parametrize("link", links.LINKS)
def test_nothing_is_left_far_on_the_right(link):
    for order in links.log_probability(link, np.array([50.0, 1e3, 1e6])):
        assert (np.abs(order) < 1e-20).all()


@pytest.mark.parametrize("variance", [0.0, 0.5, 30.0, 1e4, 1e6])
def test_averaged_probabilities(variance):
    mean = np.array([-3.0, 0.0, 0.4, 20.0])
    for link in links.LINKS:
        up, down = (links.averaged(link, s * mean, np.full(4, variance)) for s in (1, -1))
        assert np.allclose(up + down, 1.0, atol=1e-12)
        f = mean[:, None] + np.sqrt(variance) * np.linspace(-9, 9, 2_000_001)
        weights = np.exp(-0.5 * np.linspace(-9, 9, 2_000_001) ** 2)
        expected = links.probability(link, f) @ weights / weights.sum()
        assert np.allclose(up, expected, atol=1e-9)
