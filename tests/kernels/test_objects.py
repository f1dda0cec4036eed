"""Kernels on things that are no rows of numbers, alone and in expressions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import problems
import tolerances
from laws import assert_gradient
from precog import RBF, Gram, Pairwise, Precomputed, White
from tolerances import assert_within

F = problems.normal(60, 5)
STORED = F @ F.T / 5
WORDS = ["kernel", "kennel", "colonel", "corner", "current", "kettle", "cattle"]


def shared_letters(a: str, b: str) -> float:
    return float(len(set(a) & set(b)))


LETTERS = np.array([[shared_letters(a, b) for b in WORDS] for a in WORDS])


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("kind", [int, float])
def test_precomputed_takes_row_numbers(shape, kind):
    rows, columns = np.array([3, 0, 7, 3]), np.array([5, 1])
    K = Precomputed(STORED)(rows.reshape(shape).astype(kind), columns.reshape(shape).astype(kind))
    assert np.array_equal(K, STORED[np.ix_(rows, columns)])
    assert np.array_equal(Precomputed(STORED).diag(rows.reshape(shape)), np.diagonal(STORED)[rows])


def test_pairwise_calls_the_function_for_each_pair():
    kernel = Pairwise(shared_letters)
    assert np.array_equal(kernel(WORDS), LETTERS)
    assert np.array_equal(kernel(WORDS[:3], WORDS[2:]), LETTERS[:3, 2:])
    assert np.array_equal(kernel.diag(WORDS), np.diagonal(LETTERS))


OBJECTS = [(Precomputed(STORED), np.arange(60), STORED), (Pairwise(shared_letters), WORDS, LETTERS)]


@pytest.mark.parametrize(("kernel", "items", "dense"), OBJECTS, ids=["precomputed", "pairwise"])
def test_in_an_expression_through_gram(kernel, items, dense):
    expression = 2.0 * kernel**2 + 0.5 + White(0.3)
    expected = 2.0 * dense**2 + 0.5 + 0.3 * np.eye(len(dense))
    K, V = Gram(expression, items), problems.right_hand_sides(len(dense))
    assert_within(K @ V, expected @ V, tolerances.product(expected, V))
    assert K.path == "objects"
    assert_within(K.dense(), expected, tolerances.entry(expected))
    assert_within(K.block([1, 0], [0, 1, 2]), expected[[1, 0]][:, :3], tolerances.entry(expected))
    assert_within(K.diag(), np.diagonal(expected), tolerances.entry(expected))
    assert_within(expression.diag(items), np.diagonal(expected), tolerances.entry(expected))
    assert_gradient(K, V, problems.right_hand_sides(len(dense), seed=5))


@pytest.mark.parametrize(("kernel", "items", "dense"), OBJECTS, ids=["precomputed", "pairwise"])
def test_between_two_sets(kernel, items, dense):
    K, V = Gram(2.0 * kernel + White(0.3), items, items[:4]), problems.right_hand_sides(4)
    assert K.shape == (len(dense), 4)
    assert_within(K @ V, 2.0 * dense[:, :4] @ V, tolerances.product(2.0 * dense[:, :4], V))
    W = problems.right_hand_sides(len(dense))
    assert_within(K.rmatmat(W), 2.0 * dense[:4] @ W, tolerances.product(2.0 * dense[:4], W))
    assert_within(K.diag(), 2.0 * np.diagonal(dense)[:4], tolerances.entry(dense))
    assert_gradient(K, W, V)


def test_products_larger_than_a_block():
    """More entries than one block holds: stripes of rows, put together in order."""
    n = 400
    G = problems.normal(n, 4)
    kernel, V = 0.5 * Precomputed(G @ G.T) + White(0.1), problems.right_hand_sides(n)
    dense = 0.5 * G @ G.T + 0.1 * np.eye(n)
    K = Gram(kernel, np.arange(n))
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.path == "objects"
    assert_gradient(K, V, V)


def test_precomputed_is_compared_by_content():
    kernel = Precomputed(STORED)
    assert kernel == Precomputed(STORED.copy())
    assert hash(kernel) == hash(Precomputed(STORED.copy()))
    assert kernel != Precomputed(2 * STORED)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert repr(kernel) == "Precomputed(matrix=<60 x 60>)"
    assert pickle.loads(pickle.dumps(Pairwise(shared_letters))) == Pairwise(shared_letters)


def test_precomputed_keeps_its_values():
    """Equality goes by a digest, so what was given may not change what was digested."""
    mine = STORED.copy()
    kernel, rows = Precomputed(mine), np.arange(60)
    mine[0, 0] += 1.0
    assert np.array_equal(kernel(rows), STORED)
    with pytest.raises(ValueError, match="read-only"):
        kernel.matrix[0, 0] = 0.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (STORED[:, :3], "square"),
        (np.where(np.eye(60) > 0, np.nan, STORED), "row 0 of matrix is not finite"),
        (np.triu(np.ones((3, 3))), r"not symmetric; entries \(0, 1\) and \(1, 0\)"),
        (np.array([["a"]]), "numeric"),
    ],
)
def test_precomputed_needs_a_symmetric_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        Precomputed(matrix)


@pytest.mark.parametrize("rows", [[60], [-1], [0.5]])
def test_precomputed_refuses_rows_that_it_does_not_have(rows):
    with pytest.raises((ValueError, IndexError), match="row"):
        Precomputed(STORED)(np.array(rows))


def test_wrong_uses_say_what_is_wrong():
    with pytest.raises(TypeError, match="callable with two objects"):
        Pairwise("function")
    with pytest.raises(ValueError, match="empty"):
        Gram(Pairwise(shared_letters), [])
    with pytest.raises(TypeError, match="no derivative in its inputs"):
        Gram(Pairwise(shared_letters), WORDS).grad_inputs(np.ones(7), np.ones(7))


def test_objects_and_rows_do_not_mix():
    """Words have no columns for the RBF kernel to look at."""
    with pytest.raises((TypeError, ValueError), match="RBF"):
        Gram(Pairwise(shared_letters) + RBF(), WORDS) @ np.ones(7)
