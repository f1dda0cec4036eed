"""The kernel matrix as an operator: which way a product takes, what is compiled, threads, and its diagonal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse.linalg
import sklearn.gaussian_process.kernels as sk

import problems
import tolerances
from laws import COMPOSITE, NESTED, loops_asked_for
from precog import RBF, Gram, Linear, Matern12, Pairwise, Precomputed, White
from precog.codegen import build
from strategies import in_form
from tolerances import assert_within

N, M = problems.LARGE
X, Z = problems.normal(N, 3, seed=1), problems.normal(M, 3, seed=2)
# Enough entries for several threads, and no multiple of a tile or of a block of rows.
MANY_X, MANY_Z = problems.normal(1503, 3, seed=1), problems.normal(1101, 3, seed=2)


@pytest.mark.parametrize(
    ("kernel", "n", "columns", "path"),
    [
        (RBF(), 20, 1, "numpy"),
        (RBF(), 316, 40, "numpy"),
        (RBF(), 317, 1, "fused"),
        (RBF(), 5000, 16, "fused"),
        (RBF(), 5000, 40, "panels"),
        (COMPOSITE, 5000, 1, "fused"),
    ],
)
def test_path(kernel, n, columns, path):
    assert Gram(kernel, np.zeros((n, 3))).path_for(columns) == path


@pytest.mark.parametrize("kernel", [Precomputed(np.eye(5)), 2.0 * Pairwise(max) + White()], ids=str)
def test_objects_have_a_path_of_their_own(kernel):
    assert Gram(kernel, [0, 1, 2]).path_for(1) == "objects"


def test_path_says_what_the_last_product_took():
    K = Gram(RBF(0.8), X)
    assert K.path is None
    for columns, path in ((2, "fused"), (40, "panels"), (2, "fused")):
        K @ problems.right_hand_sides(N, columns)
        assert K.path == path
    small = Gram(RBF(0.8), X[:100])
    before = loops_asked_for()
    small @ problems.right_hand_sides(100)
    assert small.path == "numpy"
    assert loops_asked_for() == before


def compilations() -> int:
    return build._module.cache_info().misses


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_new_values_never_compile(dtype):
    """Neither other hyperparameters nor other inputs; nor the step from products to differences that they may cause."""
    V, W = problems.right_hand_sides(N), problems.right_hand_sides(M)

    def use(kernel, X, Z):
        K, R = Gram(kernel, X, dtype=dtype), Gram(kernel, X, Z, dtype=dtype)
        return K @ V, R @ W, R.dense(), K.grad(V, V), R.grad_inputs(V, W)

    use(RBF([0.5, 1.0, 2.0]), X, Z)
    compiled = compilations()
    for scales in ([0.001, 1.0, 1.0], [1e3, 1e3, 1e3], [1.0, 1.0, 1.0], [1e-3, 1e3, 0.1]):
        use(RBF(scales, length_scale_bounds=(1e-9, 1e9)), X, Z)
    use(RBF([0.5, 1.0, 2.0]), X + 1e4, Z + 1e4)
    assert compilations() == compiled


@pytest.mark.parametrize("value", [0.001, 1e3])
def test_constants_are_not_compiled_in(value):
    V = problems.right_hand_sides(N)
    Gram(COMPOSITE, X) @ V
    compiled = compilations()
    kernel = COMPOSITE.with_theta(np.full(len(COMPOSITE.theta), np.log(value)))
    K, dense = Gram(kernel, X), kernel(X)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert compilations() == compiled


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9, 11, 16, 17, 40])
@pytest.mark.parametrize("rectangular", [False, True])
def test_numbers_of_columns(columns, rectangular):
    K = Gram(RBF(0.8), X, Z if rectangular else None)
    dense, V = K.kernel(K.X, K.Z), problems.right_hand_sides(K.shape[1], columns)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.path == ("panels" if columns >= 17 else "fused")
    W = problems.right_hand_sides(N, columns)
    assert_within(K.rmatmat(W), dense.T @ W, tolerances.product(dense.T, W))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rectangular", [False, True])
def test_panels_of_several_blocks(dtype, rectangular):
    """More rows than one panel holds, of a symmetric matrix of which each panel is visited once."""
    n, m = 2500, 2300
    A, B = problems.normal(n, 3, seed=1), problems.normal(m, 3, seed=2)
    K = Gram(COMPOSITE, A, B if rectangular else None, dtype=dtype)
    dense, V = K.kernel(A, K.Z), problems.right_hand_sides(K.shape[1], 20)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
    assert K.path == "panels"
    W = problems.right_hand_sides(n, 20)
    assert_within(K.rmatmat(W), dense.T @ W, tolerances.product(dense.T, W, dtype))


@pytest.mark.parametrize(
    "sizes", [(317, 317), (512, 512), (513, 513), (1024, 1024), (1, 100_001), (100_001, 1), (7, 15_000)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_shapes(sizes, dtype):
    """Full tiles, one more than full, one row, one column."""
    n, m = sizes
    A, B = problems.normal(n, 3, seed=1), problems.normal(m, 3, seed=2)
    R, V = Gram(RBF(0.8), A, B, dtype=dtype), problems.right_hand_sides(m)
    expected = R.kernel(A, B)
    assert_within(R @ V, expected @ V, tolerances.product(expected, V, dtype))
    assert R.path == "fused"
    assert_within(R.dense(), expected, tolerances.entry(expected, dtype))
    if n == m:
        K, expected = Gram(RBF(0.8), A, dtype=dtype), RBF(0.8)(A)
        assert_within(K @ V, expected @ V, tolerances.product(expected, V, dtype))


@pytest.mark.parametrize("d", [7, 45])
def test_numbers_of_features(d):
    """From 33 features on, sums over features go through a buffer."""
    A, V = problems.normal(N, d), problems.right_hand_sides(N)
    kernel = RBF(np.linspace(0.8, 1.2, d) * np.sqrt(d))
    K, dense = Gram(kernel, A), kernel(A)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.path == "fused"


def uses(threads: int, dtype: str) -> list[np.ndarray]:
    K = Gram(RBF([0.5, 1.0, 2.0]), MANY_X, dtype=dtype, threads=threads)
    R = Gram(RBF([0.5, 1.0, 2.0]), MANY_X, MANY_Z, dtype=dtype, threads=threads)
    V, W = problems.right_hand_sides(len(MANY_X)), problems.right_hand_sides(len(MANY_Z))
    return [
        K @ V,
        R @ W,
        R.rmatmat(V),
        R.dense(),
        K.grad(V, V[::-1]),
        R.grad(V, W),
        K.grad_inputs(V, V[::-1]),
        R.grad_inputs(V, W),
        K @ problems.right_hand_sides(len(MANY_X), 20),
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_number_of_threads_changes_no_bit(dtype):
    one, two, eight = (uses(threads, dtype) for threads in (1, 2, 8))
    assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(one, two, eight, strict=True))


def test_python_threads_may_share_an_operator():
    K, V = Gram(RBF(0.8), MANY_X, threads=2), problems.right_hand_sides(len(MANY_X))
    expected = Gram(RBF(0.8), MANY_X) @ V
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: K @ V, range(8)))
    assert all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize("kernel", [COMPOSITE, NESTED, White(0.3)], ids=str)
@pytest.mark.parametrize("n", problems.SMALL[:1] + problems.LARGE[:1])
def test_white_acts_on_the_diagonal_of_a_symmetric_matrix_only(kernel, n):
    A = X[:n]
    K, R = Gram(kernel, A), Gram(kernel, A, A.copy())
    without = kernel(A, A.copy())
    with_noise = kernel(A)
    assert np.diagonal(with_noise - without).min() > 0.05
    V = problems.right_hand_sides(n)
    assert_within(K @ V, with_noise @ V, tolerances.product(with_noise, V))
    assert_within(R @ V, without @ V, tolerances.product(with_noise, V))
    assert_within(R.diag(), np.diagonal(without), tolerances.entry(with_noise))
    rows, columns = np.array([5, 3, 3, -1]), np.array([3, n - 1, 0, 3])
    assert_within(K.block(rows, columns), with_noise[np.ix_(rows, columns)], tolerances.entry(with_noise))
    assert_within(R.block(rows, columns), without[np.ix_(rows, columns)], tolerances.entry(with_noise))
    assert_within(K.block(slice(2, n), slice(0, n - 2)), with_noise[2:, :-2], tolerances.entry(with_noise))


def test_scikit_learn_kernels():
    theirs = sk.RBF([0.5, 1.0, 2.0])
    K, dense = Gram(theirs, X), theirs(X)
    V = problems.right_hand_sides(N)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))
    assert K.path == "fused"
    assert K.kernel == RBF([0.5, 1.0, 2.0])
    values, slopes = theirs(X, eval_gradient=True)
    expected = np.einsum("ij,ijk->k", V @ V.T, slopes)
    assert_within(K.grad(V, V), expected, tolerances.difference(np.abs(values).max() * np.abs(V @ V.T).sum()))


def test_conjugate_gradients_of_scipy():
    A = Gram(COMPOSITE, X) + 0.1
    b = problems.right_hand_sides(N)[:, 0]
    x, info = scipy.sparse.linalg.cg(A, b, rtol=1e-10)
    assert info == 0
    dense = COMPOSITE(X) + 0.1 * np.eye(N)
    residual = np.linalg.norm(dense @ x - b)
    assert residual <= 1e-10 * np.linalg.norm(b) * 1.1 + tolerances.residual(dense, x) * 100


@pytest.mark.parametrize("form", ["C", "F", "strided", "read-only", "float32", "integer"])
def test_inputs_are_left_alone(form):
    given, kept = in_form(X, form), in_form(X, form).copy()
    flags = given.flags.writeable
    K = Gram(COMPOSITE, given)
    V = problems.right_hand_sides(N)
    for use in (lambda: K @ V, K.dense, K.diag, lambda: K.grad(V, V), lambda: K.grad_inputs(V, V)):
        use()
    assert np.array_equal(given, kept)
    assert given.flags.writeable == flags
    with pytest.raises(ValueError, match="read-only"):
        K.X[0, 0] = 1.0
    dense = COMPOSITE(given)
    assert_within(K @ V, dense @ V, tolerances.product(dense, V))


def test_equality_is_by_content():
    gram = Gram(RBF(0.8), X)
    assert gram == Gram(RBF(0.8), X.copy(), threads=1)
    assert hash(gram) == hash(Gram(RBF(0.8), X.copy()))
    assert gram != Gram(RBF(0.9), X)
    assert gram != Gram(RBF(0.8), X + 1)
    assert gram != Gram(RBF(0.8), X, X)
    assert gram != Gram(RBF(0.8), X, dtype="float32")
    assert repr(gram) == f"Gram(RBF(length_scale=0.8), X=<{N} x 3>, dtype='float64')"
    assert repr(Gram(Linear(), X, Z, np.float32)) == f"Gram(Linear(), X=<{N} x 3>, Z=<{M} x 3>, dtype='float32')"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": X[:, 0]}, ValueError, "reshape"),
        ({"X": X * np.nan}, ValueError, "X must be finite; row 0, column 0 is nan"),
        ({"X": X, "Z": Z[:, :2]}, ValueError, "Z has 2 columns where 3 were expected"),
        ({"X": X, "dtype": "float16"}, ValueError, "dtype must be one of float32, float64"),
        ({"X": X, "threads": 0}, ValueError, "threads must be a whole number"),
        ({"X": X, "kernel": "rbf"}, TypeError, "expected a precog kernel"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Gram(**({"kernel": RBF()} | arguments))


@pytest.mark.parametrize("small", [False, True])
def test_wrong_right_hand_sides(small):
    K = Gram(RBF(), X[: 50 if small else N])
    n = len(K)
    with pytest.raises(ValueError, match=rf"V must have shape \({n},\) or \({n}, p\), got \(3, 2\)"):
        K @ np.ones((3, 2))
    with pytest.raises(ValueError, match="use matvec or @ for one vector"):
        K.matmat(np.ones(n))
    with pytest.raises(ValueError, match="use matmat for more columns"):
        K.matvec(np.ones((n, 2)))
    with pytest.raises(ValueError, match="V must be finite; row 2, column 0 is nan"):
        K @ np.where(np.arange(n) == 2, np.nan, 1.0)
    with pytest.raises(TypeError, match="real numbers"):
        K @ np.ones(n, complex)
    with pytest.raises(IndexError, match=f"rows: {n} is out of range"):
        K.block([n], [0])
    with pytest.raises(ValueError, match="columns is a mask of shape"):
        K.block([0], np.array([True]))
    with pytest.raises(ValueError, match="must be a slice, a mask or whole numbers"):
        K.block([0.5], [0])


@pytest.mark.parametrize("kernel", [RBF(0.8), Matern12(1.2), COMPOSITE], ids=str)
def test_nearly_equal_rows(kernel):
    """Distances of zero stay zero: no root of a rounded difference of large numbers."""
    A = np.repeat(problems.normal(50, 3), 7, axis=0) + 1e-9 * problems.normal(350, 3)
    V = problems.right_hand_sides(350)
    for dtype in ("float64", "float32"):
        K, dense = Gram(kernel, A, dtype=dtype), kernel(A)
        assert_within(K.dense(), dense, tolerances.entry(dense, dtype))
        assert_within(K @ V, dense @ V, tolerances.product(dense, V, dtype))
