"""What a fit says while it runs: a line for every evaluation, or one line that is kept up to date in a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class Reporter:
    """Hears of every evaluation; silent unless `verbose`. name: of the estimator, objective: what is maximised."""

    def __init__(self, *, verbose: bool, name: str = "GPRegressor", objective: str = "log likelihood") -> None:
        self.verbose, self.name, self.objective = verbose, name, objective
        self.status: Any = _status(name) if verbose and sys.stdout.isatty() else None

    def __enter__(self) -> Self:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.status is not None:
            self.status.stop()

    def __call__(self, row: dict[str, Any]) -> None:
        if not self.verbose:
            return
        spread = f" ± {row['value_se']:.1f}" if row.get("value_se") else ""
        text = (
            f"{self.name}: {row['seconds']:.1f} s, {row['stage']}, {self.objective} {row['value']:.2f}{spread}, "
            f"gradient {row['gradient_norm']:.3g}"
        )
        if self.status is not None:
            self.status.update(text)
        else:
            print(text, flush=True)


def _status(name: str) -> Any:
    """Return rich's status line, or None where rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console().status(name)
