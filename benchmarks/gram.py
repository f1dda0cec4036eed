"""Time the fused products against what else there is, in one run, and print one table.

    python benchmarks/gram.py [--quick] [--peers] [--only WORD]

Every ratio comes from runs that take turns, the best of several each. Rates count n² kernel entries. The last run is
kept in benchmarks/.last/gram.json, and the table says how each ratio has moved since.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import peers
from table import Row, race, show

from precog import RBF, Constant, Gram, Kernel, Matern32, Matern52, RationalQuadratic
from precog.operators import skipping
from precog.operators.schedule import available_threads

LARGE_N = 200_000


def inputs(n: int, d: int, p: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((n, p)).astype(dtype)


def product(kernel: Kernel, X: Any, V: Any, dtype: str) -> Callable[[], Any]:
    K = Gram(kernel, X, dtype=dtype)
    return lambda: K @ V


def ard(d: int, scale: float = 1.0) -> RBF:
    return RBF(scale * np.linspace(0.9, 1.1, d))


class Bench:
    """The cases, each a generator of rows."""

    def __init__(self, sizes: tuple[int, ...], rounds: int, *, with_peers: bool) -> None:
        self.sizes, self.rounds, self.with_peers = sizes, rounds, with_peers

    def hand_written(self) -> Iterator[Row]:
        limit = peers.HandWritten()
        if limit.program is None:
            return
        for n in self.sizes:
            runs = {p: product(ard(9), *inputs(n, 9, p, "float32"), "float32") for p in (1, 8)}
            ours, theirs = dict.fromkeys(runs, 0.0), dict.fromkeys(runs, 0.0)
            for _ in range(self.rounds):
                for p, rate in limit.rates(n, available_threads()).items():
                    theirs[p] = max(theirs[p], rate)
                for p, run in runs.items():
                    ours[p] = max(ours[p], n * n / race(2, ours=run)["ours"] / 1e9)
            for p in runs:
                detail = f"{ours[p]:.1f} against {theirs[p]:.1f} G entries/s"
                yield Row(f"hand-written AVX-512, n={n}, {p} rhs", ours[p] / theirs[p], 0.85, "at least", detail)

    def numpy_panels(self) -> Iterator[Row]:
        for n in self.sizes:
            for p in (1, 8):
                yield self._against_panels(n, 9, p, 10.0)

    def dimensions(self) -> Iterator[Row]:
        for d in (2, 4, 26, 57, 128):
            for p in (1, 8):
                yield self._against_panels(self.sizes[0], d, p, 2.0)

    def _against_panels(self, n: int, d: int, p: int, target: float) -> Row:
        scale = float(np.sqrt(max(d / 9.0, 1.0)))
        X, V = inputs(n, d, p, "float32")
        scaled = (X / (scale * np.linspace(0.9, 1.1, d))).astype(np.float32)
        panels = {f"panels{rows}": peers.numpy_panels(scaled, V, rows) for rows in peers.PANEL_ROWS}
        times = race(self.rounds, ours=product(ard(d, scale), X, V, "float32"), **panels)
        theirs = min(times[name] for name in panels)
        detail = f"{n * n / times['ours'] / 1e9:.2f} against {n * n / theirs / 1e9:.2f} G entries/s"
        return Row(f"NumPy panels, n={n}, d={d}, {p} rhs", theirs / times["ours"], target, "at least", detail)

    def double_precision(self) -> Iterator[Row]:
        for n in self.sizes:
            runs = {t: product(ard(9), *inputs(n, 9, 1, t), t) for t in ("float32", "float64")}
            times = race(self.rounds, **runs)
            ratio = times["float32"] / times["float64"]
            yield Row(f"float64 against float32, n={n}, 1 rhs", ratio, 0.28, "at least")

    def other_kernels(self) -> Iterator[Row]:
        ones = np.linspace(0.9, 1.1, 9)
        kernels: dict[str, tuple[Kernel, float]] = {
            "Matern 5/2": (Matern52(ones), 0.6),
            "RBF + Matern 3/2 * Matern 5/2, one length scale each": (RBF(1.0) + Matern32(1.3) * Matern52(0.8), 0.25),
            "RBF + Matern 3/2 * Matern 5/2, ARD each": (RBF(ones) + Matern32(ones) * Matern52(ones), 0.25),
            "RBF + Matern 3/2 * RationalQuadratic, one length scale each": (
                RBF(1.0) + Matern32(1.3) * RationalQuadratic(0.8),
                0.25,
            ),
        }
        for n in self.sizes:
            X, V = inputs(n, 9, 1, "float32")
            for name, (kernel, target) in kernels.items():
                times = race(self.rounds, rbf=product(ard(9), X, V, "float32"), other=product(kernel, X, V, "float32"))
                yield Row(f"{name} against RBF, n={n}", times["rbf"] / times["other"], target, "at least")

    def short_length_scales(self) -> Iterator[Row]:
        """What leaving out tiles saves, against the same kernel and a constant just large enough to forbid that."""
        cases: dict[str, tuple[Kernel, int, float | None]] = {
            "RBF 0.01, d=2": (RBF(0.01), 2, 4.0),
            "Matern 3/2 0.01, d=2": (Matern32(0.01), 2, 1.3),
            "RBF 0.01, d=9": (RBF(0.01), 9, None),
        }
        for n in self.sizes:
            for name, (kernel, d, target) in cases.items():
                X, V = inputs(n, d, 1, "float64")
                runs = {"all": product(kernel + Constant(1e-20), X, V, "float64")}
                times = race(self.rounds, some=product(kernel, X, V, "float64"), **runs)
                detail = f"{100.0 * Gram(kernel, X).skipped:.0f} % left out"
                yield Row(
                    f"{name}, tiles left out or not, n={n}", times["all"] / times["some"], target, "at least", detail
                )
            yield self._look(n)

    def _look(self, n: int) -> Row:
        X, V = inputs(n, 9, 1, "float64")
        look = functools.partial(skipping.sort, RBF(0.1), X, None, "float64", skipping.SMALLEST_TILE)
        times = race(self.rounds, product=product(RBF(1.0), X, V, "float64"), look=look)
        share = times["look"] / times["product"]
        return Row(f"looking in vain for tiles to leave out, of one product, n={n}", share, 0.02, "at most")

    def gradient(self) -> Iterator[Row]:
        for n in self.sizes:
            for dtype in ("float32", "float64"):
                X, A = inputs(n, 9, 8, dtype)
                K = Gram(ard(9), X, dtype=dtype)
                times = race(self.rounds, product=lambda: K @ A, grad=lambda: K.grad(A, A[::-1]))  # noqa: B023
                ratio = times["grad"] / times["product"]
                yield Row(f"grad with 8 columns against K @ V, n={n}, {dtype}", ratio, 2.5, "at most")

    def accuracy(self) -> Iterator[Row]:
        cases = [("unit length scales", 20_000, 9, 1.0, 0.0)]
        cases += [(f"length scale 0.01, offset 1e4, d={d}", 20_000, d, 0.01, 1e4) for d in (1, 2, 9)]
        cases += [("spot rows", LARGE_N, 9, 1.0, 0.0)]
        for dtype, target in (("float64", 1e-13), ("float32", 1e-5)):
            for name, n, d, scale, offset in cases:
                X, V = inputs(n, d, 1, "float64")
                X, spots = X + offset, slice(0, n, n // 50)
                got = (Gram(RBF(scale), X, dtype=dtype) @ V)[spots]
                exact = RBF(scale)(X[spots], X) @ V
                error = float(np.abs(got - exact).max() / np.abs(exact).max())
                yield Row(f"error in {dtype}, n={n}, {name}", error, target, "at most")

    def memory(self) -> Iterator[Row]:
        if not Path("/proc/self/status").exists():
            return
        for dtype in ("float32", "float64"):
            peak = float(_fresh(_MEMORY.format(n=LARGE_N, dtype=dtype), None))
            yield Row(f"peak memory of Gram(n={LARGE_N}, d=9) @ v, {dtype}, MB", peak, 300.0, "at most")

    def start(self) -> Iterator[Row]:
        yield Row("import precog, s", float(_fresh(_IMPORT, None)), 1.5, "at most")
        for name in ("RBF", "Matern52", "RationalQuadratic"):
            with tempfile.TemporaryDirectory() as folder:
                first, second = (float(_fresh(_COMPILE.format(name=name), folder)) for _ in range(2))
            yield Row(f"first product of {name} in a new process, empty cache, s", first, 5.0, "at most")
            yield Row(f"first product of {name} in a new process, full cache, s", second, None, "at most")

    def other_libraries(self) -> Iterator[Row]:
        if not self.with_peers:
            return
        n = self.sizes[0]
        for p in (1, 8):
            X, V = inputs(n, 9, p, "float32")
            for name, peer in (("PyTorch panels", peers.torch_panels(X, V)), ("KeOps", peers.keops(X, V))):
                if peer is not None:
                    times = race(max(self.rounds - 2, 2), ours=product(RBF(np.ones(9)), X, V, "float32"), peer=peer)
                    detail = f"{n * n / times['ours'] / 1e9:.2f} against {n * n / times['peer'] / 1e9:.2f} G entries/s"
                    yield Row(f"{name}, n={n}, {p} rhs", times["peer"] / times["ours"], None, "at least", detail)


_IMPORT = "import time; t = time.perf_counter(); import precog; print(time.perf_counter() - t)"
_COMPILE = """
import time, numpy as np, precog
X = np.random.default_rng(0).standard_normal((1000, 9))
t = time.perf_counter()
precog.Gram(precog.{name}(np.ones(9)), X, dtype="float32") @ X[:, 0]
print(time.perf_counter() - t)
"""
_MEMORY = """
import numpy as np, precog
def peak():
    # Not ru_maxrss: it starts at the peak of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
rng = np.random.default_rng(0)
X, v = rng.standard_normal(({n}, 9)), rng.standard_normal({n})
precog.Gram
before = peak()
precog.Gram(precog.RBF(np.ones(9)), X, dtype="{dtype}") @ v
print((peak() - before) / 1024)
"""


def _fresh(code: str, cache: str | None) -> str:
    """Return what a new process prints."""
    env = dict(os.environ) | ({"PRECOG_CACHE_DIR": cache} if cache else {})
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smaller size and fewer rounds")
    parser.add_argument("--peers", action="store_true", help="PyTorch and KeOps too, where they are installed")
    parser.add_argument("--only", default="", help="groups whose name holds this word")
    options = parser.parse_args()
    sizes = (20_480,) if options.quick else (20_480, 45_056)
    bench = Bench(sizes, 3 if options.quick else 6, with_peers=options.peers)
    groups = "hand_written numpy_panels double_precision other_kernels dimensions short_length_scales gradient accuracy"
    groups += " memory start"
    chosen = [g for g in (*groups.split(), "other_libraries") if options.only in g]
    print(f"{available_threads()} threads; entries counted n²; ratios of best times, taken in turns")
    show("gram", (row for group in chosen for row in getattr(bench, group)()))


if __name__ == "__main__":
    main()
