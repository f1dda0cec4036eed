"""Who computes what, in which order: task lists that do not depend on threads, and the threads that work them off.

A symmetric product visits every pair of row chunks once and adds to the results of both. The pairs are put in the order
of a round-robin tournament, where each chunk plays once a round: neighbours in the list touch different chunks, and a
task waits only for its own two. So there is one result array, no private copies, and every sum has one order, whatever
the number of threads: the result is the same to the last bit.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precog.codegen.drivers import DONE, STOP, TURNS
from precog.codegen.layout import BLOCK

Progress: TypeAlias = Callable[[float], None]
Tasks: TypeAlias = NDArray[np.int64]

# More chunks let more threads work at once; fewer make the list shorter.
CHUNKS = 64
GRADIENT_CHUNKS = 32
# Below this many kernel entries the caller's own thread is done before another could start.
SERIAL = 1_000_000
# Progress is reported after the first second, and so often.
FIRST_REPORT, NEXT_REPORT, POLL = 1.0, 0.5, 0.1


def available_threads() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def span(tiles: int, chunks: int = CHUNKS) -> int:
    """Return how many tiles make a chunk."""
    return -(-tiles // chunks)


@functools.lru_cache(maxsize=32)
def tournament(chunks: int) -> Tasks:
    """Return (first, second, turn of first, turn of second) for all pairs first <= second of chunks."""
    pairs = [(c, c) for c in range(chunks)]
    seats: list[int | None] = [*range(chunks), *([None] if chunks % 2 else [])]
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        for a, b in zip(seats[:half], reversed(seats[half:]), strict=True):
            if a is not None and b is not None:
                pairs.append((min(a, b), max(a, b)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return _turns(pairs, chunks)


def rounds(weights: NDArray[np.signedinteger[Any]]) -> Tasks:
    """Return the same for those pairs first <= second whose work weights[first, second] is more than none.

    In the order of a tournament, a round would hold few pairs of much work, each of which the next round waits for. So
    pairs are put, heaviest first, into the first round in which both of their chunks are free.
    """
    first, second = np.nonzero(np.triu(weights))
    heaviest = np.argsort(-weights[first, second], kind="stable")
    pairs = list(zip(first[heaviest].tolist(), second[heaviest].tolist(), strict=True))
    taken = [0] * len(weights)  # rounds as bits
    number = []
    for a, b in pairs:
        free = ~(taken[a] | taken[b])
        bit = free & -free
        taken[a] |= bit
        taken[b] |= bit
        number.append(bit.bit_length())
    return _turns([pairs[t] for t in np.argsort(number, kind="stable")], len(weights))


def _turns(pairs: list[tuple[int, int]], chunks: int) -> Tasks:
    """Return pairs with the number of earlier ones that either chunk is in."""
    played = [0] * chunks
    tasks = np.empty((len(pairs), 4), np.int64)
    for t, (a, b) in enumerate(pairs):
        tasks[t] = a, b, played[a], played[b]
        played[a] += 1
        played[b] += a != b
    return tasks


def stripes(rows: int, tiles: int) -> Tasks:
    """Return (first row, last row, tiles) for stripes of rows, each to meet all tiles of columns."""
    height = min(-(-rows // CHUNKS // BLOCK) * BLOCK, 512)
    starts = np.arange(0, rows, height)
    return np.stack([starts, np.minimum(starts + height, rows), np.full_like(starts, tiles)], axis=1).astype(np.int64)


def gradient_pairs(row_tiles: int, column_tiles: int, *, symmetric: bool) -> Tasks:
    """Return (row tiles from, to, column tiles from, to, whether each pair inside is met once)."""
    edges = [[*range(0, t, span(t, GRADIENT_CHUNKS)), t] for t in (row_tiles, column_tiles)]
    rows, columns = ([*itertools.pairwise(e)] for e in edges)
    tasks = [
        (*row, *column, int(symmetric and r == c))
        for c, column in enumerate(columns)
        for r, row in enumerate(rows)
        if r <= c or not symmetric
    ]
    return np.array(tasks, dtype=np.int64)


def work(
    run: Callable[..., None],
    arguments: tuple[Any, ...],
    rest: tuple[Any, ...],
    tasks: Tasks,
    *,
    chunks: int,
    entries: int,
    threads: int,
    callback: Progress | None,
) -> None:
    """Call `run(*arguments, tasks, state, *rest)` in as many threads as there is work for, until all tasks are done.

    The calling thread only waits, so an interrupt reaches it at once; it then asks the workers to stop and passes the
    interrupt on.
    """
    state = np.zeros(TURNS + chunks, np.int64)
    call = functools.partial(run, *arguments, tasks, state, *rest)
    if entries < SERIAL:
        call()
        return
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
            state[STOP] = 1

    workers = [threading.Thread(target=guarded, daemon=True) for _ in range(min(threads, len(tasks)))]
    try:
        for worker in workers:
            worker.start()
        _wait(workers, state, len(tasks), callback)
    finally:
        state[STOP] = 1
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]


def _wait(workers: list[threading.Thread], state: Any, total: int, callback: Progress | None) -> None:
    for worker in workers:
        while worker.is_alive():
            # With a time limit even where nobody listens: an interrupt asked for by a program does not end a wait.
            worker.join(POLL)
            if callback:
                callback(min(int(state[DONE]) / total, 1.0))


def share(callback: Progress | None, part: int, parts: int) -> Progress | None:
    """Return a callback for one of several parts of equal length."""
    return callback and (lambda done: callback((part + done) / parts))


def throttled(callback: Progress | None) -> Progress | None:
    """Return a callback that is silent in the first second, then speaks at most twice a second, and of the end."""
    if callback is None:
        return None
    due, spoken = time.monotonic() + FIRST_REPORT, False

    def report(done: float) -> None:
        nonlocal due, spoken
        now = time.monotonic()
        if now >= due or (spoken and done >= 1.0):
            due, spoken = now + NEXT_REPORT, done < 1.0
            callback(done)

    return report
