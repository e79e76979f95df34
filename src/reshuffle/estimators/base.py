"""The common part of all estimators: parameters, the conversion of data to a problem, and of its solution to attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown
from reshuffle.estimators.array_api import is_on_card
from reshuffle.estimators.early_stopping import Watch, held_out
from reshuffle.estimators.hooks import Hooks, with_callbacks
from reshuffle.estimators.inputs import Prepared, check_flags, check_level
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.outcome import Certificate, certificate_of
from reshuffle.estimators.penalty_names import penalty_for
from reshuffle.estimators.private_fit import check_private_fit, refuse_private
from reshuffle.estimators.sample_stream import SampleStream, chunk
from reshuffle.estimators.solver_names import seed_of, solver_of, tol_of
from reshuffle.problem import Problem
from reshuffle.trace import Result


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(Hooks, Linear):
    """Minimises the mean loss plus a penalty. The parameters are described in ``RRClassifier``."""

    loss: object = None
    penalty: object = "l2"
    l1: float | None = None
    l2: float | None = None
    penalty_factors: object = None
    positive: bool = False
    fit_intercept: bool = True
    solver: Any = "exact"
    tol: float | None = None
    max_iter: int = 1000
    random_state: object = 0
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    callbacks: object = None
    verbose: object = False
    device: Any = None

    fits_on_card: ClassVar[bool] = True
    """Whether rows that lie on a graphics card are used there."""

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
    ) -> Self:
        """Find the minimiser for these rows and targets.

        ``offset`` has a known number for each row that is added to its margin; ``exposure`` is the offset
        log(exposure), for losses with a log link.
        """
        data = self.prepared(X, y, sample_weight, offset, exposure)
        check_flags(self, "fit_intercept", "positive", "warm_start", "early_stopping")
        check_level("verbose", self.verbose)
        check_private_fit(self)
        seed = seed_of(self.random_state)
        penalty = penalty_for(self, data.shape)
        on_card, device, watch = is_on_card(data.X), self.device, None
        problem: Any
        if on_card:
            self._check_on_card()
            device = "cuda" if device is None and isinstance(self.solver, str) else device
            problem = data.on_card(penalty, device)
        else:
            problem = data.problem(penalty)
        tol = tol_of(self.tol, self.solver, problem, device="cuda" if on_card else device)
        solver = solver_of(self.solver, tol, self.max_iter, seed, device=device)
        if self.early_stopping:
            rows = held_out(problem.n, data.codes, self.validation_fraction, seed)
            if data.weights is not None and not data.weights[rows[1]].any():
                raise InputError(
                    "sample_weight must not be zero in all rows that early_stopping holds out: "
                    "leave out the rows of weight zero, or give another random_state"
                )
            watch = Watch(problem.take(rows[1].astype(np.uint32)), self.n_iter_no_change)
            problem = data.take(rows[0]).problem(penalty)
        self.loss_, self.penalty_ = problem.loss, problem.penalty
        callbacks = self._given_callbacks()
        tasks = self._tasks(solver.limit, self._shown(data))
        callbacks += [own for own in (watch, tasks) if own]
        begin, bar = self._start(problem.shape), bool(self.verbose)
        result, certificate = self._solved(
            solver, problem, begin, callbacks=callbacks, progress=bar
        )
        self._keep(result, problem, certificate, watch)
        private = result.privacy is not None  # the model must not keep the rows
        self.data_ = None if private or on_card else data
        if not private:
            self.stream_ = None if on_card else SampleStream.after(problem, seed)
        if tasks:
            tasks.end(result.x)
        return self

    def _check_on_card(self) -> None:
        """Refuse, before any work, settings that rows on a graphics card do not support."""
        if isinstance(self.solver, str):
            solver_of(self.solver, 1.0, self.max_iter, 0, device=self.device or "cuda")
        if self.early_stopping:
            raise InputError(
                "early_stopping must be False for rows on a graphics card, of which none are held out, got True"
            )

    def _shown(self, data: Prepared) -> dict[str, object]:
        """The data for scikit-learn's callbacks: the rows, and the targets as the user gave them."""
        codes = data.codes
        return {"X": data.X, "y": data.y if codes is None else lambda: self.classes_[codes]}

    def _keep(
        self, result: Result, problem: Problem, certificate: Certificate, watch: Watch | None
    ) -> None:
        x = result.x
        self.set_ending(result, certificate)
        if watch is not None and watch.losses:
            self.validation_losses_ = np.array(watch.losses)
            if not np.array_equal(watch.x, x):  # It keeps a point at which nothing was proved.
                x, self.objective_ = watch.x, problem.objective(watch.x)
                self.certificate_ = Certificate(certificate.measure, np.nan, certificate.tol, "")
        self.set_solution(x)
        self.n_samples_fit_ = problem.n

    def _advance(self, data: Prepared) -> Self:
        """One more call of ``partial_fit``."""
        if is_on_card(data.X):
            raise InputError(
                "partial_fit takes rows in the processor's memory, and X lies on a graphics card: copy it"
            )
        if self.device is not None:
            raise InputError(
                f"device must be None for partial_fit, whose passes are made on the processor, got {shown(self.device)}"
            )
        refuse_private(self.solver, "partial_fit")
        check_flags(self, "fit_intercept", "positive", "early_stopping")
        if self.early_stopping:
            raise InputError(
                "early_stopping must be False for partial_fit, which holds no rows out, got True"
            )
        stream = getattr(self, "stream_", None) or SampleStream(seed=seed_of(self.random_state))
        part = chunk(data, penalty_for(self, data.shape))
        self.loss_, self.penalty_ = part.loss, part.penalty
        start = self.solution() if hasattr(self, "coef_") else None
        result, self.stream_ = stream.advance(part, start)
        self._keep(result, part, certificate_of(result, 0.0), None)
        self.data_ = None  # the rows of earlier calls are gone
        self.n_iter_ = self.stream_.calls
        return self

    def _start(self, shape: tuple[int, ...]) -> Array | None:
        """The last model, if a warm start is wanted and its shape fits; any start leads to the minimiser."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        x = self.solution()
        return x if x.shape == shape else None

    def _given_callbacks(self) -> list[object]:
        if self.callbacks is None:
            return []
        if callable(self.callbacks):
            return [self.callbacks]
        if isinstance(self.callbacks, (list, tuple)):
            return list(self.callbacks)
        raise InputError(
            f"callbacks must be a function of a result or a list of such, got {shown(self.callbacks)}"
        )
