"""scikit-learn's callback protocol (from its version 1.9 on): each epoch is a task of the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from reshuffle.arrays import Array
from reshuffle.trace import Result

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as wrapped
except ImportError:  # scikit-learn before 1.9 has no callbacks.
    CallbackSupportMixin, wrapped = object, None

Method = TypeVar("Method", bound=Callable[..., object])


def with_callbacks(method: Method) -> Method:
    """scikit-learn's, where it has it."""
    return method if wrapped is None else wrapped(method)


class Hooks(CallbackSupportMixin):  # type: ignore[misc]
    """An estimator whose epochs are tasks for scikit-learn's callbacks."""

    def _tasks(self, epochs: int, data: Mapping[str, object]) -> Tasks | None:
        """The tasks for scikit-learn's callbacks; None if there is no callback."""
        if not (hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")):
            return None
        # There is one task more than epochs: that which is begun after the last of them.
        return Tasks(self._init_callback_context(max_subtasks=epochs + 1), self, data)


class Tasks:
    """The tasks of one fit: the whole, and one per epoch."""

    def __init__(self, whole: Any, estimator: Any, data: Mapping[str, object]) -> None:
        self.whole, self.estimator, self.data = whole, estimator, data
        whole.call_on_fit_task_begin(estimator=estimator, **data)
        self._next()

    def _next(self) -> None:
        self.epoch: Any = self.whole.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def _end(self, task: Any, x: Array) -> Any:
        return task.call_on_fit_task_end(
            estimator=self.estimator,
            reconstruction_attributes=lambda: self.estimator.attributes_of(x),
            **self.data,
        )

    def __call__(self, result: Result) -> bool:
        """End the task of an epoch; returns whether a callback asks to stop."""
        stop: bool = self._end(self.epoch, result.x)
        self._next()
        return stop

    def end(self, x: Array) -> None:
        """End the fit, and the task of the epoch that was not made."""
        self.epoch.call_on_fit_task_end(estimator=self.estimator)
        self._end(self.whole, x)
