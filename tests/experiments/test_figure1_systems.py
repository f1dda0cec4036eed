"""The systems of Figure 1: the published matrix, and products that lose no digits where all entries are near one."""

from __future__ import annotations

import numpy as np
import pytest

import tolerances
from precog.experiments.figure1_rows import Cell
from precog.experiments.figure1_systems import FromOne, System, standardized
from precog.operators import Noisy
from problems import noisy_values, normal

X = normal(300, 3)


@pytest.mark.parametrize(("cell", "near_one"), [(Cell(0, -2), False), (Cell(1, -4), True), (Cell(2, -6), True)])
def test_products_are_those_of_the_published_matrix(cell, near_one):
    y = noisy_values(X)
    system = System.of(X, y, cell)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    noise = 10.0**cell.log10_noise + 1e-9
    dense = np.exp(-0.5 * squared / 100.0**cell.log10_length_scale) + noise * np.eye(len(X))
    V = normal(len(X), 2)
    assert isinstance(system.A, Noisy)
    assert isinstance(system.products, FromOne if near_one else Noisy)
    assert system.products.shape == dense.shape
    assert system.products.dtype == np.float64
    np.testing.assert_allclose(system.products @ V, dense @ V, atol=tolerances.product(dense, V))
    np.testing.assert_allclose(system.products.dense(), dense, atol=tolerances.entry(dense))
    np.testing.assert_allclose(system.products.diag(), np.diagonal(dense), atol=tolerances.entry(dense))
    assert system.y is y


@pytest.mark.skipif(np.finfo(np.longdouble).eps >= tolerances.EPS, reason="this machine has no extended precision")
def test_sums_near_zero_keep_their_digits():
    """Products with directions orthogonal to the vector of ones, as conjugate gradients make them."""
    system = System.of(X, noisy_values(X), Cell(2, -6))
    V = normal(len(X), 20)
    V -= V.mean(axis=0)
    exact = system.A.dense().astype(np.longdouble) @ V.astype(np.longdouble)
    errors = [float(np.linalg.norm(A @ V - exact)) for A in (system.A, system.products)]
    assert errors[1] < 0.25 * errors[0]


def test_data_are_standardised():
    inputs, y = standardized("concrete")
    assert inputs.shape == (1030, 8)
    for values in (inputs, y):
        np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(values.std(axis=0), 1.0, atol=1e-12)
