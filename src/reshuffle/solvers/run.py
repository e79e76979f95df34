"""The loop that runs every method: stopping, trace, callbacks, interruption and resuming."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from reshuffle.arrays import Array
from reshuffle.callbacks import Callback
from reshuffle.errors import DivergenceError, InputError, not_converged, shown, warn_user
from reshuffle.interruption import OutOfTime, until
from reshuffle.objective import Objective
from reshuffle.solvers.certificate import RelativeMapping
from reshuffle.solvers.method import Check, Epoch, Method
from reshuffle.solvers.recession import why_endless
from reshuffle.solvers.resume import BEST, BEST_VALUE, Previous
from reshuffle.trace import INTERRUPTED, STATIONARY, Result, Trace
from reshuffle.validation import check_number

if TYPE_CHECKING:
    from reshuffle.solvers.solver import BaseSolver

COLUMNS = ("epoch", "objective", "gradients", "prox_evals", "seconds", "step")
"""The columns of every trace; those of the certificate and of the method follow."""
DISK = "disk_passes"
"""The column of the trace that counts passes over rows on disk, if there are any."""
SAME = 1e-14
"""A smaller difference, as a share of P, is rounding: the last point then counts as good as the best one."""
NO_BOUND = "which is not a bound on P(x) - P*"
"""Part of the message of a run that the gradient mapping ended."""
RUNNING = "running"
"""The message of results that callbacks are given during a run."""
BETWEEN = ("all ", "stopped by a callback")
"""The beginnings of messages of runs that ended between two epochs, with no epoch under way."""
REPEATED = "repeated"
"""The header's count of epochs of a private run that may have been made twice, each time with new noise."""
BLOW_UP = 1e6
"""No convergent run lets the objective grow by this factor."""


class Run:
    """One call of ``solve``."""

    def __init__(
        self,
        solver: BaseSolver,
        problem: Objective,
        x0: Array,
        resume: Result | str | os.PathLike[str] | None,
    ) -> None:
        self.called = time.perf_counter()
        self.solver, self.problem = solver, problem
        self.config = solver.config(problem)
        self.epoch, self.gradients, self.prox_evals, self.seconds = 0, 0, 0, 0.0
        self.trace, self.stalled, self.best = Trace(), "", (np.inf, x0)
        self.read_before, self.read_at_start = 0.0, self._disk_passes() or 0.0
        previous = None if resume is None else Previous(resume)
        if previous:
            previous.check_run(self.config, solver.fingerprint(problem))

        problem.prepare()
        solver.rehearse(problem)
        clock = time.perf_counter()
        self.method = solver.bind(problem)
        try:
            if not isinstance(self.method, Method):
                _refuse(solver, "bind(problem) must return a Method", self.method)
            self._begin(x0, previous, clock)
        except BaseException:
            getattr(self.method, "close", lambda: None)()
            raise

    def _begin(self, x0: Array, previous: Previous | None, clock: float) -> None:
        method = self.method
        for name in ("schedule", "header", "certificate"):
            if not hasattr(method, name):
                raise InputError(f"{type(method).__name__} must set self.{name} in __init__")
        about = {"problem": repr(self.problem), "samples": str(self.problem.n)}
        self.trace.header.update(about | method.header)
        self.step = check_number("schedule(0)", method.schedule(0))
        self.state: Any = self._checked(method.start(x0), "start(x0)")
        self.seconds += time.perf_counter() - clock - method.setup_seconds
        self.gradients += method.start_gradients
        if previous:
            columns = [*COLUMNS, method.certificate, *self._own_columns()]
            self._go_on(previous.result(method, columns))

    def _own_columns(self) -> dict[str, float]:
        """The method's own columns, and passes over rows on disk if there are any."""
        passes = self._disk_passes()
        disk = {} if passes is None else {DISK: self.read_before + passes - self.read_at_start}
        return disk | dict(self.method.columns(self.state))

    def _disk_passes(self) -> float | None:
        """Passes over rows on disk so far, by all runs on this problem; None if rows are in memory."""
        found: float | None = getattr(getattr(self.problem, "datafit", None), DISK, None)
        return found

    def _go_on(self, previous: Result) -> None:
        """Continue a run from the point at which it was saved."""
        row, arrays = previous.trace.last(), dict(previous.state)
        self.trace, self.epoch = previous.trace, previous.epoch
        self.gradients, self.prox_evals = int(row["gradients"]), int(row["prox_evals"])
        self.seconds, self.step = row["seconds"], row["step"]
        self.read_before = row.get(DISK, 0.0)
        if self.method.keeps_best:
            self.best = float(arrays.pop(BEST_VALUE)[0]), arrays.pop(BEST)
        self.state = self.method.resumed(arrays)
        if self.method.account is not None and not previous.message.startswith(BETWEEN):
            self.trace.header[REPEATED] = str(self._repeated() + 1)

    def _repeated(self) -> int:
        """Epochs of a private run that were under way when it was interrupted."""
        told = self.trace.header.get(REPEATED, "0")
        if not told.isdecimal():
            raise InputError(f"resume: {REPEATED} of the saved run must be a count, got {told!r}")
        return int(told)

    def go(self, callbacks: Sequence[Callback]) -> Result:
        """Make epoch after epoch until there is a reason to stop."""
        message, converged = "", False
        limit = self.solver.time_limit
        end = np.inf if limit is None else self.called + limit
        self.method.watched = bool(callbacks) or self.solver.eval_every is not None
        if not self.trace:
            self.start_objective = self._evaluate(self._certify())
            if np.isnan(self.start_objective) and self.method.evaluates:
                self._refuse_start()
        else:
            self.start_objective = self.trace["objective"][0]
        measure = self.trace.latest(self.method.certificate)
        try:
            while not message:
                message, converged = self._stop(measure)
                if not message:
                    measure = np.nan  # the measure of a state that an interruption may leave
                    with until(end):  # an epoch is abandoned if time is up
                        measure = self._one_epoch()
                    message = self._look(measure, callbacks)
                    if message and self._stop(measure)[1]:  # the last epoch reached tol as well
                        message, converged = self._stop(measure)
        except KeyboardInterrupt:
            message = f"{INTERRUPTED} {self.epoch} {self.solver.counted}"
        except OutOfTime:
            message = self._late()
        if self.trace.latest("epoch") != self.epoch:
            self._evaluate(measure)
        return self._finish(converged, message)

    def _refuse_start(self) -> NoReturn:
        """Raise the error for a P(x0) that is NaN; it names the part at fault."""
        penalty = self.problem.penalty
        name = f"penalty {type(penalty).__name__}"
        value = penalty.value(self._x[: self.problem.features])
        if not np.isnan(check_number(f"value(x) of {name}", value)):
            name = type(self.problem).__name__
        raise InputError(
            f"value(x) of {name} is not a number at x0, which lies too far out or makes it overflow"
        )

    def _stop(self, measure: float) -> tuple[str, bool]:
        """The reason why the run should end now, if there is one, and whether ``tol`` is reached."""
        solver = self.solver
        if solver.tol > 0 and measure <= solver.tol:
            if self.method.certificate != RelativeMapping.name:
                return f"{self.method.certificate} = {measure:.3g} ≤ tol", True
            return f"{STATIONARY} relative gradient mapping = {measure:.3g} ≤ tol, {NO_BOUND}", True
        if self.stalled:
            return f"{self.stalled}: {self._reached()}", False
        if self.epoch >= solver.limit:
            return f"all {self.epoch} {solver.counted} done", False
        return (self._late(), False) if self._is_late() else ("", False)

    def _late(self) -> str:
        return f"time limit of {self.solver.time_limit:g} s reached"

    def _look(self, measure: float, callbacks: Sequence[Callback]) -> str:
        """Evaluate if it is due, and call the callbacks; returns the reason why the run should end, if there is one."""
        every = self.solver.eval_every or (1 if callbacks else None)
        wanted = self.epoch % every == 0 if every else not np.isnan(measure)
        done = self.epoch >= self.solver.limit or measure <= self.solver.tol or self.stalled
        if not (done or wanted):
            return ""
        self._evaluate(measure)
        if not callbacks:
            return ""
        so_far = self._result(False, RUNNING)
        answers = [_answer(callback, callback(so_far)) for callback in callbacks]
        return "stopped by a callback" if any(answers) else ""

    def _finish(self, converged: bool, message: str) -> Result:
        """The result, at the best point seen if the method keeps it."""
        margin = SAME * abs(self.best[0]) if self.method.takes_back else 0.0
        last = self.trace.latest("objective")
        better = self.method.keeps_best and not last < self.best[0] + margin
        if better and (converged or self._at_limit()):  # A run that may go on keeps its own row.
            self.trace.amend(objective=self.best[0])
        if self.trace.latest("objective") > self.start_objective:
            if self.step > self.method.longest_step and self._at_limit():
                self._raise_divergence(self.step)
            message += "; P(x) is larger than at the start: try a smaller step"
        found = self.best[1] if better else self._x
        private = self.method.account is not None  # the message must not reveal margins of the data
        endless = "" if private else why_endless(self.problem, found)
        doubts = self.method.doubts(self.state)
        if not (endless or converged or private):
            endless = self.method.endless(self.state)
        message += f"; {endless}" if endless else ""
        ended = converged or self._at_limit()
        if (self.solver.tol > 0 or doubts) and ended and (endless or not converged):
            advice = doubts or ("give a penalty" if endless else self._advice())
            warn_user(f"{type(self.solver).__name__}: {message}; {advice}", not_converged())
        return self._result(converged, message, self.best[1] if better else None)

    def _at_limit(self) -> bool:
        """Whether the run ended at one of its limits, rather than by a callback or Ctrl-C."""
        return bool(self.stalled) or self.epoch >= self.solver.limit or self._is_late()

    def _is_late(self) -> bool:
        limit = self.solver.time_limit
        return limit is not None and time.perf_counter() - self.called >= limit

    def _reached(self) -> str:
        """The last certificate, in words."""
        known = self.trace[self.method.certificate]
        known = known[~np.isnan(known)]
        return f"{self.method.certificate} = {known[-1]:.3g}" if known.size else "not checked"

    def _advice(self) -> str:
        tol, counted = self.solver.tol, self.solver.counted
        if self.stalled:
            return f"tol={tol:g} is beyond what rounding allows here: give a larger one"
        return (
            f"tol={tol:g} was not reached ({self._reached()}): give more {counted} than {self.epoch}, "
            "a larger tol or time_limit, or a stronger penalty"
        )

    def _one_epoch(self) -> float:
        """Advance; the state is replaced at the end, so that an interruption leaves it whole."""
        clock = time.perf_counter()
        step = self.method.schedule(self.epoch)
        done = self.method.advance(self.state, self.epoch, step)
        if not isinstance(done, Epoch):
            _refuse(self.method, "advance must return an Epoch", done)
        self._check_epoch(done)
        if not np.isfinite(self.method.x_of(done.state)).all():
            self._raise_divergence(step)
        seconds = self.seconds + time.perf_counter() - clock - done.setup_seconds
        return self._accept(done, step, seconds)

    def _accept(self, done: Epoch, step: float, seconds: float) -> float:
        """Accept the end of an epoch; returns its certificate, NaN if none is due."""
        vars(self).update(  # One call, which no signal interrupts.
            state=done.state, seconds=seconds, epoch=self.epoch + done.epochs, stalled=done.stalled,
            step=step if done.step is None else done.step,
            gradients=self.gradients + done.gradients,
            prox_evals=self.prox_evals + done.prox_evals,
        )  # fmt: skip
        due = self.method.due(self.state, self.epoch, self.solver.check_every)
        last = self.epoch >= self.solver.limit or self.stalled
        return self._certify() if due or last else np.nan

    def _certify(self) -> float:
        """The measure with which ``tol`` is compared; NaN if none is wanted or available here."""
        if not self.solver.tol > 0 or not self.method.evaluates:
            return np.nan
        clock = time.perf_counter()
        done = self.method.certify(self.state)
        if not isinstance(done, Check):
            _refuse(self.method, "certify must return a Check", done)
        self.seconds += time.perf_counter() - clock
        self.state = done.state
        self.gradients += done.gradients
        self.prox_evals += done.prox_evals
        return done.value

    def _evaluate(self, measure: float) -> float:
        objective = check_number("objective(state)", self.method.objective(self.state))
        watched = self.trace and self.method.evaluates and not self.method.takes_back
        if watched and not objective <= BLOW_UP * (1.0 + abs(self.start_objective)):
            self._raise_divergence(self.step)
        counts = (self.epoch, objective, self.gradients, self.prox_evals, self.seconds, self.step)
        row = dict(zip(COLUMNS, counts, strict=True)) | {self.method.certificate: measure}
        self.trace.append(row | self._own_columns())
        if objective < self.best[0]:
            self.best = objective, self._x
        return objective

    @property
    def _x(self) -> Array:
        return self.method.x_of(self.state)

    def _checked(self, state: object, name: str) -> Any:
        """A state of the method, checked to have an x of the right shape."""
        shape, kind = self.problem.shape, self.method.state_type
        typed = (
            isinstance(state, dict) and "x" in state if kind is dict else isinstance(state, kind)
        )
        x: object = self.method.x_of(state) if typed else None
        if not isinstance(x, np.ndarray) or x.shape != shape or x.dtype != np.float64:
            wanted = 'a dict with "x"' if kind is dict else f"a {kind.__name__} with x"
            _refuse(self.method, f"{name} must give {wanted}, float64 of shape {shape}", state)
        return state

    def _check_epoch(self, done: Epoch) -> None:
        """Refuse an epoch that gives other arrays than the last one, or counts that are not counts."""
        state = self._checked(done.state, "advance")
        if self.method.state_type is dict and sorted(state) != sorted(self.state):
            known = sorted(self.state)
            _refuse(self.method, f"advance must give the arrays {known} again", sorted(state))
        for name in ("gradients", "prox_evals"):
            count: object = getattr(done, name)
            if not isinstance(count, (int, np.integer)) or count < 0:
                _refuse(self.method, f"{name} of the Epoch must be a count", count)
        stalled: object = done.stalled
        if not isinstance(stalled, str):
            _refuse(self.method, "stalled of the Epoch must say why, in words", stalled)
        epochs, least = done.epochs, 0 if stalled else 1
        if not isinstance(epochs, (int, np.integer)) or epochs < least:
            _refuse(self.method, "epochs of the Epoch must count at least one, or it is stalled", epochs)  # fmt: skip
        number = isinstance(done.step, (int, float, np.number)) and 0 <= done.step < np.inf
        if done.step is not None and not number:
            _refuse(self.method, "step of the Epoch must be a number, finite and not negative", done.step)  # fmt: skip

    def _raise_divergence(self, step: float) -> NoReturn:
        safe = min(self.method.safe_step, step / 10.0)
        blame = f" ({self.method.blame})" if self.method.blame else ""
        raise DivergenceError(
            f"{type(self.solver).__name__} diverged in epoch {self.epoch} with step {step:.3g}{blame}; "
            f"try step={safe:.3g} or smaller",
            self._result(False, "diverged"),
        )

    def _result(self, converged: bool, message: str, best: Array | None = None) -> Result:
        x, state = self._x, self.method.saved(self.state)
        problem, account = self.solver.fingerprint(self.problem), self.method.account
        if account is not None:
            running = message == RUNNING
            spent = account.after(self.epoch, final=not running, repeated=self._repeated())
            self.trace.header["privacy"] = spent.to_text()
        if self.method.keeps_best:
            state = state | {BEST: self.best[1], BEST_VALUE: np.array(self.best[:1])}
        x = x if best is None else best
        proved = converged and self.method.certificate != RelativeMapping.name
        return Result(x, self.trace, proved, message, self.epoch, state, self.config, problem)


def _answer(callback: Callback, answer: object) -> bool:
    if answer is None or isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    name = getattr(callback, "__name__", type(callback).__name__)
    raise InputError(
        f"callback {name} must return True, False or None, got {type(answer).__name__}"
    )


def _refuse(part: object, wanted: str, found: object) -> NoReturn:
    raise InputError(f"{type(part).__name__}: {wanted}, got {shown(found)}")
