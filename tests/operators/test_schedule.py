"""Task lists that visit every pair once, and the threads that work them off."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from precog.operators import schedule


@pytest.mark.parametrize("chunks", [1, 2, 3, 8, 13, 64])
def test_a_tournament_visits_every_pair_once(chunks):
    tasks = schedule.tournament(chunks)
    pairs = [tuple(task) for task in tasks[:, :2].tolist()]
    assert sorted(pairs) == list(itertools.combinations_with_replacement(range(chunks), 2))


@pytest.mark.parametrize("chunks", [1, 2, 3, 8, 13, 64])
def test_turns_count_the_earlier_tasks_of_a_chunk(chunks):
    """A task waits for these, so that every sum has one order."""
    played = [0] * chunks
    for first, second, turn, other in schedule.tournament(chunks).tolist():
        assert (turn, other) == (played[first], played[second])
        for chunk in {first, second}:
            played[chunk] += 1


@pytest.mark.parametrize("chunks", [8, 13, 64])
def test_neighbours_touch_different_chunks(chunks):
    tasks = schedule.tournament(chunks)[chunks:, :2].reshape(-1, 2)
    round_ = chunks // 2 if chunks % 2 == 0 else (chunks - 1) // 2
    for start in range(0, len(tasks), round_):
        chosen = tasks[start : start + round_].ravel()
        assert len(np.unique(chosen)) == len(chosen)


@pytest.mark.parametrize("chunks", [1, 2, 13, 64])
def test_rounds_visit_every_pair_that_has_work_once(chunks):
    gap = np.abs(np.subtract.outer(np.arange(chunks), np.arange(chunks)))
    for work in (np.maximum(5 - gap, 0), np.random.default_rng(0).integers(4, size=(chunks, chunks)), gap - gap):
        tasks = schedule.rounds(work)
        assert sorted(map(tuple, tasks[:, :2].tolist())) == list(
            zip(*map(list, np.nonzero(np.triu(work))), strict=True)
        )
        played = [0] * chunks
        for first, second, turn, other in tasks.tolist():
            assert (turn, other) == (played[first], played[second])
            for chunk in {first, second}:
                played[chunk] += 1


def test_rounds_keep_two_threads_apart():
    """Of pairs near the diagonal few touch the same chunk as the pair before them, and heavy ones come first."""
    gap = np.abs(np.subtract.outer(np.arange(64), np.arange(64)))
    tasks = schedule.rounds(np.maximum(5 - gap, 0))
    meetings = [bool(set(a) & set(b)) for a, b in itertools.pairwise(tasks[:, :2].tolist())]
    assert sum(meetings) <= len(tasks) // 20
    assert (tasks[:64, 0] == tasks[:64, 1]).all()


@pytest.mark.parametrize("rows", [32, 64, 4096, 100_000])
def test_stripes_cover_the_rows(rows):
    tasks = schedule.stripes(-(-rows // 32) * 32, 5)
    assert tasks[0, 0] == 0
    assert tasks[-1, 1] == -(-rows // 32) * 32
    assert np.array_equal(tasks[1:, 0], tasks[:-1, 1])
    assert (tasks[:, 2] == 5).all()


@pytest.mark.parametrize(
    ("tiles", "symmetric"), [((1, 1), True), ((7, 7), True), ((70, 70), True), ((7, 7), False), ((100, 33), False)]
)
def test_gradient_tasks_visit_every_pair_of_tiles(tiles, symmetric):
    seen = np.zeros(tiles, int)
    for i0, i1, j0, j1, once in schedule.gradient_pairs(*tiles, symmetric=symmetric).tolist():
        assert once == (symmetric and i0 == j0)
        seen[i0:i1, j0:j1] += 1
    assert (seen[np.triu_indices(tiles[0])] == 1).all() if symmetric else (seen == 1).all()


def test_an_error_in_a_worker_is_an_error_of_the_call():
    """A thread that dies must not leave its share of the result at zero and say nothing."""

    def run(tasks, state):
        raise FloatingPointError("in a worker")

    with pytest.raises(FloatingPointError, match="in a worker"):
        schedule.work(
            run,
            (),
            (),
            schedule.tournament(4),
            chunks=4,
            entries=schedule.SERIAL,
            threads=2,
            callback=None,
        )
