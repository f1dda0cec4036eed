"""Time solvers and preconditioners in units of products with the same matrix, and print one table.

    python benchmarks/solvers.py [--only WORD]

Needs the Protein data in a folder of PRECOG_DATA. The unit is one float32 product of five columns, taken in turns with
what is measured; counts are of such products. The last run is kept in benchmarks/.last/solvers.json.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg
from table import Row, race, show

from precog import RBF, Gram, datasets, precond, solvers
from precog.solvers.choice import DENSE_ROWS

COLUMNS = 5
# The optimum of the likelihood of 3,000 rows of Protein.
HARD_LENGTHS = [0.31, 860.0, 0.91, 0.22, 0.40, 0.31, 0.07, 0.24, 0.20]
HARD_VARIANCE, HARD_NOISE = 1.02, 0.0093
# Plain conjugate gradients in the hard regime are stopped here.
GIVE_UP = 400


class Protein:
    """Training rows of Protein, standardised, with the target and four random signs as right-hand sides."""

    def __init__(self) -> None:
        data = datasets.load("protein")
        n = len(data.y)
        rows = np.sort(np.random.default_rng(0).permutation(n)[math.isqrt(n) :])
        X, y = data.X[rows], data.y[rows]
        self.X = (X - X.mean(axis=0)) / X.std(axis=0)
        self.n = len(y)
        signs = np.sign(np.random.default_rng(1).standard_normal((self.n, COLUMNS - 1)))
        self.B = np.column_stack([(y - y.mean()) / y.std(), signs])
        self.rank = round(4 * math.sqrt(self.n))

    @cached_property
    def easy(self) -> Any:
        return Gram(RBF(0.5), self.X) + 0.1

    @cached_property
    def hard(self) -> Any:
        return Gram(HARD_VARIANCE * RBF(HARD_LENGTHS), self.X) + HARD_NOISE

    def unit(self, A: Any) -> Callable[[], Any]:
        """Return one float32 product of five columns."""
        K = A.K.astype("float32")
        return lambda: K @ self.B


class Solve:
    """Build and solve, with what it took; `run` is for a race."""

    def __init__(self, A: Any, B: Any, name: str, rtol: float = 1e-2, solver: Any = None, **options: Any) -> None:
        self.A, self.B, self.name, self.options = A, B, name, options
        self.solver = solver or solvers.PCG(rtol=rtol)
        self.seconds = self.building = math.inf

    def run(self) -> None:
        started = time.perf_counter()
        P = precond.make(self.name, self.A, rng=0, **self.options)
        built = time.perf_counter()
        self.solution = self.solver.solve(self.A, self.B, precond=P)
        ended = time.perf_counter()
        if ended - started < self.seconds:
            self.seconds, self.building = ended - started, built - started
        self.made = getattr(P, "built", None)

    def detail(self, unit: float) -> str:
        why = f"; {self.made.why}" if self.made is not None and self.made.why else ""
        return (
            f"{self.solution.iterations} products, {self.seconds:.1f} s of which build {self.building:.1f}, unit "
            f"{unit:.3f} s{why}"
        )


class Bench:
    """The cases, each a generator of rows."""

    @cached_property
    def protein(self) -> Protein:
        return Protein()

    def _timed(self, A: Any, solves: list[Solve], rounds: int = 2) -> float:
        """Run solves and the unit in turns and return the unit's best time."""
        runs = {f"solve{k}": solve.run for k, solve in enumerate(solves)}
        return race(rounds, warm=False, unit=self.protein.unit(A), **runs)["unit"]

    def easy(self) -> Iterator[Row]:
        data = self.protein
        plain = Solve(data.easy, data.B, "identity")
        solves = {name: Solve(data.easy, data.B, name, rank=data.rank) for name in ("nystrom", "fitc", "rpcholesky")}
        solves["local"] = Solve(data.easy, data.B, "local", rank=data.rank)
        solves["auto"] = Solve(data.easy, data.B, "auto")
        unit = self._timed(data.easy, [plain, *solves.values()])
        best = min(solves.values(), key=lambda solve: solve.seconds)
        yield Row("easy Protein: CG in products", plain.seconds / unit, None, "at most", plain.detail(unit))
        for name, solve in solves.items():
            target = 80.0 if name == "nystrom" else 60.0 if solve is best else None
            yield Row(f"easy Protein: {name} in products", solve.seconds / unit, target, "at most", solve.detail(unit))
        ratio = plain.solution.iterations / solves["nystrom"].solution.iterations
        yield Row("easy Protein: CG against PCG with nystrom, products", ratio, 4.0, "at least")
        yield from self._against_scipy(best)

    def _against_scipy(self, best: Solve) -> Iterator[Row]:
        data = self.protein
        A = data.easy.astype("float32")

        def columns() -> None:
            for b in data.B.T.astype(np.float32):
                _, status = scipy.sparse.linalg.cg(A, b, rtol=1e-2)
                assert status == 0

        times = race(1, warm=False, ours=best.run, theirs=columns)
        detail = f"{times['theirs']:.1f} s against {times['ours']:.1f} s with {best.name}"
        yield Row(
            "easy Protein: SciPy's cg, column by column", times["theirs"] / times["ours"], 8.0, "at least", detail
        )

    def hard(self) -> Iterator[Row]:
        data = self.protein
        auto = Solve(data.hard, data.B, "auto")
        unit = self._timed(data.hard, [auto])
        yield Row("hard Protein: auto, iterations", auto.solution.iterations, 70.0, "at most", auto.made.why)
        yield Row("hard Protein: auto in products", auto.seconds / unit, 130.0, "at most", auto.detail(unit))
        block = Solve(data.hard, data.B, "auto", solver=solvers.BlockCG(rtol=1e-2))
        unit = self._timed(data.hard, [block], rounds=1)
        yield Row("hard Protein: auto with BlockCG, in products", block.seconds / unit, None, "", block.detail(unit))

    def peers_of_auto(self) -> Iterator[Row]:
        data = self.protein
        solver = solvers.PCG(rtol=1e-2, max_iter=GIVE_UP)
        for name, options in (("identity", {}), ("nystrom", {"rank": data.rank}), ("rpcholesky", {"rank": data.rank})):
            solve = Solve(data.hard, data.B, name, solver=solver, **options)
            unit = self._timed(data.hard, [solve], rounds=1)
            yield Row(f"hard Protein: {name} in products", solve.seconds / unit, None, "", solve.detail(unit))

    def apply(self) -> Iterator[Row]:
        data = self.protein
        for dtype in ("float32", "float64"):
            P: Any = precond.make("nystrom", data.easy, rank=data.rank, rng=0, dtype=dtype)
            flat = P.H.ravel(order="K")
            times = race(10, apply=lambda: P.solve(data.B), read=lambda: flat @ flat)  # noqa: B023
            detail = f"{times['apply'] * 1e3:.1f} ms, {flat.nbytes / times['read'] / 1e9:.1f} GB/s read"
            yield Row(
                f"rank-{P.rank} Woodbury, {COLUMNS} columns, {dtype}, in readings of its factor",
                times["apply"] / times["read"],
                3.0,
                "at most",
                detail,
            )

    def rpcholesky(self) -> Iterator[Row]:
        data = self.protein
        build = lambda: precond.make("rpcholesky", data.easy, rank=1000, rng=0)  # noqa: E731
        times = race(3, build=build, unit=data.unit(data.easy))
        detail = f"{times['build']:.2f} s, unit {times['unit']:.3f} s"
        yield Row("RPCholesky of rank 1000 in products", times["build"] / times["unit"], 12.0, "at most", detail)
        code = _MEMORY.format(folder=str(Path(__file__).parent))
        peak = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        yield Row("RPCholesky of rank 1000, peak memory over its factor", peak, 1.3, "at most")

    def mixed(self) -> Iterator[Row]:
        data = self.protein
        settings = {
            "mixed": solvers.PCG(rtol=1e-8, precision="mixed"),
            "float64": solvers.PCG(rtol=1e-8, precision="float64"),
        }
        solves = {
            name: Solve(data.easy, data.B, "rpcholesky", solver=solver, rank=data.rank)
            for name, solver in settings.items()
        }
        race(1, warm=False, **{name: solve.run for name, solve in solves.items()})
        seconds = {name: solve.seconds - solve.building for name, solve in solves.items()}
        steps = [f"{name} {solve.solution.iterations} steps, {seconds[name]:.1f} s" for name, solve in solves.items()]
        worst = max(solve.solution.residuals.max() for solve in solves.values())
        detail = f"{', '.join(steps)}; largest true residual {worst:.1e}"
        yield Row(
            "easy Protein to 1e-8: mixed against float64",
            seconds["float64"] / seconds["mixed"],
            1.8,
            "at least",
            detail,
        )

    def crossover(self) -> Iterator[Row]:
        rng = np.random.default_rng(0)
        for n in (500, 1000, 2000, 3000, 4000, 6000):
            X = rng.standard_normal((n, 8))
            A, B = Gram(RBF(2.0), X) + 1e-2, rng.standard_normal((n, COLUMNS))
            cg = Solve(A, B, "rpcholesky", rtol=1e-6)
            times = race(3, dense=lambda: solvers.Cholesky(rtol=1e-6).solve(A, B), cg=cg.run)  # noqa: B023
            detail = f"dense {times['dense']:.3f} s, PCG {times['cg']:.3f} s, {cg.solution.iterations} steps"
            yield Row(f"dense Cholesky against PCG, n={n}", times["cg"] / times["dense"], None, "at least", detail)
        print(f"  solver='auto' changes over at {DENSE_ROWS} rows")


_MEMORY = """
import sys
sys.path.insert(0, {folder!r})
import solvers as bench
from precog import precond
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
A = bench.Protein().easy
precond.make("rpcholesky", A, rank=10, rng=0)  # what is compiled and loaded is not the factor's
before = peak()
P = precond.make("rpcholesky", A, rank=1000, rng=0)
print((peak() - before) * 1024 / P.H.nbytes)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="groups whose name holds this word")
    options = parser.parse_args()
    bench = Bench()
    groups = ["easy", "hard", "peers_of_auto", "apply", "rpcholesky", "mixed", "crossover"]
    try:
        datasets.load("protein")
    except ValueError as error:
        print(f"only what needs no data is measured: {error}")
        groups = ["crossover"]
    chosen = [group for group in groups if options.only in group]
    show("solvers", (row for group in chosen for row in getattr(bench, group)()))


if __name__ == "__main__":
    main()
