"""scikit-learn's callbacks, where it has them: a fit is a task, every evaluation of the objective one below it."""

from __future__ import annotations

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """What scikit-learn before 1.9 has none of."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "Tasks", "with_callbacks"]


class Stopped(KeyboardInterrupt):
    """A callback asks for the end of learning: the best point so far is kept, as after an interrupt."""


class Tasks:
    """What the callbacks of an estimator hear while it is fitted to X and y."""

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.about = {"estimator": estimator, "X": X, "y": y}
        begin = getattr(estimator, "_init_callback_context", None)
        self.fit = begin(max_subtasks=None) if begin is not None and hasattr(estimator, "_skl_callbacks") else None
        if self.fit is not None:
            self.fit.call_on_fit_task_begin(**self.about)

    def evaluated(self, stage: str) -> None:
        """Tell of one evaluation, and end the search if a callback says so."""
        if self.fit is None:
            return
        task = self.fit.subcontext(task_name=stage)
        task.call_on_fit_task_begin(**self.about)
        if task.call_on_fit_task_end(**self.about):
            raise Stopped

    def ended(self) -> None:
        if self.fit is not None:
            self.fit.call_on_fit_task_end(**self.about)
