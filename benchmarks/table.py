"""What benchmarks share: runners that take turns, and one table with targets and the values of the last run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / ".last"
PAUSE = 0.1


@dataclass(frozen=True)
class Row:
    """One line of the table; `value` is compared with `target` as `sense` says."""

    case: str
    value: float
    target: float | None
    sense: str  # "at least" or "at most"
    detail: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.sense == "at least" else self.value <= self.target


def race(rounds: int, *, warm: bool = True, **runners: Callable[[], Any]) -> dict[str, float]:
    """Return the best time of each runner over some rounds in which they take turns.

    Between them is a pause: the threads of a BLAS spin for some tens of milliseconds after their last product, on the
    cores that the next runner is to use. warm: whether each runs once before, so that nothing is compiled in a race.
    """
    best = dict.fromkeys(runners, float("inf"))
    for run in runners.values() if warm else ():
        run()
    for _ in range(rounds):
        for name, run in runners.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def show(name: str, rows: Iterator[Row]) -> None:
    """Print rows as they come, beside the values of the last run, which is kept in benchmarks/.last/<name>.json."""
    kept = FOLDER / f"{name}.json"
    last: dict[str, float] = json.loads(kept.read_text()) if kept.exists() else {}
    values: dict[str, float] = {}
    print(f"{'case':<74} {'value':>9}  {'target':<15} {'':<5} {'was':>9}  detail")
    for row in rows:
        values[row.case] = row.value
        target = "" if row.target is None else f"{row.sense} {row.target:g}"
        verdict = {True: "ok", False: "SHORT", None: ""}[row.met]
        was = f"{last[row.case]:>9.3g}" if row.case in last else f"{'':>9}"
        print(f"{row.case:<74} {row.value:>9.3g}  {target:<15} {verdict:<5} {was}  {row.detail}", flush=True)
    FOLDER.mkdir(exist_ok=True)
    kept.write_text(json.dumps(last | values, indent=1))
