"""Sparse Gaussian processes: sweeps, free energies and their gradients, selections beside each other, discrete domains.

python benchmarks/sparse.py                     the table of targets; some groups take many minutes
python benchmarks/sparse.py --only sweep        one group
python benchmarks/sparse.py --peers             GPflow's SGPR beside the free energy, where GPflow is installed
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from table import Row, race, show

from precog import (
    RBF,
    GPRegressor,
    Gram,
    Graph,
    Graphlets,
    HistogramIntersection,
    RandomWalk,
    ShortestPath,
    SparseGPRegressor,
    WeisfeilerLehman,
    datasets,
    weighted_sum,
)
from precog.inference import History, Model, Prior, Targets
from precog.inference.subsets import subset_start
from precog.sparse import VFE, Inducing, System, evaluation
from precog.sparse.cholqr import CholQR
from precog.sparse.continuous import by_gradient
from precog.sparse.discrete import alternate
from precog.sparse.objective import Objective
from precog.sparse.rules import RULES, by_rule
from precog.sparse.selection import Information, sweep
from precog.sparse.task import Budget, Task

NOISE = (1e-6, 1e2)


# One sweep.


def swept(n: int, m: int, z: int, kind: str) -> float:
    """Return the seconds of one sweep over m pivots of n random vectors."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    factors, objective = CholQR(Gram(1.0 * RBF(np.full(8, 2.0)), X), 0.05, m), Objective(y[:, None])
    factors.m_step(rng.choice(n, m, replace=False))
    started = time.perf_counter()
    sweep(factors, objective, Information(kind, z, rng), rng)
    return time.perf_counter() - started


def sweeps() -> Iterator[Row]:
    seconds = {(n, m): swept(n, m, 16, "random") for n, m in ((5000, 64), (10000, 64), (20000, 64), (40000, 32))}
    # Peak memory is of a process of its own.
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import sparse; sparse.peak()"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    whole, peak = (float(part) for part in output.split())
    yield Row("one sweep, n = 40,000, d = 8, m = 64, z = 16: seconds", whole, 30.0, "at most")
    yield Row("the same: peak memory of the process, GB", peak, 1.0, "at most")
    for n in (5000, 10000, 20000):
        share = (whole / 40000) / (seconds[n, 64] / n)
        detail = f"{seconds[n, 64]:.2f} s against {whole:.2f} s"
        yield Row(f"time per row, n = 40,000 over n = {n:,}", share, 1.2, "at most", detail)
    share = (whole / 64) / (seconds[40000, 32] / 32)
    yield Row("time per pivot, m = 64 over m = 32", share, 1.2, "at most", f"{seconds[40000, 32]:.2f} s for 32")


def peak() -> None:
    """Print the seconds of a sweep and the peak memory of this process in GB."""
    seconds = swept(40000, 64, 16, "random")
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)


# The free energy and its gradient.


def standardised(name: str, rows: Any = slice(None)) -> tuple[Any, Any]:
    data = datasets.load(name)
    X, y = data.X[rows], data.y[rows]
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), (y - y.mean()) / y.std()


def plain(X: Any, y: Any) -> Targets:
    return Targets(X, y[:, None], np.zeros((len(y), 0)))


def energy(*, peers: bool) -> Iterator[Row]:
    X, y = standardised("protein", slice(0, 45517))
    Z = X[np.random.default_rng(0).choice(len(X), 512, replace=False)]
    model, data = Model(1.0 * RBF(np.full(9, 1.5)), 0.1, NOISE), plain(X, y)

    def ours() -> Any:
        return evaluation(System(VFE, model, data, Inducing(Z)), moved=True)

    found = ours()
    runners: dict[str, Callable[[], Any]] = {"ours": ours}
    theirs = gpflow_energy(X, y, Z) if peers else None
    if theirs is not None:
        runners["theirs"] = theirs
        value = float(theirs()[0])
        off = abs(found.value + value) / abs(value)
        yield Row("free energy against GPflow's: relative difference", off, 1e-6, "at most", f"{found.value:.3f}")
    best = race(3, warm=False, **runners)
    case = "free energy and gradient in theta and Z, n = 45,517, m = 512: seconds"
    yield Row(case, best["ours"], 2.0, "at most", f"value {found.value:.1f}")
    if theirs is not None:
        yield Row("GPflow's time over ours", best["theirs"] / best["ours"], 3.0, "at least", f"{best['theirs']:.2f} s")


def gpflow_energy(X: Any, y: Any, Z: Any) -> Callable[[], Any] | None:
    """Return GPflow's negative bound with its gradient, traced, or None where GPflow is not installed."""
    if importlib.util.find_spec("gpflow") is None:
        return None
    import gpflow
    import tensorflow as tf

    kernel = gpflow.kernels.SquaredExponential(variance=1.0, lengthscales=np.full(X.shape[1], 1.5))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, inducing_variable=Z.copy(), noise_variance=0.1)

    @tf.function
    def both() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    return lambda: [np.asarray(both()[0])]


# Selections beside each other.

SEEDS = 5
SIZES = (16, 32, 64, 128, 256)


def selected(name: str, data: Targets, model: Model, m: int, seed: int, steps: int = 200) -> float:
    """Return the free energy per inducing point, the lower the better, of one way to choose."""
    task = Task(data, m, np.random.default_rng(seed), budget=Budget(steps=steps))
    if name == "cholqr":
        rows = RULES["rpcholesky"](task, model).rows
        assert rows is not None
        own = Task(data, m, task.rng)
        return -alternate(own, model, rows, Information("adaptive", 16, task.rng)).value / m
    if name == "titsias":
        start = by_rule(Task(data, m, np.random.default_rng(seed), learns=False), model, "kmeans")
        return -by_gradient(task, start).value / m
    return -by_rule(task, model, name).value / m


def selections(sizes: tuple[int, ...], seeds: int) -> Iterator[Row]:
    data = datasets.load("elevators")
    X, y = standardised("elevators", ~data.extras["published_test_mask"].astype(bool))
    targets = plain(X, y)
    model = Model(1.0 * RBF(np.full(X.shape[1], np.sqrt(X.shape[1]))), 0.1, NOISE)
    start = subset_start(model, targets, Prior(), np.random.default_rng(0), History(), bend=False)
    model = model.with_theta(start.theta)
    for m in sizes:
        ours = np.array([selected("cholqr", targets, model, m, s) for s in range(seeds)])
        for name in RULES:
            others = np.array([selected(name, targets, model, m, s) for s in range(seeds)])
            detail = f"{ours.mean():.3f} ± {spread(ours):.3f} against {others.mean():.3f} ± {spread(others):.3f}"
            case = f"elevators, m = {m}: free energy a point, CholQR less {name}"
            yield Row(case, float(ours.mean() - others.mean()), 0.0, "at most", detail)
        moved = np.array([selected("titsias", targets, model, m, s, steps=300) for s in range(seeds)])
        detail = f"{ours.mean():.3f} against {moved.mean():.3f} ± {spread(moved):.3f}"
        beyond = float((ours.mean() - moved.mean()) / abs(moved.mean()))
        yield Row(f"elevators, m = {m}: CholQR over Titsias by gradient, relative", beyond, 0.03, "at most", detail)


def spread(values: Any) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


# Molecules and silhouettes.


def molecules(name: str) -> tuple[list[Graph], Any, Any]:
    """Return heavy-atom graphs labelled by element, their targets, and the published test rows if there are any."""
    folders = [Path(part) for part in os.environ.get("PRECOG_DATA", "").split(os.pathsep) if part]
    file = next(folder / f"{name}.npz" for folder in folders if (folder / f"{name}.npz").exists())
    with np.load(file, allow_pickle=False) as held:
        atoms, bonds, edges, labels = (held[key] for key in ("node_ptr", "edge_ptr", "edges", "atom_z"))
        y, test = held["y"], held.get("test_mask")
        graphs = [
            Graph(edges[bonds[i] : bonds[i + 1]], labels=labels[atoms[i] : atoms[i + 1]].tolist())
            for i in range(len(y))
        ]
    return graphs, y, test


def compound(*, walks: bool) -> Any:
    """Return the weighted sum of kernels on graphs, with the redundant total and the identity."""
    parts: list[Any] = [
        *(Graphlets(size=k) for k in (3, 4, 5)),
        Graphlets(size=3, labelled=True),
        ShortestPath(),
        ShortestPath(labelled=True),
        *(WeisfeilerLehman(base=base) for base in ("subtree", "edge", "shortest_path")),
    ]
    if walks:
        parts += [
            RandomWalk(decay=0.01),
            RandomWalk(decay=0.01, labelled=True),
            RandomWalk(decay=0.1, steps=10),
            RandomWalk(decay=0.1, steps=10, labelled=True),
        ]
    return weighted_sum(parts, total=True, identity=True)


def scores(model: Any, Z: Any, z: Any, y: Any) -> tuple[float, float]:
    """Return SMSE, and SNLP: log loss less that of the training targets' mean and variance."""
    mean, std = model.predict(Z, return_std=True, include_noise=True)
    smse = float(np.mean((z - mean) ** 2) / np.mean((z - y.mean()) ** 2))
    loss = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((z - mean) / std) ** 2
    trivial = 0.5 * np.log(2 * np.pi * y.var()) + 0.5 * (z - y.mean()) ** 2 / y.var()
    return smse, float(np.mean(loss - trivial))


def thrombin(seeds: int, m: int = 128) -> Iterator[Row]:
    """CholQR against random inducing molecules and IVM, by paired differences over the seeds."""
    graphs, y, test = molecules("thrombin_ki")
    train, held = np.flatnonzero(~test), np.flatnonzero(test)
    found: dict[str, list[tuple[float, float]]] = {}
    for name in ("cholqr", "random", "ivm"):
        for seed in range(seeds):
            started = time.perf_counter()
            model = SparseGPRegressor(compound(walks=True), n_inducing=m, selection=name, random_state=seed)
            model.fit([graphs[i] for i in train], y[train])
            found.setdefault(name, []).append(scores(model, [graphs[i] for i in held], y[held], y[train]))
            print(f"    {name}, seed {seed}: {found[name][-1]}, {time.perf_counter() - started:.0f} s", flush=True)
    ours = np.array(found["cholqr"])
    for name in ("random", "ivm"):
        others = np.array(found[name])
        for k, word in enumerate(("SMSE", "SNLP")):
            gap = others[:, k] - ours[:, k]
            error = np.hypot(spread(ours[:, k]), spread(others[:, k]))
            detail = f"{ours[:, k].mean():.4f} against {others[:, k].mean():.4f}, standard error {error:.4f}"
            yield Row(
                f"thrombin, m = {m}: {word} of {name} less CholQR's", float(gap.mean() - error), 0.0, "at least", detail
            )


def silhouettes(m: int = 256) -> Iterator[Row]:
    data = datasets.load("silhouette_pose")
    X = data.X / data.X.sum(axis=1, keepdims=True)
    test = data.extras["test_mask"].astype(bool)
    X, Z, y, z = X[~test], X[test], data.y[~test], data.y[test]
    kernel = 1.0 * HistogramIntersection()
    full = GPRegressor(kernel, random_state=0).fit(X, y)
    ours = SparseGPRegressor(kernel, n_inducing=m, random_state=0)
    started = time.perf_counter()
    ours.fit(X, y)
    seconds = time.perf_counter() - started
    a, b = scores(ours, Z, z, y), scores(full, Z, z, y)
    detail = f"{a[0]:.4f} against {b[0]:.4f}; SNLP {a[1]:.3f} against {b[1]:.3f}; {seconds:.0f} s, {ours.selection_}"
    yield Row(f"silhouettes, m = {m}: SMSE over the full process's", a[0] / b[0], 1.05, "at most", detail)


def columns() -> Iterator[Row]:
    """Seconds for columns of the compound kernel's parts on all molecules of thrombin."""
    graphs, _, _ = molecules("thrombin_ki")
    for kernel in (Graphlets(size=5), ShortestPath(labelled=True), WeisfeilerLehman(base="shortest_path")):
        started = time.perf_counter()
        features = kernel.among(graphs)
        built = time.perf_counter() - started
        started = time.perf_counter()
        features.columns(np.arange(16))
        detail = f"features of all {len(graphs)} graphs {built:.1f} s"
        yield Row(f"16 columns of {kernel}: seconds", time.perf_counter() - started, None, "at most", detail)
    walk = RandomWalk(decay=0.1, steps=10, labelled=True)
    started = time.perf_counter()
    walk.block(graphs, graphs[:2])
    yield Row(f"2 columns of {walk}: seconds", time.perf_counter() - started, None, "at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="groups whose name holds this word")
    parser.add_argument("--peers", action="store_true", help="with GPflow, if it is installed")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="inducing inputs of the selections")
    options = parser.parse_args()
    sizes = tuple(int(part) for part in options.sizes.split(","))
    groups: dict[str, Callable[[], Iterator[Row]]] = {
        "sweep": sweeps,
        "energy": lambda: energy(peers=options.peers),
        "columns": columns,
        "silhouettes": silhouettes,
        "selections": lambda: selections(sizes, options.seeds),
        "thrombin": lambda: thrombin(options.seeds),
    }
    warnings.simplefilter("ignore")
    show("sparse", (row for name, group in groups.items() if options.only in name for row in group()))


if __name__ == "__main__":
    main()
