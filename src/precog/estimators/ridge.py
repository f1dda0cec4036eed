"""Kernel ridge regression, by a dense factor or by preconditioned conjugate gradients."""

from __future__ import annotations

import time
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from precog import checks
from precog.estimators import choices, setup
from precog.inference.conclude import described
from precog.inference.preconditioned import preconditioner
from precog.kernels import RBF, Kernel, from_sklearn
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array
from precog.operators import Gram, Noisy
from precog.solvers import PCG, Cholesky, Solution
from precog.solvers.choice import DENSE_ROWS

# Rows of new inputs that are predicted at a time: what is held for them stays under some tens of megabytes.
PREDICT_ROWS = 65_536
# Relative residuals that rounding lets a solve reach with room to spare.
RTOL = {"float64": 1e-8, "float32": 1e-4}
REPORT_SECONDS = 1.0


class KernelRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Kernel ridge regression: f(x) = Σᵢ cᵢ k(xᵢ, x) with (K + α I) c = y, solved without storing K.

    Up to 3,000 rows by a dense factor; above, by preconditioned conjugate gradients, whose time is n² kernel entries
    for each step and whose memory is the preconditioner and a few copies of the inputs. There is no intercept; centre
    y, or add a constant to the kernel.

    Parameters
    ----------
    kernel : kernel of precog or of scikit-learn, default=None
        None takes an RBF kernel whose length scale is the root of the inputs' total variance, √d for standardised ones.
    alpha : float or array-like of shape (n_targets,), default=1.0
        Ridge penalty, the variance of the noise in Gaussian process terms.
    solver : {"auto", "cholesky", "cg", "pcg"}, default="auto"
        A dense factor, or conjugate gradients without or with a preconditioner; "auto" chooses by the number of rows,
        and does without what alpha is too small for.
    preconditioner : str, default="auto"
        A name that `precog.precond.make` knows.
    rank : int, default=None
        Rank of the preconditioner; None leaves it to the preconditioner.
    rtol : float, default=None
        Relative residual at which a target is solved; None takes 1e-8 in float64 and 1e-4 in float32.
    max_iter : int, default=None
        Largest number of steps; None allows ten for each row.
    dtype : {"float64", "float32"}, default="float64"
        Type of the kernel entries.
    max_memory : float, default=2e9
        Bytes that a dense factor or a preconditioner may take.
    threads : int, default=None
        Threads for the products; None takes all CPUs that the process may use.
    random_state : int, RandomState, Generator or None, default=None
        For the preconditioner.
    verbose : bool, default=False
        Print the step and the largest residual about once a second.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        The weights c.
    X_fit_ : the training inputs; rows with zero weight are left out.
    kernel_ : the kernel used.
    n_iter_ : int
        Steps of conjugate gradients.
    products_ : int
        Columns multiplied with the kernel matrix.
    residual_ : ndarray of shape (n_targets,)
        True relative residual of each target.
    converged_ : bool
        Whether all of them reached rtol.
    path_ : str
        How the kernel matrix was multiplied: "numpy", "fused", "panels" or "objects"; "dense" where it was factorised.
    solver_, preconditioner_ : str
        What ran, and why.
    n_features_in_ : int
        Number of features, for kernels on vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from precog import RBF, KernelRidge
    >>> X = np.linspace(0, 3, 30)[:, None]
    >>> model = KernelRidge(RBF(0.5), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> float(abs(model.predict(X) - np.sin(X[:, 0])).max()) < 1e-2
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        alpha: Any = 1.0,
        solver: str = "auto",
        preconditioner: str = "auto",
        rank: int | None = None,
        rtol: float | None = None,
        max_iter: int | None = None,
        dtype: Any = "float64",
        max_memory: float = 2e9,
        threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.solver = solver
        self.preconditioner = preconditioner
        self.rank = rank
        self.rtol = rtol
        self.max_iter = max_iter
        self.dtype = dtype
        self.max_memory = max_memory
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve for the weights; a sample weight of w counts a row w times."""
        dtype = checks.choice("dtype", self.dtype, ("float32", "float64"))
        choices.check_solver(self)
        settings = PCG(rtol=RTOL[dtype] if self.rtol is None else self.rtol, max_iter=self.max_iter)
        X, y = self._training(X, y)
        weights = setup.weights_of(sample_weight, len(y))
        alpha = _penalties(self.alpha, y)
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            X = X[kept] if hasattr(X, "shape") else [X[i] for i in kept]
            y, weights = y[kept], weights[kept]
        self.kernel_ = self._resolved(X, weights)
        gram = Gram(self.kernel_, X, dtype=dtype, threads=self.threads)
        solutions = self._solve(gram, y, alpha, weights, settings)
        self._keep(gram, solutions, y)
        return self

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        if isinstance(self.kernel, Kernel) and on_objects(self.kernel):
            return setup.objects_of(X, y)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _resolved(self, X: Any, weights: Array | None) -> Kernel:
        if self.kernel is not None:
            return from_sklearn(self.kernel, X.shape[1] if hasattr(X, "shape") and X.ndim == 2 else None)
        mean = np.average(X, axis=0, weights=weights)
        variance = float(np.average((X - mean) ** 2, axis=0, weights=weights).sum())
        return RBF(np.sqrt(variance) if variance > 0 else 1.0)

    def _solve(
        self, gram: Gram, y: Array, alpha: Array, weights: Array | None, settings: PCG
    ) -> list[tuple[Any, Solution]]:
        """Return (targets, solution) for each different penalty."""
        Y = y[:, None] if y.ndim == 1 else y
        each = np.broadcast_to(alpha, Y.shape[1])
        seed = int(setup.generator(self.random_state).integers(2**32))
        solutions = []
        for value in np.unique(each):
            targets = np.flatnonzero(each == value)
            solution = self._solution(
                gram + (value if weights is None else value / weights), Y[:, targets], settings, seed
            )
            solutions.append((targets, solution))
            if not solution.ok:
                warnings.warn(f"KernelRidge: {solution.describe()}", ConvergenceWarning, stacklevel=3)
        return solutions

    def _solution(self, A: Noisy, Y: Array, settings: PCG, seed: int) -> Solution:
        self.preconditioner_ = "none"
        if choices.dense(self, len(A), DENSE_ROWS):
            solution = Cholesky(rtol=settings.rtol, max_memory=self.max_memory).solve(A, Y)
            # A matrix that is singular as computed has no factor; conjugate gradients still find weights.
            if solution.ok or self.solver == "cholesky":
                return solution
        P = None
        if self.solver == "pcg" or (self.solver == "auto" and np.min(A.noise) > 0):
            P = preconditioner(self.preconditioner, A, self.rank, seed, self.max_memory)
            self.preconditioner_ = described(P)
        return settings.solve(A, Y, precond=P, callback=_Report() if self.verbose else None)

    def _keep(self, gram: Gram, solutions: list[tuple[Any, Solution]], y: Array) -> None:
        coefficients = np.empty((len(y), 1 if y.ndim == 1 else y.shape[1]))
        self.residual_ = np.empty(coefficients.shape[1])
        for targets, solution in solutions:
            coefficients[:, targets] = solution.x
            self.residual_[targets] = solution.residuals
        self.dual_coef_ = coefficients[:, 0] if y.ndim == 1 else coefficients
        self.X_fit_ = gram.X
        self.n_iter_ = max(solution.iterations for _, solution in solutions)
        self.products_ = sum(solution.products for _, solution in solutions)
        self.converged_ = all(solution.ok for _, solution in solutions)
        self.path_ = gram.path or "dense"
        self.solver_ = solutions[0][1].solver

    def predict(self, X: Any) -> Array:
        """Return f at the rows of X, a block of rows at a time."""
        check_is_fitted(self)
        if not on_objects(self.kernel_):
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        n = checks.length(X)
        out = np.empty((n, *self.dual_coef_.shape[1:]))
        for start in range(0, n, PREDICT_ROWS):
            rows = slice(start, start + PREDICT_ROWS)
            out[rows] = Gram(self.kernel_, X[rows], self.X_fit_, self.dtype, self.threads) @ self.dual_coef_
        return out


class _Report:
    """Prints how far a solve has come, about once a second."""

    def __init__(self) -> None:
        self.due = time.monotonic() + REPORT_SECONDS

    def __call__(self, step: int, residuals: Array) -> None:
        if time.monotonic() >= self.due:
            print(f"KernelRidge: step {step}, largest relative residual {residuals.max():.1e}", flush=True)
            self.due = time.monotonic() + REPORT_SECONDS


def _penalties(alpha: Any, y: Array) -> Array:
    """Return alpha, one for all targets or one for each, or say what is wrong with it."""
    try:
        values = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"alpha must be a number or one for each target, got {alpha!r}") from None
    targets = 1 if y.ndim == 1 else y.shape[1]
    if values.ndim > 1 or (values.ndim == 1 and len(values) != targets):
        raise ValueError(f"alpha must be a number or have shape ({targets},), got shape {values.shape}")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"alpha must be finite and not negative, got {alpha!r}")
    return values
