"""The demonstration: a learnt Gaussian process, a ridge regression beside scikit-learn's, a product at a larger n."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge as DenseKernelRidge

from precog import RBF, Gram, datasets
from precog.estimators import GPRegressor, KernelRidge
from precog.experiments.plotting import require_matplotlib
from precog.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Within 2% of the best of a five-fold cross-validation on the training rows.
LENGTH_SCALE = 2.5
ALPHA = 0.01
RTOL = 1e-8
HELD_OUT = 0.1
SEED = 0
# Standard deviations either way that hold 95 % of a normal distribution.
NINETY_FIVE = 1.96

# A stored float32 kernel matrix of this many rows takes 14.4 GB.
ROWS = 60_000
CHECKED_ROWS = 64


@dataclass(frozen=True)
class Split:
    """Training and held-out rows: X standardised by the training rows, y in the units of the data."""

    X: Array
    y: Array
    X_held_out: Array
    y_held_out: Array


@dataclass(frozen=True)
class Fit:
    """One estimator's predictions for the held-out rows, their error, and how long two fits in a row took."""

    predicted: Array
    rmse: float
    seconds: tuple[float, float]


@dataclass(frozen=True)
class Learnt:
    """A Gaussian process with learnt hyperparameters: error, share of held-out rows in their 95 % interval, time."""

    rmse: float
    covered: float
    log_likelihood: float
    hyperparameters: int
    seconds: float


@dataclass(frozen=True)
class Product:
    """One product K @ v without K: its size, time, and largest error relative to the largest entry of the answer."""

    rows: int
    seconds: float
    error: float

    @property
    def entries_per_second(self) -> float:
        return self.rows**2 / self.seconds

    @property
    def stored_gigabytes(self) -> float:
        return self.rows**2 * 4 / 1e9


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What the demonstration measured."""

    split: Split
    precog: Fit
    sklearn: Fit
    solver: str
    learnt: Learnt
    large: Product

    @property
    def largest_difference(self) -> float:
        return float(np.abs(self.precog.predicted - self.sklearn.predicted).max())


def run(plot: Path | None = None, report: Callable[[str], object] = print, *, rows: int = ROWS) -> DemoResult:
    """Fit the Concrete data with both libraries, time one product of `rows` rows, and save a figure to `plot`."""
    if plot is not None:
        require_matplotlib()
    split = split_concrete()
    model = KernelRidge(RBF(length_scale=LENGTH_SCALE), alpha=ALPHA, rtol=RTOL)
    ours = fit(model, split)
    theirs = fit(DenseKernelRidge(kernel="rbf", gamma=0.5 / LENGTH_SCALE**2, alpha=ALPHA), split)
    result = DemoResult(split, ours, theirs, model.solver_, learn(split), large_product(rows))
    for line in table(result):
        report(line)
    if plot is not None:
        save_plot(result, plot)
        report(f"\nfigure saved to {plot}")
    return result


def split_concrete() -> Split:
    """Return nine tenths of the Concrete data to learn from and one tenth held out, always the same rows."""
    data = datasets.load("concrete")
    order = np.random.default_rng(SEED).permutation(len(data.y))
    held_out, train = np.split(order, [round(HELD_OUT * len(order))])
    mean, scale = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    X = (data.X - mean) / scale
    return Split(X[train], data.y[train], X[held_out], data.y[held_out])


def fit(model: Any, split: Split) -> Fit:
    """Fit on standardised targets, as the kernel has variance 1, and predict in the units of the data."""
    mean, scale = split.y.mean(), split.y.std()
    y = (split.y - mean) / scale
    seconds = (_seconds(lambda: model.fit(split.X, y)), _seconds(lambda: model.fit(split.X, y)))
    predicted = mean + scale * model.predict(split.X_held_out)
    rmse = float(np.sqrt(np.mean((predicted - split.y_held_out) ** 2)))
    return Fit(predicted, rmse, seconds)


def learn(split: Split) -> Learnt:
    """Learn a Gaussian process with a length scale for each input, and predict intervals for the held-out rows."""
    model = GPRegressor(random_state=SEED)
    seconds = _seconds(lambda: model.fit(split.X, split.y))
    mean, std = model.predict(split.X_held_out, return_std=True, include_noise=True)
    error = mean - split.y_held_out
    return Learnt(
        float(np.sqrt(np.mean(error**2))),
        float(np.mean(np.abs(error) <= NINETY_FIVE * std)),
        model.log_marginal_likelihood_value_,
        len(model.theta_),
        seconds,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def large_product(rows: int) -> Product:
    """Time K @ v for normal inputs in float32, once compiled, and compare some entries with NumPy in float64."""
    rng = np.random.default_rng(SEED)
    X, v = rng.standard_normal((rows, 8)), rng.standard_normal(rows)
    kernel = RBF(length_scale=LENGTH_SCALE)
    K = Gram(kernel, X, dtype="float32")
    # The first product may wait for the compiler, so the second one is timed.
    product = K @ v
    seconds = _seconds(lambda: K @ v)
    expected = kernel(X[:CHECKED_ROWS], X) @ v
    error = float(np.abs(product[:CHECKED_ROWS] - expected).max() / np.abs(expected).max())
    return Product(rows, seconds, error)


def table(result: DemoResult) -> list[str]:
    """Return the report, line by line."""
    n, d = result.split.X.shape
    large, learnt = result.large, result.learnt
    return [
        f"precog {__version__} on the Concrete data: {n} rows to learn from, {len(result.split.y_held_out)} held out, "
        f"{d} inputs",
        f"Gaussian process regression, {learnt.hyperparameters} hyperparameters learnt by maximum likelihood",
        "",
        _row("held-out RMSE (MPa)", f"{learnt.rmse:.4f}"),
        _row("held-out rows in their 95 % interval", f"{100 * learnt.covered:.0f} %"),
        _row("log marginal likelihood", f"{learnt.log_likelihood:.1f}"),
        _row("learning (s)", f"{learnt.seconds:.2f}"),
        "",
        f"kernel ridge regression, RBF(length_scale={LENGTH_SCALE}), alpha={ALPHA}",
        "",
        _row("", "precog", "scikit-learn"),
        _row("held-out RMSE (MPa)", f"{result.precog.rmse:.4f}", f"{result.sklearn.rmse:.4f}"),
        *(
            _row(label, *(f"{1e3 * fitted.seconds[turn]:.1f}" for fitted in (result.precog, result.sklearn)))
            for turn, label in enumerate(("first fit, with any compiling (ms)", "every further fit (ms)"))
        ),
        _row("solved by", result.solver, "Cholesky"),
        _row("largest difference of predictions (MPa)", f"{result.largest_difference:.1e}"),
        "",
        f"The same formula at n = {large.rows:,}, where a stored float32 matrix takes {large.stored_gigabytes:.1f} GB",
        _row("one product K @ v (s)", f"{large.seconds:.3f}"),
        _row("kernel entries per second", f"{large.entries_per_second:.1e}"),
        _row("largest relative error, float32", f"{large.error:.1e}"),
    ]


def _row(label: str, *cells: str) -> str:
    return f"  {label:<40}{''.join(f'{cell:>20}' for cell in cells)}".rstrip()


def save_plot(result: DemoResult, path: Path) -> None:
    """Draw predictions against measurements, and both libraries' sorted errors, on the held-out rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_predictions(left, result)
    _draw_errors(right, result)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92")
        axes.set_axisbelow(True)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_predictions(axes: Axes, result: DemoResult) -> None:
    measured = result.split.y_held_out
    low, high = float(measured.min()) - 4, float(measured.max()) + 4
    axes.plot([low, high], [low, high], color="0.6", linewidth=1)
    axes.scatter(measured, result.precog.predicted, s=18, color="C0", label="precog")
    axes.scatter(
        measured,
        result.sklearn.predicted,
        s=54,
        facecolors="none",
        edgecolors="C1",
        linewidths=0.9,
        label="scikit-learn",
    )
    axes.set(
        xlabel="measured strength (MPa)",
        ylabel="predicted strength (MPa)",
        title=f"{len(measured)} held-out mixtures, RMSE {result.precog.rmse:.2f} MPa",
        aspect="equal",
    )
    axes.legend(frameon=False, loc="upper left")


def _draw_errors(axes: Axes, result: DemoResult) -> None:
    measured = result.split.y_held_out
    share = np.arange(1, len(measured) + 1) / len(measured)
    styles = [("precog", result.precog, "C0", "-", 4.0), ("scikit-learn", result.sklearn, "C1", "--", 1.4)]
    for label, fitted, color, style, width in styles:
        errors = np.sort(np.abs(fitted.predicted - measured))
        axes.plot(errors, share, color=color, linestyle=style, linewidth=width, label=label)
    axes.set(
        xlabel="absolute error (MPa)",
        ylabel="share of held-out mixtures below",
        title=f"predictions differ by at most {result.largest_difference:.0e} MPa",
        xlim=(0, None),
        ylim=(0, 1.02),
    )
    axes.legend(frameon=False, loc="lower right")
