"""The same product K V, K an RBF kernel matrix, by other means; each returns a function of no arguments, or None."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
PANEL_ROWS = (256, 1024)


def numpy_panels(X: Array, V: Array, rows: int) -> Callable[[], Array]:
    """Return BLAS panels with the exponential in place: what NumPy does best, without temporaries."""
    norms = 0.5 * np.einsum("ik,ik->i", X, X)
    panel = np.empty((rows, len(X)), X.dtype)

    def product() -> Array:
        out = np.empty_like(V)
        for start in range(0, len(X), rows):
            stripe = slice(start, min(start + rows, len(X)))
            P = panel[: stripe.stop - start]
            np.matmul(X[stripe], X.T, out=P)
            P -= norms[stripe, None]
            P -= norms
            np.exp(P, out=P)
            np.matmul(P, V, out=out[stripe])
        return out

    return product


def torch_panels(X: Array, V: Array, rows: int = 1024) -> Callable[[], Any] | None:
    """Return the same in PyTorch, which runs the exponential on all threads too."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    Xt, Vt = torch.from_numpy(X), torch.from_numpy(V)
    norms = 0.5 * (Xt * Xt).sum(1)

    def product() -> Any:
        parts = []
        for start in range(0, len(X), rows):
            P = Xt[start : start + rows] @ Xt.T
            P.sub_(norms[start : start + rows, None]).sub_(norms).exp_()
            parts.append(P @ Vt)
        return torch.cat(parts)

    return product


def keops(X: Array, V: Array) -> Callable[[], Any] | None:
    """Return KeOps' fused reduction on the CPU."""
    if importlib.util.find_spec("pykeops") is None:
        return None
    import pykeops.numpy

    formula = pykeops.numpy.Genred(
        "Exp(-IntInv(2) * SqDist(x, y)) * v",
        [f"x = Vi({X.shape[1]})", f"y = Vj({X.shape[1]})", f"v = Vj({V.shape[1]})"],
        reduction_op="Sum",
        axis=1,
    )
    return lambda: formula(X, X, V, backend="CPU")


class HandWritten:
    """The loop in AVX-512 intrinsics beside this file, built once; None of it where the CPU or the compiler lacks."""

    def __init__(self) -> None:
        from precog.codegen.vector import BYTES

        self.program: Path | None = None
        if BYTES == 64 and shutil.which("g++"):
            self.folder = tempfile.TemporaryDirectory()
            program = Path(self.folder.name) / "avx512_rbf"
            source = Path(__file__).with_name("avx512_rbf.cpp")
            flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
            if subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=False).returncode == 0:
                self.program = program

    def rates(self, n: int, threads: int) -> dict[int, float]:
        """Return entries per second in 1e9 for 1 and 8 right-hand sides, the best of its variants."""
        if self.program is None:
            return {}
        text = subprocess.run(
            [str(self.program), str(n), str(threads)], capture_output=True, text=True, check=True, env=os.environ
        ).stdout
        best: dict[int, float] = {}
        for count, rate in re.findall(r"C (\d+) .*? ([\d.]+) Gpair/s", text):
            best[int(count)] = max(best.get(int(count), 0.0), float(rate))
        return best
