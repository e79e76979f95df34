"""The one loop around every method: stopping, trace, callbacks, interruption, resuming."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.callbacks import Callback, ProgressBar
from reshuffle.errors import DivergenceError, InputError
from reshuffle.finite_sum import Array, FiniteSum
from reshuffle.randomness import check_seed
from reshuffle.steps import Schedule
from reshuffle.trace import Result, Trace
from reshuffle.validation import check_positive, check_start

State = dict[str, NDArray[Any]]
"""All that an epoch changes: ``x``, and what else the method carries. Never changed in place."""

LIMITS = frozenset({"epochs", "tol", "check_every", "eval_every", "time_limit"})
"""Hyper-parameters that may differ between a run and its continuation."""
READY: set[tuple[object, ...]] = set()
"""What kernels have been compiled for in this process."""
BLOW_UP = 1e6  # growth of the objective that no convergent run shows


class Epoch(NamedTuple):
    """What one epoch did."""

    state: State
    gradients: int
    prox_evals: int
    step: float | None = None
    """γ, where the method chose another than it was given."""


class Certificate(NamedTuple):
    """How far from optimal a state is, and what it cost to find out."""

    value: float
    gradients: int
    prox_evals: int
    state: State
    """The state again, with what the method wants to remember of the check."""


class Method(ABC):
    """A solver bound to a problem: how one epoch goes, and what certifies its end."""

    problem: FiniteSum
    schedule: Schedule
    safe_step: float
    certificate: str = "gradient_mapping"
    """The column of the trace that ``tol`` is compared with."""
    start_gradients: int = 0
    """Gradients that ``start`` evaluates."""
    header: dict[str, str]
    """What the method chose by itself, for the header of the trace."""

    def __init__(self, problem: FiniteSum) -> None:
        self.problem, self.header = problem, {}

    @abstractmethod
    def start(self, x0: Array) -> State:
        """The state before the first epoch."""

    @abstractmethod
    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        """The epoch t = 0, 1, … with γ_t = step."""

    def due(self, state: State, epoch: int, every: int) -> bool:
        """Whether the certificate is to be computed after this many epochs."""
        return epoch % every == 0

    def certify(self, state: State) -> Certificate:
        """‖G(x)‖, at the cost of a full gradient and a prox."""
        mapping = self.problem.gradient_mapping(state["x"])
        return Certificate(mapping, self.problem.n, 1, state)

    def objective(self, state: State) -> float:
        """P(x), for the trace."""
        return self.problem.objective(state["x"])

    def columns(self, state: State) -> dict[str, float]:
        """Further columns of the trace."""
        return {}

    def close(self) -> None:
        """Give back what the method holds; called once, however the run ends."""
        return  # most hold nothing

    def give_up(self, state: State) -> State:
        """The state to return when the run ends with a larger objective than it began with."""
        return state


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """Hyper-parameters that every solver has; ``solve`` does the work and keeps no state.

    Parameters
    ----------
    epochs : the most epochs to run.
    seed : of every random choice of the run. Same seed, same bits.
    tol : stop when ‖G(x)‖ ≤ tol, G the gradient mapping of P; 0 never checks. A check costs one
        full gradient and one prox, which the trace counts.
    check_every : epochs between two checks.
    eval_every : epochs between two rows of the trace (the objective costs a pass over the data,
        which the trace does not count).
    time_limit : seconds after which no further epoch is started.
    """

    epochs: int = 100
    seed: int = 0
    tol: float = 0.0
    check_every: int = 1
    eval_every: int = 1
    time_limit: float | None = None

    limits: ClassVar[frozenset[str]] = LIMITS
    counted: ClassVar[str] = "epochs"
    """What an epoch of the loop is called."""

    def __post_init__(self) -> None:
        for name in ("epochs", "check_every", "eval_every"):
            check_positive(name, getattr(self, name), integer=True)
        if not (isinstance(self.tol, (int, float, np.number)) and 0 <= self.tol < np.inf):
            raise InputError(f"tol must be finite and not negative, got {self.tol!r}")
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        check_seed(self.seed)

    @abstractmethod
    def bind(self, problem: FiniteSum) -> Method:
        """This solver's method on this problem."""

    def compile(self, problem: FiniteSum) -> None:
        """Compile, or load, the kernels of a run before its clock starts."""
        problem.compile(gradient=self.tol > 0)

    def solve(
        self,
        problem: FiniteSum,
        x0: Any = None,
        *,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
        resume: Result | str | os.PathLike[str] | None = None,
    ) -> Result:
        """Minimise P from ``x0`` (zeros), or go on where the result ``resume`` stopped.

        ``callbacks`` are called after each evaluated epoch and may stop the run by returning True;
        ``progress`` shows a bar. Ctrl-C ends the run and returns what it has.
        """
        if not isinstance(problem, FiniteSum):
            raise InputError(f"problem must be a Problem or an OracleProblem, got {problem!r}")
        start = check_start(x0, problem.shape)
        run = _Run(self, problem, start, resume)
        with ExitStack() as stack:
            shown: list[Callback] = list(callbacks)
            if progress:
                bar = ProgressBar(self.epochs, title=type(self).__name__)
                shown.append(stack.enter_context(bar))
            stack.callback(run.method.close)
            return run.go(shown)

    def config(self, problem: FiniteSum) -> dict[str, str]:
        """What must not differ between a run and its continuation."""
        horizon = getattr(getattr(self, "step", None), "needs_horizon", False)
        free = self.limits - {"epochs"} if horizon else self.limits
        names = [field.name for field in fields(self) if field.name not in free]
        config = {name: repr(getattr(self, name)) for name in names}
        return {"solver": type(self).__name__, "problem": repr(problem)} | config


class _Run:
    """One call of ``solve``."""

    def __init__(
        self,
        solver: Solver,
        problem: FiniteSum,
        x0: Array,
        resume: Result | str | os.PathLike[str] | None,
    ) -> None:
        self.solver, self.problem = solver, problem
        self.config = solver.config(problem)
        self.epoch, self.gradients, self.prox_evals, self.seconds = 0, 0, 0, 0.0
        self.trace = Trace()
        previous = None if resume is None else self._check_resume(resume)

        ready = (type(solver), solver.tol > 0, problem.signature)
        if ready not in READY:
            solver.compile(problem)
            READY.add(ready)
        clock = time.perf_counter()
        self.method = solver.bind(problem)
        try:
            self._begin(x0, previous, clock)
        except BaseException:
            self.method.close()
            raise

    def _begin(self, x0: Array, previous: Result | None, clock: float) -> None:
        self.trace.header.update(self.method.header)
        self.step = self.method.schedule(0)
        self.state = previous.state if previous else self.method.start(x0)
        self.seconds += time.perf_counter() - clock
        self.gradients += self.method.start_gradients
        if previous:
            row = previous.trace.last()
            self.trace, self.epoch = previous.trace, previous.epoch
            self.gradients, self.prox_evals = int(row["gradients"]), int(row["prox_evals"])
            self.seconds, self.step = row["seconds"], row["step"]
            self._check_same_data(row["objective"])

    def go(self, callbacks: Sequence[Callback]) -> Result:
        solver, message, converged = self.solver, "", False
        if not self.trace:
            self.start_objective = self._evaluate(self._certify())
        else:
            self.start_objective = self.trace["objective"][0]
        measure = self.trace.last()[self.method.certificate]
        try:
            while not message:
                if solver.tol > 0 and measure <= solver.tol:
                    message, converged = f"{self.method.certificate} = {measure:.3g} ≤ tol", True
                elif self.epoch >= solver.epochs:
                    message = f"all {self.epoch} {solver.counted} done"
                elif solver.time_limit is not None and self.seconds >= solver.time_limit:
                    message = f"time limit of {solver.time_limit:g} s reached"
                if message:
                    break
                measure = self._one_epoch()
                done = self.epoch >= solver.epochs or measure <= solver.tol
                if done or self.epoch % solver.eval_every == 0:
                    self._evaluate(measure)
                    so_far = self._result(False, "running")
                    if any([callback(so_far) for callback in callbacks]):
                        message = "stopped by a callback"
        except KeyboardInterrupt:
            message = f"interrupted after {self.epoch} epochs"
        if self.trace.last()["epoch"] != self.epoch:
            self._evaluate(measure)
        if not self.trace.last()["objective"] <= self.start_objective:
            self.state = self.method.give_up(self.state)
            self.trace.amend(objective=self.problem.objective(self.state["x"]))
        if self.trace.last()["objective"] > self.start_objective:
            message += "; P(x) is larger than at the start: try a smaller step"
        return self._result(converged, message)

    def _one_epoch(self) -> float:
        """Advance; the state is replaced at the end, so that an interruption leaves it whole."""
        clock = time.perf_counter()
        step = self.method.schedule(self.epoch)
        done = self.method.advance(self.state, self.epoch, step)
        if not np.isfinite(done.state["x"]).all():
            self._raise_divergence(step)
        seconds = self.seconds + time.perf_counter() - clock
        step = step if done.step is None else done.step
        self.state, self.epoch, self.step, self.seconds = done.state, self.epoch + 1, step, seconds
        self.gradients += done.gradients
        self.prox_evals += done.prox_evals
        due = self.method.due(self.state, self.epoch, self.solver.check_every)
        return self._certify() if due or self.epoch >= self.solver.epochs else np.nan

    def _certify(self) -> float:
        """What ``tol`` is compared with; NaN where no one asked for it."""
        if not self.solver.tol > 0:
            return np.nan
        clock = time.perf_counter()
        done = self.method.certify(self.state)
        self.seconds += time.perf_counter() - clock
        self.state = done.state
        self.gradients += done.gradients
        self.prox_evals += done.prox_evals
        return done.value

    def _evaluate(self, measure: float) -> float:
        objective = self.method.objective(self.state)
        if self.trace and not objective <= BLOW_UP * (1.0 + abs(self.start_objective)):
            self._raise_divergence(self.step)
        self.trace.append(
            {
                "epoch": self.epoch,
                "objective": objective,
                "gradients": self.gradients,
                "prox_evals": self.prox_evals,
                "seconds": self.seconds,
                "step": self.step,
                self.method.certificate: measure,
            }
            | self.method.columns(self.state)
        )
        return objective

    def _raise_divergence(self, step: float) -> None:
        safe = min(self.method.safe_step, step / 10.0)
        raise DivergenceError(
            f"{type(self.solver).__name__} diverged in epoch {self.epoch} with step {step:.3g}; "
            f"try step={safe:.3g} or smaller",
            self._result(False, "diverged"),
        )

    def _result(self, converged: bool, message: str) -> Result:
        x = self.state["x"]
        return Result(x, self.trace, converged, message, self.epoch, self.state, self.config)

    def _check_resume(self, resume: Result | str | os.PathLike[str]) -> Result:
        previous = (resume if isinstance(resume, Result) else Result.load(resume)).snapshot()
        for name in dict.fromkeys([*self.config, *previous.config]):
            old, new = previous.config.get(name), self.config.get(name)
            if old != new:
                raise InputError(f"resume: the saved run has {name} = {old}, this one {new}")
        return previous

    def _check_same_data(self, recorded: float) -> None:
        """The objective of the saved point tells other data of the same shape."""
        found = self.problem.objective(self.state["x"])
        same = np.isclose(found, recorded, rtol=1e-12, atol=0.0)
        if self.trace.last()["epoch"] == self.epoch and not same:
            raise InputError(
                f"resume: the saved point has P(x) = {recorded!r}, on this problem {found!r}; "
                "the data differ"
            )
