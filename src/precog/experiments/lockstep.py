"""Several solves with one matrix side by side, so that they share its products.

What a product with a kernel matrix costs is mostly the entries, which are the same for every right-hand side. So each
solve runs in a thread of its own, on an operator that hands its columns in and waits. The calling thread waits until
every solve that has not ended has asked, multiplies all columns together, and hands each solve its part. To a solver
nothing differs from being alone, except in the last bits: the order of a sum depends on how many columns there are.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from precog.kernels.statistics import Array
from precog.operators import Operator
from precog.operators.base import right_hand_side
from precog.operators.schedule import Progress

T = TypeVar("T")
Solve: TypeAlias = Callable[[Operator], T]
# What a solve says to the calling thread: who it is, and either the columns it asks for or how it ended.
Message: TypeAlias = "tuple[int, Array | Future[Any]]"
Messages: TypeAlias = "queue.SimpleQueue[Message]"
# What it hears: its product, or None when the group was left.
Answers: TypeAlias = "queue.SimpleQueue[Array | None]"

# Products have so many columns, those that nobody asked for filled with zeros: each width is a loop to be compiled, and
# eight columns take little more than three. Beyond eight, a further column adds as much as in a product of its own.
WIDTHS = (1, 2, 8)
# Seconds: an interrupt asked for by a program does not end a wait without a limit.
POLL = 0.1


class Left(BaseException):
    """The group was left by an error or an interrupt; no solve should take this for a failure of its own."""


@dataclass(frozen=True, eq=False)
class Member(Operator):
    """A as one solve of a group sees it: `multiply` takes its products together with those of the others."""

    A: Operator
    multiply: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.A.dtype

    def astype(self, dtype: Any) -> Member:
        if np.dtype(dtype) != self.dtype:
            raise TypeError(
                f"products that are shared are all in {self.dtype}, and {np.dtype(dtype)} was asked for; give the "
                'solver precision="float64" and the group an operator in float64'
            )
        return self

    def matmat(self, V: Any, *, callback: Progress | None = None) -> Array:
        return self.multiply(right_hand_side("V", V, self.shape[1]))

    def diag(self) -> Array:
        return self.A.diag()

    def block(self, rows: Any, columns: Any) -> Array:
        return self.A.block(rows, columns)

    def __repr__(self) -> str:
        return f"<{self.A!r}, its products shared>"


def lockstep(
    A: Operator,
    solves: Sequence[Solve[T]],
    ended: Callable[[int, Future[T]], object],
    *,
    callback: Callable[[], object] | None = None,
) -> None:
    """Call every solve with A, or what acts like it, until all have ended.

    ended: hears which solve has ended and how, as soon as it has; `.result()` returns its value or raises its error.
    callback: is called after every shared product. Both are called by the calling thread; what they raise ends all.
    A should be symmetric. A solve alone runs in the calling thread, and needs no other.
    """
    if len(solves) == 1:
        ended(0, _outcome(solves[0], Member(A, lambda V: _together(A, [V], callback)[0])))
        return
    messages: Messages = queue.SimpleQueue()
    answers: list[Answers] = [queue.SimpleQueue() for _ in solves]
    threads: list[threading.Thread] = []
    try:
        for which, solve in enumerate(solves):
            arguments = (which, solve, A, messages, answers[which])
            threads.append(threading.Thread(target=_take_part, args=arguments, daemon=True))
            threads[-1].start()
        _serve(A, messages, answers, ended, callback)
    finally:
        for answer in answers:
            answer.put(None)
        for thread in threads:
            thread.join()


def _take_part(which: int, solve: Solve[Any], A: Operator, messages: Messages, answers: Answers) -> None:
    """Run one solve in its thread."""

    def multiply(V: Array) -> Array:
        messages.put((which, V))
        product = answers.get()
        if product is None:
            raise Left
        return product

    try:
        messages.put((which, _outcome(solve, Member(A, multiply))))
    except Left:
        return


def _outcome(solve: Solve[T], A: Operator) -> Future[T]:
    """Return what a solve returned or raised."""
    outcome: Future[T] = Future()
    try:
        outcome.set_result(solve(A))
    except Left:
        raise
    except BaseException as error:
        outcome.set_exception(error)
    return outcome


def _serve(
    A: Operator,
    messages: Messages,
    answers: Sequence[Answers],
    ended: Callable[[int, Future[Any]], object],
    callback: Callable[[], object] | None,
) -> None:
    """Multiply whenever all solves that still run have asked."""
    running, asked = len(answers), dict[int, Array]()
    while running:
        if len(asked) == running:
            # In a fixed order: where a column stands may decide the last bits of its product.
            order = sorted(asked)
            for which, product in zip(order, _together(A, [asked[i] for i in order], callback), strict=True):
                answers[which].put(product)
            asked = {}
        try:
            which, said = messages.get(timeout=POLL)
        except queue.Empty:
            continue
        if isinstance(said, Future):
            running -= 1
            ended(which, said)
        else:
            asked[which] = said


def _together(A: Operator, columns: Sequence[Array], callback: Callable[[], object] | None) -> list[Array]:
    """Return A V for each V, from products of all columns together."""
    count, most = sum(V.shape[1] for V in columns), WIDTHS[-1]
    last = next(width for width in (0, *WIDTHS) if width >= count % most)
    filled = np.zeros((A.shape[1], count // most * most + last - count))
    V = np.concatenate([*columns, filled], axis=1)
    parts = [A.matmat(V[:, start : start + most]) for start in range(0, V.shape[1], most)]
    if callback:
        callback()
    edges = np.cumsum([some.shape[1] for some in columns])
    return [np.ascontiguousarray(part) for part in np.split(np.concatenate(parts, axis=1), edges, axis=1)[:-1]]
