"""Sparse Gaussian process regression: inducing inputs and hyperparameters chosen together, on any domain."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from precog import checks
from precog.estimators import setup
from precog.estimators.progress import Reporter
from precog.inference import History, Model, Prior
from precog.inference.model import Targets
from precog.inference.subsets import subset_start
from precog.kernels import from_sklearn
from precog.kernels.base import has_white
from precog.kernels.objects import on_objects
from precog.kernels.statistics import Array, Index
from precog.operators.blockwise import take
from precog.precond.base import problem
from precog.precond.blocks import rows_of
from precog.sparse import APPROXIMATIONS, VFE, Inducing, Posterior
from precog.sparse.columns import on_demand
from precog.sparse.continuous import by_gradient
from precog.sparse.discrete import alternate
from precog.sparse.rules import RULES, by_rule
from precog.sparse.selection import KINDS, Information
from precog.sparse.task import ROUNDS, STEPS, Budget, Chosen, Task

SELECTIONS = ("cholqr", "gradient", *RULES)
DEFAULT_INDUCING = 128
# From so many rows on, hyperparameters begin at the optimum of subsets.
SUBSET_ROWS = 1000
# Continuous steps where they are all there is.
ALONE_STEPS = 200


class SparseGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression through m inducing inputs, in time linear in the rows.

    Inducing inputs and hyperparameters are chosen on one objective: rows of the data are exchanged for others that
    gain more, and hyperparameters follow the gradient, in turns [Cao13]. That works for whatever has a kernel: vectors,
    histograms, strings, graphs. Predictions need the m inducing inputs only.

    Parameters
    ----------
    kernel : kernel of precog or of scikit-learn, default=None
        None takes a variance times an RBF kernel with a length scale for each column. It acts on y in standard units
        where `normalize_y` is set. A `White` term of a sum is taken as the noise.
    method : {"vfe", "dtc", "fitc", "pitc", "sor"}, default="vfe"
        The approximation whose likelihood, or bound for "vfe", is maximised and that predicts.
    n_inducing : int, default=None
        Number of inducing inputs; None takes 128, or as many as there are rows.
    selection : {"cholqr", "random", "kmeans", "greedy", "rpcholesky", "ivm", "gradient"}, default="cholqr"
        How they are chosen. "cholqr" exchanges rows by the objective of "vfe" or "dtc" (of "vfe", for the other
        methods); the rules choose at the hyperparameters of the moment, three times; "gradient" moves them freely.
    inducing : array-like or list of objects, default=None
        Inducing inputs to keep as they are; `selection` is then not used.
    refine : bool, default=False
        Whether to move inducing inputs freely in the end; for vectors.
    noise : float, default=None
        Noise variance where learning starts, in the units that the kernel's variance has; None starts from 0.1.
    noise_bounds : (float, float) or "fixed", default=None
        None takes (1e-6, 100); "fixed" keeps the noise as it is.
    normalize_y : bool, default=True
        Bring y to mean 0 and variance 1 first; predictions are in the units of y whatever this is.
    optimizer : {"lbfgs"} or None, default="lbfgs"
        None keeps the hyperparameters and chooses inducing inputs for them.
    information : {"random", "optimised", "adaptive"}, default="adaptive"
        Information pivots of "cholqr": drawn at random, where least is explained, or those in a number that doubles
        when an exchange is rejected and shrinks when one is accepted.
    n_information : int, default=16
        How many information pivots; of "adaptive" the least.
    blocks : {"tree", "clusters", "contiguous"}, default="tree"
        Which rows PITC takes together, about `n_inducing` of them each; objects are taken in their order.
    shift : float, "auto" or None, default=None
        What to add to the diagonal of a kernel that is not positive semidefinite; "auto" finds the least that helps.
    max_rounds : int, default=20
        Rounds of exchanging and learning.
    max_iter : int, default=None
        Steps of a continuous search; None takes 20 in a round, 200 where there is but one.
    max_time : float, default=None
        Seconds after which the best so far is kept.
    tol : float, default=1e-4
        Nats a row that a round must gain for another to follow.
    max_memory : float, default=1e9
        Bytes that may be kept between passes over the data.
    threads : int, default=None
        Threads for kernel products; None takes all CPUs that the process may use.
    random_state : int, RandomState, Generator or None, default=None
        For the order of exchanges, information pivots and rules.
    verbose : bool, default=False
        Report every step; in a terminal with rich installed, on one line that is kept up to date.

    Attributes
    ----------
    inducing_inputs_ : ndarray or list of objects
        The inducing inputs.
    inducing_indices_ : ndarray or None
        Which rows of X they are; None where they are no rows.
    kernel_, noise_ : the kernel without `White` terms, and the noise variance, in standard units of y.
    theta_ : ndarray
        Logarithms of the learnt hyperparameters, noise last; `names_` names them.
    objective_value_ : float
        Log marginal likelihood of the approximation, or the bound of "vfe", of y in standard units.
    objective_history_ : ndarray
        The objective after each exchange and each search; of "cholqr" it never falls.
    selection_ : str
        How the inducing inputs were chosen, and why that ended.
    n_iter_ : int
        Evaluations of the objective and sweeps.
    converged_ : bool
        Whether the last round gained less than `tol`.
    history_ : list of dict
        Every evaluation: stage, seconds, theta, value, gradient norm.
    n_features_in_ : int
        Number of features, for kernels on vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from precog import SparseGPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = SparseGPRegressor(n_inducing=12, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[1.0], [60.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 1e-2 and std[1] > 10 * std[0])
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        method: str = "vfe",
        n_inducing: int | None = None,
        selection: str = "cholqr",
        inducing: Any = None,
        refine: bool = False,
        noise: float | None = None,
        noise_bounds: Any = None,
        normalize_y: bool = True,
        optimizer: str | None = "lbfgs",
        information: str = "adaptive",
        n_information: int = 16,
        blocks: str = "tree",
        shift: Any = None,
        max_rounds: int = ROUNDS,
        max_iter: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-4,
        max_memory: float = 1e9,
        threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.n_inducing = n_inducing
        self.selection = selection
        self.inducing = inducing
        self.refine = refine
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.information = information
        self.n_information = n_information
        self.blocks = blocks
        self.shift = shift
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.max_memory = max_memory
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose inducing inputs, learn the hyperparameters, and solve; a sample weight of w counts a row w times."""
        self._check()
        X, y = self._training(X, y)
        weights = setup.weights_of(sample_weight, len(y))
        kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        if weights is not None:
            X, y, weights = take(X, kept), y[kept], weights[kept]
        self._outputs = y.shape[1:]
        data = setup.Joined.of(X, y[:, None] if y.ndim == 1 else y, weights, merges=self._merges(X))
        self._scaling = setup.Scaling.of(data.Y, data.weights, normalize=self.normalize_y, common=False)
        model = self._model(data.X, data.weights)
        setup.warn_of_scales(model.kernel, data.X)
        with Reporter(verbose=self.verbose, name="SparseGPRegressor", objective="objective") as reporter:
            history = History(listener=reporter)
            task = self._task(model, data.targets(self._scaling), history)
            chosen = self._on_demand(task, model) if on_objects(model.kernel) else self._choose(task, model)
        self._keep(task, chosen, kept[data.rows])
        return self

    def _merges(self, X: Any) -> bool:
        """Return whether equal rows may be one: not where an identity in the kernel tells them apart."""
        return self.kernel is None or (
            self.shift is None and not has_white(self._model(X, None).kernel) and hasattr(X, "shape")
        )

    def _check(self) -> None:
        """Raise an error for settings that make no sense whatever the data."""
        checks.choice("method", self.method, tuple(APPROXIMATIONS))
        checks.choice("selection", self.selection, SELECTIONS)
        checks.choice("information", self.information, KINDS)
        checks.choice("blocks", self.blocks, ("tree", "clusters", "contiguous"))
        if self.optimizer is not None:
            checks.choice("optimizer", self.optimizer, ("lbfgs",))
        for name in ("n_information", "max_rounds", "n_inducing", "max_iter"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        for name in ("tol", "max_memory", "max_time"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name))

    def _training(self, X: Any, y: Any) -> tuple[Any, Array]:
        if not getattr(self.kernel, "requires_vector_input", True) and on_objects(from_sklearn(self.kernel)):
            return setup.objects_of(X, y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _model(self, X: Any, weights: Array | None) -> Model:
        kernel = setup.resolved(self.kernel, X, weights)
        checks.inputs(kernel, "X", X)
        model = setup.kernel_and_noise(kernel, self.noise, self.noise_bounds, known=False)
        if self.shift is None:
            return model
        return replace(model, kernel=setup.shifted(model.kernel, X, self.shift))

    def _task(self, model: Model, targets: Targets, history: History) -> Task:
        how, rng = APPROXIMATIONS[self.method], setup.generator(self.random_state)
        wanted = DEFAULT_INDUCING if self.n_inducing is None else self.n_inducing
        m = min(wanted, targets.n)
        deadline = float("inf") if self.max_time is None else time.perf_counter() + self.max_time
        rounds = self.inducing is None and self.selection == "cholqr"
        steps = self.max_iter or (STEPS if rounds else ALONE_STEPS)
        blocks = None
        if how.keeps == "blocks":
            kind = "contiguous" if on_objects(model.kernel) else self.blocks
            blocks = rows_of(problem(targets.operator(model)), kind, -(-targets.n // m), rng)
        return Task(
            targets,
            m,
            rng,
            how,
            learns=self.optimizer is not None,
            blocks=blocks,
            budget=Budget(self.max_rounds, steps, self.tol, deadline),
            history=history,
            max_memory=self.max_memory,
            threads=self.threads,
        )

    def _choose(self, task: Task, model: Model) -> Chosen:
        """Return the model and its inducing inputs."""
        if task.learns and len(model.theta) and task.targets.n > SUBSET_ROWS and not on_objects(model.kernel):
            start = subset_start(model, task.targets, Prior(), task.rng, task.history, bend=False)
            model = model.with_theta(start.theta)
        if self.inducing is not None:
            chosen = self._with(task, model, self._given(model))
        elif self.selection == "cholqr":
            chosen = self._exchanged(task, model)
        elif self.selection == "gradient":
            chosen = by_rule(replace(task, learns=False), model, "kmeans")
        else:
            chosen = by_rule(task, model, self.selection)
        if (self.refine or (self.selection == "gradient" and self.inducing is None)) and not chosen.interrupted:
            chosen = by_gradient(task, chosen)
        return chosen

    def _on_demand(self, task: Task, model: Model) -> Chosen:
        """Choose by row numbers, with columns of the kernels that are computed once, and return to the objects."""
        by_row = on_demand(model.kernel, task.targets.X, self.max_memory) if self.inducing is None else None
        if by_row is None:
            return self._choose(task, model)
        targets = replace(task.targets, X=np.arange(task.targets.n))
        chosen = self._choose(replace(task, targets=targets), replace(model, kernel=by_row))
        found = model.with_theta(chosen.model.theta)
        return replace(chosen, model=found, inducing=Inducing.of(task.targets.X, chosen.inducing.rows))

    def _exchanged(self, task: Task, model: Model) -> Chosen:
        information = Information(self.information, self.n_information, task.rng)
        own = task if task.how.keeps == "nothing" and not task.how.degenerate else replace(task, how=VFE)
        first = RULES["rpcholesky"](task, model).rows
        assert first is not None
        chosen = alternate(own, model, first, information)
        if own is task or chosen.interrupted:
            return chosen
        last = self._with(task, chosen.model, chosen.inducing)
        return replace(last, values=chosen.values + last.values, why=f"{chosen.why}; then {last.why}")

    def _with(self, task: Task, model: Model, inducing: Inducing) -> Chosen:
        """Return the best hyperparameters for inducing inputs that stay."""
        if not task.learns or not len(model.theta):
            value = task.system(model, inducing).value()
            return Chosen(model, inducing, value, [value], why="as given")
        found = task.learn(task.start(model, inducing), inducing)
        kept = model.with_theta(found.theta)
        return Chosen(kept, inducing, found.value, [found.value], found.converged, found.interrupted, found.why)

    def _given(self, model: Model) -> Inducing:
        if on_objects(model.kernel):
            return Inducing(checks.inputs(model.kernel, "inducing", self.inducing))
        Z = check_array(self.inducing, dtype=np.float64, input_name="inducing")
        if Z.shape[1] != self.n_features_in_:
            raise ValueError(f"inducing has {Z.shape[1]} columns where X has {self.n_features_in_}")
        return Inducing(Z)

    def _keep(self, task: Task, chosen: Chosen, kept: Index) -> None:
        model, rows = chosen.model, chosen.inducing.rows
        self._posterior: Posterior = task.system(model, chosen.inducing).posterior()
        self.kernel_, self.noise_ = model.kernel, model.noise
        self.theta_, self.names_ = model.theta, model.names
        self.inducing_inputs_ = self._posterior.inducing.Z
        self.inducing_indices_ = None if rows is None else kept[rows]
        self.objective_value_ = chosen.value
        self.objective_history_ = np.array(chosen.values)
        self.selection_, self.converged_ = chosen.why, chosen.converged
        self.history_ = task.history.rows
        self.n_iter_ = len(self.history_)
        if chosen.interrupted:
            _warn("learning was interrupted; the best inducing inputs and hyperparameters so far are kept")
        elif not chosen.converged:
            _warn(f"stopped early ({chosen.why}); raise max_rounds, max_iter or max_time")

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool | None = None
    ) -> Any:
        """Return the mean at the rows of X, and on request the standard deviation or the covariance.

        include_noise: of f (False) or of a new y (True); None includes the noise where the kernel has a `White` term,
        as scikit-learn does. Deviations are (m,) or (m, outputs), covariances (m, m) or (m, m, outputs).
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be set: the covariance has the variances in it")
        X = self._new(X)
        mean = self._scaling.centre + self._scaling.scale * self._posterior.mean(X)
        mean = mean if self._outputs else mean[:, 0]
        noise = self._noise_added(include_noise)
        if return_cov:
            covariance = self._posterior.covariance(X) + noise * np.eye(len(mean))
            return mean, self._in_units(covariance, 2)
        if return_std:
            return mean, self._in_units(np.sqrt(self._posterior.variance(X) + noise), 1)
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return samples of f at the rows of X, jointly drawn, (m, n_samples) or (m, outputs, n_samples)."""
        X, count = self._new(X), checks.count("n_samples", n_samples)
        mean, covariance = self._posterior.mean(X), self._posterior.covariance(X)
        values, vectors = scipy.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = setup.generator(random_state).standard_normal((mean.shape[1], len(mean), count))
        samples = mean[:, :, None] + np.moveaxis(root @ drawn, 0, 1)
        samples = self._scaling.centre[:, None] + self._scaling.scale[:, None] * samples
        return samples if self._outputs else samples[:, 0]

    def _new(self, X: Any) -> Any:
        """Return rows to predict at, checked."""
        check_is_fitted(self)
        if on_objects(self.kernel_):
            return checks.inputs(self.kernel_, "X", X)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _in_units(self, values: Array, power: int) -> Array:
        scaled: Array = values[..., None] * self._scaling.scale**power
        return scaled if self._outputs else scaled[..., 0]

    def _noise_added(self, include_noise: bool | None) -> float:
        if include_noise is None:
            width = getattr(self, "n_features_in_", None)
            include_noise = self.kernel is not None and has_white(from_sklearn(self.kernel, width))
        return self.noise_ if include_noise else 0.0


def _warn(message: str) -> None:
    warnings.warn(f"SparseGPRegressor: {message}", ConvergenceWarning, stacklevel=4)
