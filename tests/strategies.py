"""Random kernels and random arrays, for tests by property."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import problems
from precog import RBF, Constant, Linear, Matern12, Matern32, Matern52, Periodic, Polynomial, RationalQuadratic, White
from precog.kernels import Kernel


def scales(low: float = 0.5, high: float = 3.0) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False)


@st.composite
def leaves(draw: st.DrawFn, features: int) -> Kernel:
    """Return a leaf on some or all of the columns, with one length scale or one for each."""
    columns = draw(st.none() | st.lists(st.integers(0, features - 1), min_size=1, unique=True))
    width = features if columns is None else len(columns)
    scale = draw(scales() | st.lists(scales(), min_size=width, max_size=width))
    kind = draw(st.sampled_from(["stationary", "rational", "periodic", "linear", "polynomial", "constant", "white"]))
    if kind == "stationary":
        return draw(st.sampled_from([RBF, Matern12, Matern32, Matern52]))(scale, columns=columns)
    if kind == "rational":
        return RationalQuadratic(scale, alpha=draw(scales()), columns=columns)
    if kind == "periodic":
        return Periodic(scale, period=draw(scales(3.0, 6.0)), columns=columns)
    if kind == "linear":
        return Linear(scale, columns=columns, length_scale_bounds=draw(st.sampled_from(["fixed", (1e-3, 1e3)])))
    if kind == "polynomial":
        return Polynomial(scale, offset=draw(scales()), degree=draw(st.integers(1, 2)), columns=columns)
    return Constant(draw(scales())) if kind == "constant" else White(draw(scales()))


def expressions(features: int) -> st.SearchStrategy[Kernel]:
    """Return sums, products, multiples and squares of leaves."""
    return st.recursive(
        leaves(features),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
            st.tuples(scales(), inner).map(lambda pair: pair[0] * pair[1]),
            inner.map(lambda kernel: kernel**2),
        ),
        max_leaves=4,
    )


FORMS = ("C", "F", "strided", "reversed", "read-only", "integer", "float32", "list")


def in_form(A: Any, form: str) -> Any:
    """Return the same numbers (rounded, where the form is of whole numbers) in another memory layout or type."""
    if form == "F":
        return np.asfortranarray(A)
    if form == "strided":
        wide = np.full((2 * A.shape[0], 3 * A.shape[1]), np.nan)
        wide[::2, ::3] = A
        return wide[::2, ::3]
    if form == "reversed":
        return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]
    if form == "read-only":
        A = A.copy()
        A.flags.writeable = False
        return A
    if form == "integer":
        return np.round(3 * A).astype(np.int32)
    return {"float32": A.astype(np.float32), "list": A.tolist()}.get(form, A)


@st.composite
def matrices(draw: st.DrawFn, columns: int, rows: st.SearchStrategy[int] | None = None) -> Any:
    """Return normal numbers in a random form."""
    n = draw(st.integers(1, 12) if rows is None else rows)
    A = problems.normal(n, columns, seed=draw(st.integers(0, 1000)))
    return in_form(A, draw(st.sampled_from([form for form in FORMS if form != "list"])))
