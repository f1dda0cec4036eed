"""Gaussian process regression, from 50 rows to hundreds of thousands."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from precog import checks
from precog.estimators import choices, setup
from precog.estimators.callbacks import CallbackSupportMixin, Tasks, with_callbacks
from precog.estimators.plan import Plan, plan
from precog.estimators.progress import Reporter
from precog.inference import Certificate, History, Learning, Learnt, Model, Posterior, basis, conclude, learn
from precog.inference.fit import Estimator
from precog.inference.marginal import marginal
from precog.inference.model import Merged
from precog.inference.pathwise import JOINT_ROWS, joint, paths
from precog.inference.posterior import alone
from precog.kernels import RBF, Kernel, from_sklearn
from precog.kernels.base import has_white
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array
from precog.solvers import PCG

DEFAULT_MEMORY = 2e9


class GPRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression: y = f(x) + noise with f ~ GP(mean, kernel), learnt by maximum likelihood.

    Up to 5,000 rows everything is exact, by a dense Cholesky factor. Above, likelihoods, gradients and predictions come
    from preconditioned conjugate gradients on kernel products that are never stored, each with its error.

    Parameters
    ----------
    kernel : kernel of precog or of scikit-learn, default=None
        None takes a variance times an RBF kernel with a length scale for each column. It acts on y in standard units
        where `normalize_y` is set. A `White` term of a sum is taken as the noise.
    noise : float, default=None
        Noise variance where learning starts, in the units that the kernel's variance has; None starts from 0.1.
    noise_bounds : (float, float) or "fixed", default=None
        None takes (1e-6, 100); "fixed" keeps the noise as it is.
    mean : {"zero", "constant", "linear"}, default="zero"
        Mean before the data, its coefficients taken at their most likely values, with their uncertainty in predictions.
    normalize_y : bool, default=True
        Bring y to mean 0 and variance 1 first; predictions are in the units of y whatever this is.
    optimizer : {"auto", "lbfgs", "stochastic", "adagrad"} or None, default="auto"
        "lbfgs" is exact, "stochastic" works by estimated gradients; "auto" chooses by the number of rows. None keeps
        the hyperparameters.
    solver : {"auto", "cholesky", "cg", "pcg"}, default="auto"
        A dense factor, or conjugate gradients without or with a preconditioner; "auto" chooses by the number of rows.
    preconditioner : str, default="auto"
        A name that `precog.precond.make` knows.
    rank : int, default=None
        Rank of the preconditioner; None leaves it to the preconditioner and `max_memory`.
    recipe : {"cutajar2016"} or None, default=None
        Learn as published there: AdaGrad with step one, four random signs, Nyström drawn anew in each step; with
        solver="cholesky" by L-BFGS. Without a kernel it starts from variance 1, noise 0.1 and length scales 1.
    priors : dict of str to LogNormal, default=None
        Priors on hyperparameters by their names in `kernel.names`, or "noise".
    n_restarts_optimizer : int, default=0
        Further exact searches from random points within the bounds.
    max_iter : int, default=None
        Steps of the optimizer; None takes 200 exact, 30 stochastic, or 100 of AdaGrad.
    warm_start : bool, default=False
        Start learning from the hyperparameters of the last fit.
    rtol : float, default=1e-6
        Relative residual of the weights behind the mean, for conjugate gradients.
    variance : {"auto", "solve"}, default="auto"
        How variances are had where there is no dense factor. "auto" conditions a new row on the up to 1,024 training
        rows that it is most correlated with, in some milliseconds, where that leaves the variance at most a twentieth
        too long, and solves where it does not. "solve" always solves, to a hundredth. See `variance_error_`.
    max_memory : float, default=2e9
        Bytes that dense factors, preconditioners and blocks of predictions may take, each.
    threads : int, default=None
        Threads for the products; None takes all CPUs that the process may use.
    random_state : int, RandomState, Generator or None, default=None
        For probes, subsets, pivots and restarts.
    verbose : bool, default=False
        Report every step; in a terminal with rich installed, on one line that is kept up to date.

    Attributes
    ----------
    kernel_, noise_ : the kernel without `White` terms, and the noise variance, in standard units of y.
    theta_ : ndarray
        Logarithms of the learnt hyperparameters, noise last; `names_` names them.
    log_marginal_likelihood_value_, log_marginal_likelihood_se_ : float
        Of y in standard units, with its standard error (0 where exact).
    log_marginal_likelihood_bound_ : float
        A certified lower bound on it.
    solver_, preconditioner_ : str
        What ran, and why.
    n_iter_, products_ : int
        Evaluations of the objective; columns multiplied with the kernel matrix.
    residual_ : ndarray of shape (n_targets,)
        True relative residual of each output's weights.
    converged_ : bool
        Whether learning and the last solve reached what they aimed at.
    variance_error_ : float
        Largest error of a variance relative to it in the last call that asked for some, as the method states it.
    history_ : list of dict
        Every evaluation: stage, seconds, theta, value, gradient norm.
    X_train_, alpha_ : training rows, equal ones made one, and their weights.
    n_features_in_ : int
        Number of features, for kernels on vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from precog import GPRegressor
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[1.0], [60.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 1e-2 and std[1] > 10 * std[0])
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | None = None,
        noise_bounds: Any = None,
        mean: str = "zero",
        normalize_y: bool = True,
        optimizer: str | None = "auto",
        solver: str = "auto",
        preconditioner: str = "auto",
        rank: int | None = None,
        recipe: str | None = None,
        priors: Any = None,
        n_restarts_optimizer: int = 0,
        max_iter: int | None = None,
        warm_start: bool = False,
        rtol: float = 1e-6,
        variance: str = "auto",
        max_memory: float = DEFAULT_MEMORY,
        threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.mean = mean
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.solver = solver
        self.preconditioner = preconditioner
        self.rank = rank
        self.recipe = recipe
        self.priors = priors
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.rtol = rtol
        self.variance = variance
        self.max_memory = max_memory
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, noise: Any = None) -> Self:
        """Learn the hyperparameters and solve for the weights.

        sample_weight: a weight of w counts a row w times. noise: known noise variances of the rows, (n,), in the units
        of y squared; a `White` term in the kernel learns more on top.
        """
        choices.check(self)
        X, y = self._training(X, y)
        tasks = Tasks(self, X, y)
        weights, known = setup.weights_of(sample_weight, len(y)), setup.noise_of_rows(noise, len(y))
        if weights is not None:
            kept = np.flatnonzero(weights)
            X = X[kept] if hasattr(X, "shape") else [X[int(i)] for i in kept]
            y, weights, known = y[kept], weights[kept], None if known is None else known[kept]
        Y = y[:, None] if y.ndim == 1 else y
        self._outputs = y.shape[1:]
        self._scaling = setup.Scaling.of(Y, weights, normalize=self.normalize_y, common=known is not None)
        known = None if known is None else known / self._scaling.scale[0] ** 2
        model = self._model(X, weights, known)
        choices.prior(self).check(model)
        setup.warn_of_scales(model.kernel, X)
        made = setup.targets_of(model, X, self._scaling.standardised(Y), self.mean, weights, known)
        self._merged = made if isinstance(made, Merged) else None
        targets = made.targets if isinstance(made, Merged) else made
        rng = setup.generator(self.random_state)
        with Reporter(verbose=self.verbose) as reporter:

            def listener(row: dict[str, Any]) -> None:
                reporter(row)
                tasks.evaluated(row["stage"])

            history = History(listener=listener)
            learning = choices.learning(self, targets.n)
            learnt = None if learning is None else learn(model, targets, learning, rng, history)
            final = model if learnt is None else learnt.model
            posterior, certificate = conclude(final, targets, choices.concluding(self, targets.n), rng)
        self._keep(posterior, certificate, learnt, history)
        tasks.ended()
        return self

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        if isinstance(self.kernel, Kernel) and on_objects(self.kernel):
            return setup.objects_of(X, y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _model(self, X: Any, weights: Array | None, known: Array | None) -> Model:
        noise = self.noise
        if self.recipe is not None and self.kernel is None:
            kernel, noise = 1.0 * RBF(np.ones(X.shape[1])), 0.1 if noise is None else noise
        else:
            kernel = setup.resolved(self.kernel, X, weights)
        checks.inputs(kernel, "X", X)
        model = setup.kernel_and_noise(kernel, noise, self.noise_bounds, known=known is not None)
        if self.warm_start and hasattr(self, "theta_") and self.names_ == model.names:
            return model.with_theta(model.clipped(self.theta_))
        return model

    def _keep(self, posterior: Posterior, certificate: Certificate, learnt: Learnt | None, history: History) -> None:
        model = posterior.model
        self._posterior = posterior
        self.kernel_, self.noise_ = model.kernel, model.noise
        self.theta_, self.names_ = model.theta, model.names
        self.X_train_ = posterior.targets.X
        self.alpha_ = posterior.alpha if self._outputs else posterior.alpha[:, 0]
        self.log_marginal_likelihood_value_ = certificate.value
        self.log_marginal_likelihood_se_ = certificate.standard_error
        self.log_marginal_likelihood_bound_ = certificate.bound
        learning = "" if learnt is None else f"; learnt by {learnt.why}"
        self.solver_, self.preconditioner_ = f"{certificate.solver}{learning}", certificate.preconditioner
        self.n_iter_ = len(history.rows)
        self.products_ = certificate.products + (0 if learnt is None else learnt.products)
        self.residual_ = certificate.residuals
        self.converged_ = certificate.converged and (learnt is None or learnt.found.converged)
        self.history_ = history.rows
        if learnt is not None and learnt.found.interrupted:
            _warn("learning was interrupted; the best hyperparameters so far are kept")
        elif learnt is not None and not learnt.found.converged:
            _warn(f"learning stopped early ({learnt.found.why}); raise max_iter, or set warm_start and fit again")
        if not certificate.converged:
            _warn(f"the weights did not converge: {certificate.remedy}")

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool | None = None
    ) -> Any:
        """Return the mean at the rows of X, and on request the standard deviation or the covariance.

        include_noise: of f (False) or of a new y (True); None includes the noise where the kernel has a `White` term,
        as scikit-learn does. Deviations are (m,) or (m, outputs), covariances (m, m) or (m, m, outputs).
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be set: the covariance has the variances in it")
        X, H = self._new(X)
        mean = self._scaling.centre + self._scaling.scale * self._posterior.mean(X, H)
        mean = mean if self._outputs else mean[:, 0]
        noise = self._noise_added(include_noise)
        if return_cov:
            cov = self._posterior.covariance(X, H) + noise * np.eye(len(H))
            return mean, self._in_units(cov, 2)
        if not return_std:
            return mean
        variance, errors = self._posterior.variance(X, H)
        self.variance_error_ = float((errors / variance).max(initial=0.0))
        return mean, self._in_units(np.sqrt(variance + noise), 1)

    def _in_units(self, values: Array, power: int) -> Array:
        scaled: Array = values[..., None] * self._scaling.scale**power
        return scaled if self._outputs else scaled[..., 0]

    def _noise_added(self, include_noise: bool | None) -> float:
        if include_noise is None:
            include_noise = self.kernel is not None and has_white(from_sklearn(self.kernel, self._width()))
        return self.noise_ if include_noise else 0.0

    def _width(self) -> int | None:
        return getattr(self, "n_features_in_", None)

    def _new(self, X: Any) -> tuple[Any, Array]:
        """Return rows to predict at, checked, with their basis."""
        check_is_fitted(self)
        if not on_objects(self.kernel_):
            X = validate_data(self, X, dtype=np.float64, reset=False)
        return X, basis(self.mean, X, checks.length(X))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return samples of f at the rows of X, (m, n_samples) or (m, outputs, n_samples).

        Up to 1,000 rows from their joint covariance; beyond, or where that does not fit into memory, by pathwise
        conditioning, for kernels that have a spectral density.
        """
        X, H = self._new(X)
        rng, count = setup.generator(random_state), checks.count("n_samples", n_samples)
        draw = joint if len(H) <= JOINT_ROWS else paths
        samples = draw(self._posterior, X, H, count, rng)
        samples = self._scaling.centre[:, None] + self._scaling.scale[:, None] * samples
        return samples if self._outputs else samples[:, 0]

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return what is predicted for every training row from all others: means, and deviations with noise."""
        check_is_fitted(self)
        if self._merged is not None:
            mean, variance = alone(self._posterior, self._merged)
        else:
            alpha, diagonal = self._posterior.leave_one_out()
            mean, variance = self._posterior.targets.Y - alpha / diagonal[:, None], 1.0 / diagonal
        mean = self._scaling.centre + self._scaling.scale * mean
        return mean if self._outputs else mean[:, 0], self._in_units(np.sqrt(variance), 1)

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return the log marginal likelihood at theta, with its gradient on request; estimated where n is large."""
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        model, targets = self._posterior.model, self._posterior.targets
        theta = model.theta if theta is None else np.asarray(theta, dtype=np.float64)
        point: Any
        if choices.dense(self, targets.n):
            point = marginal(model.with_theta(theta), targets, gradient=eval_gradient, threads=self.threads)
        else:
            name, rank = choices.preconditioner(self), choices.rank(self, targets.n)
            settings = Learning("stochastic", PCG(rtol=1e-3), name, rank, threads=self.threads)
            point = Estimator(model, targets, settings, 0)(theta)
        return (point.value, point.gradient) if eval_gradient else point.value

    def plan(self, X: Any) -> Plan:
        """Return what `fit` on X would take: the way, bytes, kernel entries and an expected time; prints as a table."""
        choices.check(self)
        n, d = checks.length(X), checks.width(X)
        kernel = setup.resolved(self.kernel, np.asarray(X, dtype=np.float64) if d else X, None)
        model = setup.kernel_and_noise(kernel, self.noise, self.noise_bounds, known=False)
        how, rank = choices.learning(self, n), choices.rank(self, n)
        return plan(model, X, n, dense=choices.dense(self, n), learning=how, rank=rank)


def _warn(message: str) -> None:
    warnings.warn(f"GPRegressor: {message}", ConvergenceWarning, stacklevel=4)
