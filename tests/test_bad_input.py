"""What happens to input that is wrong, and to input that only looks unusual.

Every refusal names the argument, what is wrong with it and where, and what to do about it where something can be done.
"""

from __future__ import annotations

import numpy as np
import pytest

import precog
from precog import (
    PCG,
    RBF,
    Constant,
    Dense,
    Gram,
    HistogramIntersection,
    Linear,
    LowRank,
    Matern12,
    Matern32,
    Matern52,
    Pairwise,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    White,
    from_sklearn,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))
Z = RNG.normal(size=(4, 3))
SPD = X @ X.T + 6.0 * np.eye(6)


def with_entry(A, where, value, dtype=None):
    A = np.array(A, dtype=dtype)
    A[where] = value
    return A


def refuses(call, error, *words):
    """Check the type of an error, and that its message has all the words."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{message!r} lacks {missing}"
    assert "Traceback" not in message
    assert len(message) < 800


def cases(*table):
    return pytest.mark.parametrize("case", table, ids=lambda case: case[0])


STATIONARY = [RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial, HistogramIntersection]


# Kernels.


@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_length_scales_are_positive_and_finite(kind, value):
    owner = kind.__name__
    refuses(lambda: kind(value), ValueError, owner, "length_scale", "positive and finite", f"{value:g}")
    refuses(lambda: kind([1.0, value, 2.0]), ValueError, owner, "length_scale[1]", f"{value:g}")


@cases(
    ("variance", lambda: Constant(-2.0), ValueError, "Constant", "variance", "positive", "-2"),
    ("noise", lambda: White(0.0), ValueError, "White", "noise", "positive"),
    ("alpha", lambda: RationalQuadratic(alpha=np.nan), ValueError, "RationalQuadratic", "alpha", "nan"),
    ("period", lambda: Periodic(period=[1.0, -3.0]), ValueError, "Periodic", "period[1]", "-3"),
    ("offset", lambda: Polynomial(offset=0.0), ValueError, "Polynomial", "offset", "positive"),
    ("text", lambda: RBF("long"), TypeError, "RBF", "length_scale", "number", "'long'"),
    ("None", lambda: RBF(None), (TypeError, ValueError), "RBF", "length_scale"),
    ("complex", lambda: RBF(1j), TypeError, "RBF", "length_scale", "number"),
    ("table", lambda: RBF([[1.0, 2.0]]), ValueError, "RBF", "length_scale", "flat list", "(1, 2)"),
    ("no elements", lambda: RBF([]), ValueError, "RBF", "length_scale", "(0,)"),
    ("vector for a scalar", lambda: Constant([1.0, 2.0])(X), (TypeError, ValueError), "Constant", "variance"),
    ("vector for alpha", lambda: RationalQuadratic(alpha=[1.0, 2.0])(X), (TypeError, ValueError), "Rational", "alpha"),
    ("degree zero", lambda: Polynomial(degree=0), ValueError, "Polynomial", "degree", "whole number", "0"),
    ("half a degree", lambda: Polynomial(degree=1.5), ValueError, "Polynomial", "degree", "whole number", "1.5"),
    ("exponent zero", lambda: RBF() ** 0, ValueError, "positive", "0"),
    ("negative exponent", lambda: RBF() ** -1.5, ValueError, "positive", "-1.5"),
    ("NaN exponent", lambda: RBF() ** np.nan, ValueError, "positive", "nan"),
    ("text exponent", lambda: RBF() ** "2", ValueError, "positive", "'2'"),
    ("negative factor", lambda: -1.5 * RBF(), ValueError, "variance", "positive", "-1.5"),
    ("zero summand", lambda: RBF() + 0, ValueError, "variance", "positive", "0"),
    ("text summand", lambda: RBF() + "1", TypeError),
    ("array factor", lambda: RBF() * np.ones(3), TypeError),
)  # fmt: skip
def test_hyperparameters_and_algebra(case):
    refuses(*case[1:])


@cases(
    ("no pair", lambda: RBF(length_scale_bounds=3.0), ValueError, "RBF", "length_scale_bounds", "(low, high)", "3.0"),
    ("word", lambda: RBF(length_scale_bounds="free"), ValueError, "length_scale_bounds", '"fixed"', "'free'"),
    ("swapped", lambda: RBF(length_scale_bounds=(2.0, 1.0)), ValueError, "length_scale_bounds", "low <= high", "2.0"),
    ("zero", lambda: RBF(length_scale_bounds=(0.0, 1.0)), ValueError, "length_scale_bounds", "0 < low"),
    ("infinite", lambda: RBF(length_scale_bounds=(1.0, np.inf)), ValueError, "length_scale_bounds", "inf"),
    ("NaN", lambda: RBF(length_scale_bounds=(np.nan, 1.0)), ValueError, "length_scale_bounds", "nan"),
    ("None", lambda: RBF(length_scale_bounds=None), ValueError, "length_scale_bounds", "None"),
    ("too many", lambda: RBF([1.0, 2.0], length_scale_bounds=[(1, 2)] * 3), ValueError, "length_scale", "2", "3"),
    ("array swapped", lambda: RBF(length_scale_bounds=np.array([2.0, 1.0])), ValueError, "length_scale_bounds"),
)  # fmt: skip
def test_bounds(case):
    refuses(*case[1:])


@cases(
    ("repeated", lambda: RBF(columns=[0, 2, 0]), ValueError, "RBF", "column 0", "twice"),
    ("negative", lambda: RBF(columns=[1, -1]), ValueError, "RBF", "columns", "negative", "-1"),
    ("empty", lambda: RBF(columns=[]), ValueError, "RBF", "columns is empty", "leave it out"),
    ("not whole", lambda: RBF(columns=[0.5]), ValueError, "RBF", "columns", "0.5"),
    ("a mask", lambda: RBF(columns=[True, False]), ValueError, "RBF", "columns", "column numbers"),
    ("nested", lambda: RBF(columns=[[0, 1]]), ValueError, "RBF", "columns", "flat list"),
    ("names", lambda: RBF(columns=["a", "b"]), ValueError, "RBF", "columns", "column numbers"),
    ("a number", lambda: RBF(columns=3), ValueError, "RBF", "columns", "flat list", "3"),
    ("out of range", lambda: RBF(columns=[0, 5])(X), ValueError, "RBF", "column 5", "out of range", "X has 3 columns"),
    ("in an expression", lambda: Gram(RBF() + Linear(columns=[3]), X), ValueError, "Linear", "column 3", "3 columns"),
    ("scales for columns", lambda: RBF([1.0, 2.0], columns=[0, 1, 2]), ValueError, "2 length scales", "3 columns"),
)  # fmt: skip
def test_columns(case):
    refuses(*case[1:])


@cases(
    ("too few scales", lambda: RBF([1.0, 2.0])(X), ValueError, "RBF", "2 length scales", "3 columns", "single number"),
    ("too many scales", lambda: Gram(RBF([1.0] * 4), X), ValueError, "RBF", "4 length scales", "3 columns"),
    ("too few periods", lambda: Periodic(period=[1.0, 2.0])(X), ValueError, "Periodic", "2 periods", "3 columns"),
    ("negative counts", lambda: HistogramIntersection()(X), ValueError, "Histogram", "not negative", "row", "clip"),
    ("theta too short", lambda: RBF([1.0, 2.0]).with_theta([0.0]), ValueError, "theta", "2", "length_scale[1]", "(1,)"),
    ("theta not finite", lambda: RBF([1.0, 2.0]).with_theta([0.0, np.nan]), ValueError, "theta[1]", "finite"),
    ("theta overflows", lambda: RBF().with_theta([1e4]), ValueError, "length_scale"),
    ("unknown to fix", lambda: (RBF() + Linear()).fix("RBF.scale"), ValueError, "'RBF.scale'", "RBF.length_scale"),
)  # fmt: skip
def test_kernels_against_inputs(case):
    refuses(*case[1:])


@cases(
    ("not square", lambda: Precomputed(np.ones((2, 3))), ValueError, "Precomputed", "square", "(2, 3)"),
    ("not symmetric", lambda: Precomputed([[1.0, 2.0], [0.0, 1.0]]), ValueError, "not symmetric", "(0, 1)"),
    ("NaN", lambda: Precomputed(with_entry(np.eye(3), (1, 1), np.nan)), ValueError, "Precomputed", "row 1"),
    ("no matrix", lambda: Precomputed(), ValueError, "Precomputed", "matrix"),
    ("out of range", lambda: Precomputed(np.eye(3))([0, 3]), ValueError, "row 1 of X", "3", "0 to 2"),
    ("half a row", lambda: Precomputed(np.eye(3))(np.array([0.5])), ValueError, "row 0 of X", "0.5"),
    ("a table", lambda: Precomputed(np.eye(3))(X), ValueError, "row numbers", "(6, 3)"),
    ("not callable", lambda: Pairwise(3), TypeError, "Pairwise", "callable", "3"),
    ("no objects", lambda: Gram(Pairwise(lambda a, b: 1.0), []), ValueError, "X is empty"),
)  # fmt: skip
def test_kernels_on_objects(case):
    refuses(*case[1:])


# Inputs.

WRONG_INPUTS = [
    ("NaN", with_entry(X, (3, 1), np.nan), ValueError, "finite", "row 3", "column 1", "nan", "impute"),
    ("infinity", with_entry(X, (0, 2), np.inf), ValueError, "finite", "row 0", "column 2", "inf"),
    ("NaN in float32", with_entry(X, (2, 0), np.nan, np.float32), ValueError, "row 2", "column 0"),
    ("one dimension", X[:, 0], ValueError, "(6,)", "reshape(-1, 1)"),
    ("three dimensions", X[None], ValueError, "(1, 6, 3)"),
    ("a number", 3.0, ValueError, "shape ()"),
    ("no rows", X[:0], ValueError, "no rows"),
    ("no columns", X[:, :0], ValueError, "no columns"),
    ("a string", with_entry(X, (4, 2), "tall", object), TypeError, "row 4", "column 2", "'tall'", "Pairwise"),
    ("a missing object", with_entry(X, (1, 0), None, object), ValueError, "row 1", "column 0", "impute"),
    ("text", np.array([["a", "b"], ["c", "d"]]), TypeError, "real numbers"),
    ("complex", X + 1j, TypeError, "real numbers", "complex128"),
    ("dates", np.zeros((3, 2), "M8[D]"), TypeError, "real numbers", "datetime64"),
]  # fmt: skip
wrong_inputs = pytest.mark.parametrize("case", WRONG_INPUTS, ids=lambda case: case[0])


@wrong_inputs
def test_wrong_inputs(case):
    _, wrong, error, *words = case
    refuses(lambda: RBF()(wrong), error, "X", *words)
    refuses(lambda: RBF().diag(wrong), error, "X", *words)
    refuses(lambda: Gram(RBF(), wrong), error, "X", *words)
    refuses(lambda: Dense(wrong), error, "A", *words)
    refuses(lambda: LowRank(wrong), error, "F", *words)
    refuses(lambda: LowRank(X, wrong), error, "G", *words)


@wrong_inputs
def test_wrong_second_inputs(case):
    _, wrong, error, *words = case
    refuses(lambda: RBF()(X, wrong), error, "Z", *words)
    refuses(lambda: Gram(RBF(), X, wrong), error, "Z", *words)


def test_ragged_rows():
    refuses(lambda: Gram(RBF(), [[1.0, 2.0], [3.0]]), ValueError, "X", "row")


def test_second_inputs_have_the_columns_of_the_first():
    refuses(lambda: Gram(RBF(), X, Z[:, :2]), ValueError, "Z has 2 columns", "3")
    refuses(lambda: RBF()(X, Z[:, :2]), ValueError, "Z has 2 columns", "3")


def test_sparse_inputs_are_named():
    sparse = pytest.importorskip("scipy.sparse")
    refuses(lambda: Gram(RBF(), sparse.csr_matrix(X)), (TypeError, ValueError), "X", "sparse", "toarray")


# Operators.

OPERATORS = {
    "Gram": Gram(RBF(), X),
    "rectangular Gram": Gram(RBF(), X, Z),
    "Dense": Dense(SPD),
    "LowRank": LowRank(X),
    "Noisy": Gram(RBF(), X) + 0.1,
    "Sum": Gram(RBF(), X) + Dense(SPD),
    "Scaled": 2.0 * Dense(SPD),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_wrong_right_hand_sides(name):
    A = OPERATORS[name]
    m = A.shape[1]
    V = np.ones((m, 2))
    refuses(lambda: A @ np.ones((m + 1, 2)), ValueError, "V", f"({m}, p)", f"({m + 1}, 2)")
    refuses(lambda: A @ np.ones(m + 2), ValueError, "V", f"({m}", f"({m + 2}, ")
    refuses(lambda: A.matmat(np.ones(m)), ValueError, "V", f"({m}, p)", "matvec")
    refuses(lambda: A.matvec(V), ValueError, "vector", f"({m}, 2)", "matmat")
    refuses(lambda: A @ with_entry(V, (2, 1), np.nan), ValueError, "V", "finite", "row 2, column 1", "nan")
    refuses(lambda: A @ with_entry(V[:, 0], 3, np.inf), ValueError, "V", "finite", "row 3", "inf")
    refuses(lambda: A @ (V + 1j), TypeError, "V", "real numbers", "complex128")
    refuses(lambda: A @ np.array([["a"] * 2] * m), TypeError, "V", "real numbers")
    refuses(lambda: A @ 3.0, ValueError, "V")


@pytest.mark.parametrize("name", OPERATORS)
def test_wrong_rows_and_columns(name):
    A = OPERATORS[name]
    n, m = A.shape
    refuses(lambda: A.block([0, n], [0]), IndexError, "rows", f"{n} is out of range")
    refuses(lambda: A.block([0], [-m - 1]), IndexError, "columns", f"{-m - 1} is out of range")
    refuses(lambda: A.block([0.5], [0]), ValueError, "rows", "whole numbers", "0.5")
    refuses(lambda: A.block(np.ones(n + 1, bool), [0]), ValueError, "rows", "mask", f"({n},)")
    refuses(lambda: A.columns([m]), IndexError, "columns", f"{m} is out of range")


@cases(
    ("dtype", lambda: Gram(RBF(), X, dtype="float16"), ValueError, "dtype", "float32, float64", "float16"),
    ("dtype as a type", lambda: Gram(RBF(), X, dtype=np.int64), ValueError, "dtype", "float32, float64"),
    ("dtype a number", lambda: Gram(RBF(), X, dtype=3), (TypeError, ValueError), "dtype"),
    ("threads zero", lambda: Gram(RBF(), X, threads=0), ValueError, "threads", "at least 1", "0"),
    ("threads half", lambda: Gram(RBF(), X, threads=1.5), ValueError, "threads", "whole number", "1.5"),
    ("threads True", lambda: Gram(RBF(), X, threads=True), ValueError, "threads", "whole number", "True"),
    ("no kernel", lambda: Gram("rbf", X), TypeError, "precog kernel", "RBF", "str"),
    ("kernel class", lambda: Gram(RBF, X), TypeError, "precog kernel", "RBF()"),
    ("noise negative", lambda: Dense(SPD) + -1.0, ValueError, "noise", "not negative", "-1"),
    ("noise NaN", lambda: Dense(SPD) + np.nan, ValueError, "noise", "finite", "nan"),
    ("noise element", lambda: Dense(SPD) + with_entry(np.ones(6), 4, -2.0), ValueError, "noise[4]", "-2"),
    ("noise length", lambda: Dense(SPD) + np.ones(5), ValueError, "noise", "(6,)"),
    ("noise text", lambda: Dense(SPD) + "a bit", (TypeError, ValueError), "noise", "a bit"),
    ("noise complex", lambda: Dense(SPD) + 1j, (TypeError, ValueError), "noise"),
    ("noise table", lambda: Dense(SPD) + np.eye(6), ValueError, "noise", "(6,)"),
    ("second noise length", lambda: Dense(SPD) + 1.0 + np.ones(5), ValueError, "noise", "(6,)"),
    ("noise negative in sum", lambda: Dense(SPD) + 1.0 + -1.5, ValueError, "noise", "not negative", "-0.5"),
    ("noise on a rectangle", lambda: Gram(RBF(), X, Z) + 0.1, ValueError, "square", "6 x 4"),
    ("shapes of a sum", lambda: Dense(SPD) + LowRank(Z), ValueError, "shapes", "(4, 4)", "(6, 6)"),
    ("factor NaN", lambda: np.nan * Dense(SPD), ValueError, "factor", "finite", "nan"),
    ("factor text", lambda: Dense(SPD) * "2", TypeError, "factor", "number", "'2'"),
    ("factors of other ranks", lambda: LowRank(X, Z[:, :2]), ValueError, "F and G", "3", "2"),
)  # fmt: skip
def test_operators(case):
    refuses(*case[1:])


@pytest.mark.parametrize("method", ["grad", "grad_inputs"])
def test_wrong_sides_of_a_derivative(method):
    K = Gram(RBF(), X, Z)
    derivative = getattr(K, method)
    A, B = np.ones((6, 2)), np.ones((4, 2))
    refuses(lambda: derivative(B, A), ValueError, "A", "(6,", "(4, 2)")
    refuses(lambda: derivative(A, A), ValueError, "B", "(4,", "(6, 2)")
    refuses(lambda: derivative(A, B[:, 0]), ValueError, "A and B", "2 and 1")
    refuses(lambda: derivative(A[:, :0], B[:, :0]), ValueError, "A and B", "no columns")
    refuses(lambda: derivative(with_entry(A, (5, 1), np.nan), B), ValueError, "A", "row 5, column 1")
    refuses(lambda: derivative(A, with_entry(B, (0, 1), np.inf)), ValueError, "B", "row 0, column 1")
    refuses(lambda: derivative(A, B + 1j), TypeError, "B", "real numbers")


def test_objects_have_no_derivative_in_inputs():
    K = Gram(Precomputed(SPD), np.arange(6))
    refuses(lambda: K.grad_inputs(np.ones(6), np.ones(6)), TypeError, "objects", "derivative")


# Solvers.


@cases(
    ("rtol negative", lambda: PCG(rtol=-1e-3), ValueError, "rtol", "at least 0", "-0.001"),
    ("rtol NaN", lambda: PCG(rtol=np.nan), ValueError, "rtol", "finite", "nan"),
    ("rtol text", lambda: PCG(rtol="1e-3"), TypeError, "rtol", "number", "'1e-3'"),
    ("atol negative", lambda: PCG(atol=-1.0), ValueError, "atol", "-1"),
    ("no goal", lambda: PCG(rtol=0, atol=0), ValueError, "rtol and atol", "positive"),
    ("max_iter negative", lambda: PCG(max_iter=-1), ValueError, "max_iter", "at least 0", "-1"),
    ("max_iter half", lambda: PCG(max_iter=2.5), ValueError, "max_iter", "whole number", "2.5"),
    ("B length", lambda: PCG().solve(Dense(SPD), np.ones(5)), ValueError, "B", "(6,)", "(5,)"),
    ("B NaN", lambda: PCG().solve(Dense(SPD), with_entry(np.ones(6), 2, np.nan)), ValueError, "B", "row 2", "nan"),
    ("B complex", lambda: PCG().solve(Dense(SPD), np.ones(6) * 1j), TypeError, "B", "real numbers"),
    ("x0 length", lambda: PCG().solve(Dense(SPD), np.ones(6), x0=np.ones(3)), ValueError, "x0", "(6,)", "(3,)"),
    ("x0 columns", lambda: PCG().solve(Dense(SPD), np.ones((6, 2)), x0=np.ones(6)), ValueError, "x0", "1", "B", "2"),
    ("a rectangle", lambda: PCG().solve(Gram(RBF(), X, Z), np.ones(6)), ValueError, "square", "6", "4"),
)  # fmt: skip
def test_solvers(case):
    refuses(*case[1:])


def test_solution_is_not_a_truth_value():
    refuses(lambda: bool(PCG().solve(Dense(SPD), np.ones(6))), TypeError, "solution.ok")


# Translation from scikit-learn.


def sklearn_kernels():
    return pytest.importorskip("sklearn.gaussian_process.kernels")


@cases(
    ("text", lambda k: "rbf", TypeError, "RBF", "Matern", "str"),
    ("None", lambda k: None, TypeError, "RBF", "NoneType"),
    ("unknown nu", lambda k: k.Matern(nu=2.0), ValueError, "nu=2.0", "0.5, 1.5, 2.5"),
    ("periodic in two", lambda k: k.ExpSineSquared(), ValueError, "ExpSineSquared", "Periodic", "n_features=1"),
    ("compound", lambda k: k.CompoundKernel([k.RBF()]), TypeError, "RBF", "CompoundKernel"),
    ("metric", lambda k: k.PairwiseKernel(metric="chi2"), ValueError, "PairwiseKernel", "'chi2'"),
    ("inside a sum", lambda k: k.RBF() + k.Matern(nu=3.5), ValueError, "nu=3.5"),
)  # fmt: skip
def test_translation(case):
    _, build, error, *words = case
    given = build(sklearn_kernels())
    refuses(lambda: from_sklearn(given), error, *words)


# Estimators.

y = X[:, 0]


def fit(X=X, y=y, sample_weight=None, **settings):
    return precog.KernelRidge(**settings).fit(X, y, sample_weight)


@cases(
    ("alpha negative", lambda: fit(alpha=-1.0), ValueError, "alpha", "not negative", "-1"),
    ("alpha NaN", lambda: fit(alpha=np.nan), ValueError, "alpha", "finite", "nan"),
    ("alpha text", lambda: fit(alpha="small"), TypeError, "alpha", "number", "'small'"),
    ("alpha for other targets", lambda: fit(alpha=[1.0, 2.0]), ValueError, "alpha", "(1,)", "(2,)"),
    ("kernel text", lambda: fit(kernel="rbf"), TypeError, "kernel", "RBF"),
    ("kernel class", lambda: fit(kernel=RBF), TypeError, "precog kernel", "RBF()"),
    ("too few scales", lambda: fit(kernel=RBF([1.0, 2.0])), ValueError, "2 length scales", "3 columns"),
    ("rtol zero", lambda: fit(rtol=0.0), ValueError, "rtol", "positive"),
    ("rtol negative", lambda: fit(rtol=-1.0), ValueError, "rtol", "-1"),
    ("max_iter", lambda: fit(max_iter=1.5), ValueError, "max_iter", "whole number"),
    ("dtype", lambda: fit(dtype="float16"), ValueError, "dtype", "float32, float64", "float16"),
    ("threads", lambda: fit(threads=0), ValueError, "threads", "at least 1"),
    ("X of one dimension", lambda: fit(X=y), ValueError, "Reshape"),
    ("X NaN", lambda: fit(X=with_entry(X, (1, 1), np.nan)), ValueError, "X", "NaN"),
    ("X text", lambda: fit(X=with_entry(X, (1, 1), "tall", object)), ValueError, "tall"),
    ("no rows", lambda: fit(X=X[:0], y=y[:0]), ValueError, "0 sample"),
    ("y NaN", lambda: fit(y=with_entry(y, 2, np.nan)), ValueError, "y", "NaN"),
    ("y missing", lambda: fit(y=None), ValueError, "y"),
    ("lengths", lambda: fit(y=y[:4]), ValueError, "6", "4"),
    ("weights length", lambda: fit(sample_weight=np.ones(5)), ValueError, "sample_weight", "(6,)", "(5,)"),
    ("a weight below zero", lambda: fit(sample_weight=[1, 1, 1, -1, 1, 1]), ValueError, "sample_weight[3]", "-1"),
    ("weights zero", lambda: fit(sample_weight=np.zeros(6)), ValueError, "sample_weight", "positive"),
    ("other columns", lambda: fit().predict(X[:, :2]), ValueError, "2 features", "3 features"),
    ("not fitted", lambda: precog.KernelRidge().predict(X), ValueError, "KernelRidge", "not fitted"),
)  # fmt: skip
def test_kernel_ridge(case):
    refuses(*case[1:])


# Unusual, but right.


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


UNUSUAL = {
    "read-only": read_only(X),
    "Fortran-ordered": np.asfortranarray(X),
    "strided rows": np.repeat(X, 2, axis=0)[::2],
    "strided columns": np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": X[::-1].copy()[::-1],
    "big-endian": X.astype(">f8"),
    "long double": X.astype(np.longdouble),
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, X.tolist())),
    "objects that are numbers": X.astype(object),
    "masked without a mask": np.ma.masked_array(X),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_layout_makes_no_difference(name):
    given = UNUSUAL[name]
    K = Gram(Matern52(0.7), given)
    assert K.X.dtype == np.float64
    np.testing.assert_allclose(K.dense(), Matern52(0.7)(X), rtol=1e-14)
    right = X if name == "objects that are numbers" else given
    np.testing.assert_allclose(K @ right, Matern52(0.7)(X) @ X, rtol=1e-13)
    np.testing.assert_allclose(Dense(given).dense(), X)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8, bool, np.float16])
def test_other_numbers_become_float64(dtype):
    given = (np.arange(18).reshape(6, 3) % 3).astype(dtype)
    K = Gram(RBF(), given)
    assert K.X.dtype == np.float64
    np.testing.assert_allclose(K.dense(), RBF()(given.astype(np.float64)), rtol=1e-14)


def test_float32_stays_float32():
    given = X.astype(np.float32)
    assert Gram(RBF(), given).X.dtype == np.float32
    assert Gram(RBF(), X, given[:4]).Z.dtype == np.float32
    assert (Gram(RBF(), given, dtype="float32") @ given).dtype == np.float32
    assert (Gram(RBF(), given, dtype="float64") @ given).dtype == np.float64
    assert (Gram(RBF(), given, dtype="float32") @ X).dtype == np.float64


def test_dtype_may_be_a_type():
    assert Gram(RBF(), X, dtype=np.float32).dtype == np.float32
    assert Gram(RBF(), X, dtype=np.dtype("float64")).dtype == np.float64


def test_inputs_are_left_alone():
    given, right = X.copy(), np.ones((6, 2))
    K = Gram(RBF() + Linear(), given) + 0.1
    PCG().solve(K, right, x0=np.zeros((6, 2)))
    K.K.grad(right, right)
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(right, 1.0)
    assert given.flags.writeable


def test_inputs_cannot_be_changed_through_the_operator():
    K = Gram(RBF(), X)
    with pytest.raises(ValueError, match="read-only"):
        K.X[0, 0] = 1.0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frame = pytest.importorskip(library).DataFrame({f"x{j}": X[:, j] for j in range(3)})
    np.testing.assert_allclose(Gram(RBF(), frame).dense(), RBF()(X), rtol=1e-14)
    np.testing.assert_allclose(RBF()(frame, frame), RBF()(X), rtol=1e-14)
    model = precog.KernelRidge(RBF()).fit(frame, frame["x0"])
    assert isinstance(model.predict(frame), np.ndarray)
    np.testing.assert_allclose(model.predict(frame), fit(kernel=RBF()).predict(X), rtol=1e-8)


def test_frame_with_a_text_column_names_it():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]})
    refuses(lambda: Gram(RBF(), frame), TypeError, "X", "row 0", "column 1", "'red'")


def test_one_row():
    K = Gram(1.5 * RBF(), X[:1])
    np.testing.assert_allclose(K @ np.array([2.0]), [3.0])
    np.testing.assert_allclose(K.grad([1.0], [1.0]), [1.5, 0.0])
    assert PCG().solve(K + 0.5, [4.0]).x == pytest.approx([2.0])
    assert fit(X=X[:1], y=y[:1], alpha=1e-3).predict(X[:1]) == pytest.approx(y[:1], rel=2e-3)


def test_constant_columns():
    given = np.column_stack([X[:, 0], np.full(6, 3.0)])
    np.testing.assert_allclose(Gram(RBF(), given).dense(), RBF()(X[:, :1]), rtol=1e-14)
    assert np.isfinite(Gram(Matern12([1.0, 2.0]), given).grad(y, y)).all()
    assert np.isfinite(fit(X=np.ones((6, 2))).predict(np.ones((2, 2)))).all()


def test_repeated_rows():
    given = np.repeat(X[:2], 3, axis=0)
    assert PCG().solve(Gram(Matern12(), given) + 1e-3, y).ok
    assert np.isfinite(Gram(Matern12([1.0, 2.0, 3.0]), given).grad(y, y)).all()


def test_no_right_hand_side_gives_no_result():
    assert (Gram(RBF(), X) @ np.ones((6, 0))).shape == (6, 0)
    assert PCG().solve(Dense(SPD), np.ones((6, 0))).ok


def test_whole_and_boolean_right_hand_sides():
    K = Gram(RBF(), X)
    np.testing.assert_allclose(K @ np.arange(6), K @ np.arange(6.0))
    np.testing.assert_allclose(K @ (np.arange(6) > 2), K @ (np.arange(6) > 2).astype(float))
    np.testing.assert_allclose(K @ [1, 2, 3, 4, 5, 6], K @ np.arange(1.0, 7.0))
