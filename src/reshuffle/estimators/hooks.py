"""scikit-learn's callback protocol (from its version 1.9 on): each epoch is a task of the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reshuffle.arrays import Array
from reshuffle.callbacks import Callback
from reshuffle.trace import Result

if TYPE_CHECKING:

    class CallbackSupportMixin:
        """scikit-learn's, where it has it."""

        _init_callback_context: Any

    Method = TypeVar("Method", bound=Callable[..., object])

    def with_callbacks(method: Method) -> Method:
        """scikit-learn's, where it has it."""
        ...

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9 has no callbacks.

        class CallbackSupportMixin:
            """scikit-learn's, where it has it."""

        def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
            """Return the method unchanged."""
            return method


class Hooks(CallbackSupportMixin):
    """An estimator whose epochs are tasks for scikit-learn's callbacks."""

    def _tasks(
        self,
        epochs: int,
        attributes: Callable[[Array], dict[str, object]],
        data: Mapping[str, object],
    ) -> Tasks:
        """The tasks for scikit-learn's callbacks; None if there is no callback."""
        heard = hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx")
        if not heard:
            return Tasks(None, self, attributes, data)
        # There is one task more than epochs: that which is begun after the last of them.
        return Tasks(
            self._init_callback_context(max_subtasks=epochs + 1), self, attributes, data
        ).begin()


class Tasks:
    """The tasks of one fit: the whole, and one per epoch."""

    def __init__(
        self,
        whole: Any,
        estimator: object,
        attributes: Callable[[Array], dict[str, object]],
        data: Mapping[str, object],
    ) -> None:
        self.whole, self.estimator, self.attributes, self.data = whole, estimator, attributes, data
        self.epoch: Any = None

    def begin(self) -> Tasks:
        self.whole.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        self._next()
        return self

    def _next(self) -> None:
        self.epoch = self.whole.subcontext(task_name="epoch")
        self.epoch.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def __call__(self, result: Result) -> bool:
        """End the task of an epoch; returns whether a callback asks to stop."""
        stop: bool = self.epoch.call_on_fit_task_end(
            estimator=self.estimator,
            reconstruction_attributes=lambda: self.attributes(result.x),
            **self.data,
        )
        self._next()
        return stop

    @property
    def callbacks(self) -> list[Callback]:
        return [] if self.whole is None else [self]

    def end(self, x: Array) -> None:
        """End the fit, and the task of the epoch that was not made."""
        if self.whole is None:
            return
        self.epoch.call_on_fit_task_end(estimator=self.estimator)
        self.whole.call_on_fit_task_end(
            estimator=self.estimator,
            reconstruction_attributes=lambda: self.attributes(x),
            **self.data,
        )
