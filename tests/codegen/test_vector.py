"""The vector functions against NumPy in higher precision, and the same loops for narrower registers."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from numba import njit

from precog.codegen import registers, vector

LANES = vector.BYTES // 4
FAST = {"contract", "reassoc", "nsz", "nnan", "ninf", "arcp", "afn"}


@functools.cache
def loop_of_one(name):
    """Return a compiled loop that applies a vector function to an array."""
    function, load, store = getattr(vector, name), registers.load, registers.store

    @njit(fastmath=FAST)
    def loop(x, out, lanes):
        for j in range(0, x.shape[0], lanes):
            store(out, j, function(load(x, j)))

    return loop


@functools.cache
def loop_of_two(name):
    function, load, store = getattr(vector, name), registers.load, registers.store

    @njit(fastmath=FAST)
    def loop(x, y, out, lanes):
        for j in range(0, x.shape[0], lanes):
            store(out, j, function(load(x, j), load(y, j)))

    return loop


def whole(x):
    """Return x filled up to whole vectors with its last entry."""
    return np.ascontiguousarray(np.pad(x, (0, -len(x) % LANES), mode="edge"))


def apply(name, *arrays):
    filled = [whole(x) for x in arrays]
    out = np.empty_like(filled[0])
    loop = loop_of_one(name) if len(arrays) == 1 else loop_of_two(name)
    loop(*filled, out, vector.BYTES // filled[0].itemsize)
    return out[: len(arrays[0])]


def assert_close(got, exact, ulps):
    """Compare with values in extended precision, in units of the last place of the type of `got`."""
    unit = np.spacing(np.abs(exact).astype(got.dtype)).astype(np.longdouble)
    error = np.abs(got.astype(np.longdouble) - exact) / unit
    worst = int(np.argmax(error))
    assert error[worst] <= ulps, f"{float(error[worst]):.1f} ulp at entry {worst}: {got[worst]!r} for {exact[worst]!r}"


def extended(x):
    return x.astype(np.longdouble)


DTYPES = [np.float32, np.float64]
SMALLEST = {np.float32: -126.0, np.float64: -1022.0}
both_types = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])

# The polynomials are good to about half a unit in the last place; rounding in their evaluation adds the rest.
ULPS = 4.0


@both_types
def test_exp2_over_its_whole_range(dtype):
    rng = np.random.default_rng(0)
    low, high = SMALLEST[dtype], -SMALLEST[dtype]
    x = np.concatenate(
        [rng.uniform(low, high, 4000), rng.normal(size=1000), np.arange(low, high), [0.0, -0.0, 0.5, -0.5]]
    )
    x = x.astype(dtype)
    assert_close(apply("exp2", x), np.exp2(extended(x)), ULPS)


@both_types
def test_exp2_is_exact_at_whole_numbers(dtype):
    x = np.arange(SMALLEST[dtype], 1.0 - SMALLEST[dtype]).astype(dtype)
    np.testing.assert_array_equal(apply("exp2", x), np.exp2(x))


@both_types
def test_exp2_underflows_to_the_smallest_normal_number(dtype):
    x = np.array([SMALLEST[dtype] - 0.5, 2 * SMALLEST[dtype], -1e30], dtype)
    got = apply("exp2", x)
    assert (got >= 0).all()
    assert (got <= 1.5 * np.finfo(dtype).tiny).all()


@both_types
def test_log2_over_its_whole_range(dtype):
    rng = np.random.default_rng(1)
    x = np.exp2(rng.uniform(SMALLEST[dtype], -SMALLEST[dtype], 5000)).astype(dtype)
    assert_close(apply("log2", x), np.log2(extended(x)), ULPS)


@both_types
def test_log2_keeps_its_digits_near_one(dtype):
    eps = np.finfo(dtype).eps
    steps = np.concatenate([np.geomspace(eps, 0.4, 500), -np.geomspace(eps, 0.4, 500)])
    x = (1.0 + steps).astype(dtype)
    assert_close(apply("log2", x), np.log2(extended(x)), ULPS)


@both_types
def test_log2_of_zero_and_of_subnormal_numbers_is_finite_and_small(dtype):
    x = np.array([0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny / 3], dtype)
    got = apply("log2", x)
    assert np.isfinite(got).all()
    assert (got <= SMALLEST[dtype]).all()


@both_types
def test_log1p_over_its_whole_range(dtype):
    rng = np.random.default_rng(2)
    tiny = np.geomspace(np.finfo(dtype).tiny * 2, 1.0, 3000)
    x = np.concatenate([tiny, np.geomspace(1.0, 1e30, 2000), rng.uniform(-0.4, 3.0, 1000), -tiny[:2900] / 2])
    x = x.astype(dtype)
    assert_close(apply("log1p", x), np.log1p(extended(x)), ULPS)


@both_types
def test_log1p_of_zero_is_zero(dtype):
    np.testing.assert_array_equal(apply("log1p", np.zeros(1, dtype)), 0.0)


@both_types
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine(name, dtype):
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-100.0, 100.0, 4000), np.linspace(-7.0, 7.0, 1001), [0.0, 1e-20]]).astype(dtype)
    exact = getattr(np, name)(extended(x))
    got = apply(name, x)
    # Near a zero of the function the digits of π run out: the error is small against one, not against the value.
    np.testing.assert_allclose(got.astype(np.longdouble), exact, rtol=0, atol=2.0 * np.finfo(dtype).eps)
    large = np.abs(exact) > 0.1
    assert_close(got[large], exact[large], ULPS)


@both_types
def test_sine_of_a_small_angle_is_the_angle(dtype):
    x = np.geomspace(np.finfo(dtype).tiny * 4, 1e-5, 500).astype(dtype)
    assert_close(apply("sin", x), np.sin(extended(x)), ULPS)


@both_types
def test_sqrt_is_rounded_correctly(dtype):
    x = np.concatenate([[0.0, 1.0, 2.0], np.geomspace(np.finfo(dtype).tiny, 1e30, 3000)]).astype(dtype)
    # Under `afn` a reciprocal root with one Newton step may stand in for the root.
    assert_close(apply("sqrt", x), np.sqrt(extended(x)), 2.0)


@both_types
def test_absolute_and_step(dtype):
    x = np.array([-math.inf, -2.5, -1e-30, -0.0, 0.0, 1e-30, 2.5, math.inf], dtype)[1:-1]
    np.testing.assert_array_equal(apply("absolute", x), np.abs(x))
    np.testing.assert_array_equal(apply("step", x), np.heaviside(x, 0.5))


@both_types
def test_least_and_greatest(dtype):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 100)).astype(dtype)
    y[:10] = x[:10]
    np.testing.assert_array_equal(apply("least", x, y), np.minimum(x, y))
    np.testing.assert_array_equal(apply("greatest", x, y), np.maximum(x, y))


NARROW = """
import numpy as np
import precog
from precog.codegen import build, vector
from precog.codegen.layout import Shape
from precog.codegen.plan import trace

assert vector.BYTES == {width}
rng = np.random.default_rng(0)
X, v = rng.normal(size=(400, 2)), rng.normal(size=400)
for kernel in (precog.RBF([0.7, 1.1]), 1.3 * precog.Matern12(0.9)):
    K = precog.Gram(kernel, X)
    got, exact = K @ v, kernel(X) @ v
    assert K.path == "fused", K.path
    print(np.abs(got - exact).max() / np.abs(kernel(X)).sum(axis=1).max())
"""


@pytest.mark.parametrize("width", [32, 16])
def test_narrower_registers_give_the_same_product(width, run, tmp_path):
    out, _ = run(NARROW.format(width=width), PRECOG_VECTOR_BYTES=str(width), PRECOG_CACHE_DIR=str(tmp_path))
    errors = [float(line) for line in out.split()]
    assert len(errors) == 2
    assert max(errors) < 1e-13
    texts = [file.read_text() for file in tmp_path.glob("*.py")]
    assert len(texts) == 2
    assert all(f"{8 * width}-bit vectors" in text for text in texts)


@pytest.mark.parametrize("value", ["24", "", "wide"])
def test_impossible_register_width_is_refused(value, start):
    process = start("import precog.codegen.vector", PRECOG_VECTOR_BYTES=value)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"ValueError: PRECOG_VECTOR_BYTES must be 16, 32 or 64, got {value!r}" in err
