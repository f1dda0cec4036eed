"""Products that take seconds: they report, they can be interrupted, and they need little memory."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import precog
import problems
import tolerances
from precog import RBF, Dense, Gram
from tolerances import assert_within

COLUMNS = problems.COLUMNS


@functools.cache
def rows_for(seconds: float, columns: int = COLUMNS) -> int:
    """Return how many rows make a product by one thread last about so long on this machine."""
    n, took = 15_000, []
    K, V = Gram(RBF(0.8), problems.normal(n, 3), threads=1), problems.right_hand_sides(n, columns)
    for _ in range(4):
        start = time.perf_counter()
        K @ V
        took.append(time.perf_counter() - start)
    return int(n * (seconds / min(took)) ** 0.5)


@pytest.mark.parametrize("columns", [COLUMNS, 9])
def test_progress(columns):
    """Nine columns are taken in two turns, which together make one whole."""
    n, heard = rows_for(2.0, columns), []
    K = Gram(RBF(0.8), problems.normal(n, 3), threads=1)
    start = time.perf_counter()
    K.matmat(problems.right_hand_sides(n, columns), callback=lambda done: heard.append((time.perf_counter(), done)))
    assert K.path == "fused"
    times, shares = zip(*heard, strict=True)
    assert list(shares) == sorted(set(shares))
    assert 0.0 < shares[0] < shares[-1] == 1.0
    assert times[0] - start >= 0.9


def test_short_products_are_silent():
    heard = []
    Gram(RBF(0.8), problems.normal(350, 3)).matmat(problems.right_hand_sides(350), callback=heard.append)
    assert heard == []


def test_progress_of_a_sum_does_not_start_again():
    class Slow(Dense):
        """Reports as a long product would."""

        def matmat(self, V, *, callback=None):
            for done in (0.5, 1.0):
                if callback:
                    callback(done)
            return super().matmat(V)

    heard = []
    (Slow(np.eye(3)) + Slow(np.eye(3))).matmat(np.ones((3, 1)), callback=heard.append)
    assert heard == sorted(set(heard))
    assert heard[-1] == 1.0


def test_an_error_in_a_callback_ends_the_product():
    n = rows_for(2.5)
    K, V = Gram(RBF(0.8), problems.normal(n, 3), threads=1), problems.right_hand_sides(n)

    def callback(done):
        raise LookupError("enough")

    start = time.perf_counter()
    with pytest.raises(LookupError, match="enough"):
        K.matmat(V, callback=callback)
    assert time.perf_counter() - start < 2.0


def by_signal() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def by_request() -> None:
    """What notebooks do where a process cannot be sent a signal."""
    import _thread

    _thread.interrupt_main()


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
@pytest.mark.parametrize(
    ("interrupt", "callback"), [(by_signal, None), (by_request, None), (by_signal, lambda done: None)]
)
def test_an_interrupt_is_answered_within_a_second(interrupt, callback):
    n = rows_for(2.5)
    K, V = Gram(RBF(0.8), problems.normal(n, 3), threads=1), problems.right_hand_sides(n)
    before, sent = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def send() -> None:
        sent.append(time.perf_counter())
        interrupt()

    timer = threading.Timer(0.3, send)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            K.matmat(V, callback=callback)
        answered = time.perf_counter()
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert answered - sent[0] < 1.0
    rows = slice(0, 200)
    dense = K.kernel(K.X[rows], K.X)
    assert_within((K @ V)[rows], dense @ V, tolerances.product(dense, V))


PEAK = """
import sys
import numpy as np
from precog import RBF, Gram

def peak():
    # Not ru_maxrss where it can be helped: it starts at the peak of the process that started this one.
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

rng = np.random.default_rng(0)
X, v = rng.normal(size=(60_000, 3)), rng.normal(size=60_000)
Gram(RBF(0.8), X[:500], dtype="float32") @ v[:500]
before = peak()
K = Gram(RBF(0.8), X, dtype="float32")
product = K @ v
print(K.path, peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the peak is read from /proc or from the resource module")
def test_memory_grows_with_rows_and_not_with_their_square():
    """The matrix of 60,000 rows would take 14 GB."""
    environment = os.environ | {"PYTHONPATH": str(Path(precog.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", PEAK], env=environment, capture_output=True, text=True, check=True)
    path, grown = run.stdout.split()
    assert path == "fused"
    assert int(grown) < 300e6
