"""Random shapes and memory layouts through one compiled kernel."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import problems
import tolerances
from laws import COMPOSITE
from precog import Gram
from strategies import FORMS, in_form, matrices
from tolerances import assert_within

rows = st.integers(320, 700)


@given(
    matrices(3, rows), matrices(3, rows), st.sampled_from(FORMS), st.sampled_from(["float64", "float32"]), st.booleans()
)
@settings(max_examples=20)
def test_fused_is_the_dense_matrix(X, Z, form, dtype, rectangular):
    K = Gram(COMPOSITE, X, Z if rectangular else None, dtype=dtype)
    dense = COMPOSITE(X, K.Z)
    V = in_form(problems.right_hand_sides(K.shape[1]), form)
    assert_within(K @ V, dense @ np.asarray(V), tolerances.product(dense, V, dtype))
    assert K.path == "fused"
    assert_within(K.dense(), dense, tolerances.entry(dense, dtype))


@given(matrices(3, st.integers(2, 30)), st.data())
@settings(max_examples=60)
def test_blocks_are_parts_of_the_dense_matrix(X, data):
    K, n = Gram(COMPOSITE, X), len(X)
    chosen = st.one_of(
        st.slices(n),
        st.lists(st.integers(-n, n - 1), max_size=2 * n),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
        st.integers(-n, n - 1).map(lambda i: [i]),
    )
    i, j = data.draw(chosen), data.draw(chosen)
    dense = COMPOSITE(X)
    assert_within(K.block(i, j), dense[numbers(n, i)][:, numbers(n, j)], tolerances.entry(dense))


def numbers(n: int, chosen) -> np.ndarray:
    return np.arange(n)[np.array(chosen, int) if isinstance(chosen, list) else chosen]
