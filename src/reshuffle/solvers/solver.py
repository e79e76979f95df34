"""The base classes of solvers: common hyper-parameters, and ``solve``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from functools import cache
from inspect import signature
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from reshuffle.callbacks import Callback, ProgressBar
from reshuffle.capacity import check_unknown
from reshuffle.digests import Fingerprint, digest
from reshuffle.errors import InputError, held_warnings, shown
from reshuffle.objective import FiniteSum, Objective
from reshuffle.penalties.abilities import check_convex
from reshuffle.privacy.settings import public_fingerprint
from reshuffle.randomness import check_seed
from reshuffle.solvers.method import Method
from reshuffle.solvers.run import Run
from reshuffle.trace import Result
from reshuffle.validation import check_positive, check_start

LIMITS = frozenset({"tol", "check_every", "eval_every", "time_limit"})
"""Hyper-parameters that may differ between a run and its continuation."""

ADDED = {"privacy": None, "transport": "float64", "downlink": "float64", "device": None}
"""Hyper-parameters that files of earlier versions lack, with the values that those versions used."""


@dataclass(frozen=True, kw_only=True)
class BaseSolver:
    """Frozen hyper-parameters; ``solve`` does the work and keeps no state.

    Parameters
    ----------
    seed : of every random choice of the run. Same seed, same bits.
    tol : the relative accuracy at which the run stops; 0 never checks. It is compared with the duality
        gap over f(0), a bound on (P(x) - P*)/f(0), if loss and penalty have one (column ``gap`` of
        the trace), otherwise with the norm of the gradient mapping over that of the gradient at zero
        (column ``relative_mapping``). A check costs a pass over the data and a prox, which the trace
        counts.
    check_every : epochs between two checks; by default the method decides.
    eval_every : epochs between two rows of the trace (the objective costs a pass over the data,
        which the trace does not count). ``None`` writes a row whenever the certificate is computed, and
        after every epoch if there are callbacks.
    time_limit : seconds of wall-clock time since the call of ``solve`` after which the run ends; the current
        epoch is abandoned, and the result is that of the one before.
    """

    seed: int = 0
    tol: float = 0.0
    check_every: int | None = None
    eval_every: int | None = 1
    time_limit: float | None = None

    limits: ClassVar[frozenset[str]] = LIMITS
    counted: ClassVar[str] = "epochs"
    """The word for an epoch of the loop, which is also the hyper-parameter that limits their number."""
    takes: ClassVar[Any] = FiniteSum
    """The class of problems that it can minimise."""
    because: ClassVar[str] = "whose functions can be visited one by one"
    """The reason why it needs that class, for the message of an error."""
    takes_weakly_convex: ClassVar[bool] = False
    """Whether it runs with a penalty that is not convex (ability ``weak_convexity``)."""

    def __new__(cls, *_: object, **settings: object) -> Self:
        """Refuse the name of the limit that belongs to the other kind of solver, and privacy if it is not supported."""
        other = "rounds" if cls.counted == "epochs" else "epochs"
        if other in settings:
            raise InputError(
                f"{cls.__name__} counts {cls.counted}, not {other}: "
                f"give {cls.counted}={settings[other]!r}"
            )
        if settings.get("privacy") is not None and not hasattr(cls, "privacy"):
            raise InputError(
                f"{cls.__name__} has no differential privacy: its steps use the data again and again without a bound on "
                "one sample's influence; use ProxRR or FedRR with privacy.SampleLevel, or FedRR or LocalSGD with "
                "privacy.ClientLevel"
            )
        return super().__new__(cls)

    @property
    def limit(self) -> int:
        """The most epochs, or rounds, to run."""
        most: int = getattr(self, self.counted)
        return most

    def __post_init__(self) -> None:
        check_positive(self.counted, self.limit, integer=True)
        for name in ("check_every", "eval_every", "time_limit"):
            value = getattr(self, name)
            if value is not None:
                check_positive(name, value, integer=name != "time_limit")
        number = isinstance(self.tol, (int, float, np.number)) and not isinstance(self.tol, bool)
        if not (number and 0 <= self.tol < np.inf):
            raise InputError(f"tol must be finite and not negative, got {shown(self.tol)}")
        check_seed(self.seed)

    method_class: ClassVar[type[Method] | None] = None
    """The class of its method, if ``bind`` only has to make one."""

    def bind(self, problem: Any) -> Method:
        """This solver's method on this problem."""
        name, kind = type(self).__name__, self.method_class
        if not (isinstance(kind, type) and issubclass(kind, Method)):
            given = "" if kind is None else f", got {shown(kind)}"
            raise InputError(
                f"{name} must have method_class = a subclass of Method, or bind(problem){given}"
            )
        if missing := sorted(getattr(kind, "__abstractmethods__", ())):
            raise InputError(f"{kind.__name__} must have {' and '.join(missing)}")
        try:
            signature(kind).bind(problem, self)
        except TypeError:
            raise InputError(f"{kind.__name__}: __init__ must take (problem, solver)") from None
        return kind(problem, self)

    def rehearse(self, problem: Any) -> None:
        """One epoch of a user's method on the first function alone, before the clock of a run starts.

        Whatever the method compiles is compiled then.
        """
        kind = self.method_class
        if kind is None or str(kind.__module__).startswith("reshuffle."):
            return
        with held_warnings(), suppress(Exception):  # the run itself reports errors
            rehearsal = self.bind(problem.first())
            rehearsal.advance(rehearsal.start(np.zeros(problem.shape)), 0, rehearsal.schedule(0))

    def solve(
        self,
        problem: Objective,
        x0: object = None,
        *,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
        resume: Result | str | os.PathLike[str] | None = None,
    ) -> Result:
        """Minimise P from ``x0`` (default: zeros), or continue from the end of the result ``resume``.

        ``callbacks`` are called after each evaluated epoch and may stop the run by returning True;
        ``progress`` shows a bar. Ctrl-C ends the run and returns what it has.
        """
        self.check_problem(problem)
        for callback in callbacks:
            if not callable(callback):
                raise InputError(f"callbacks must be functions of a result, got {shown(callback)}")
        size, name = 8 * prod(problem.shape), type(self).__name__
        check_unknown(problem.shape)
        start = check_start(x0, problem.shape)
        try:
            # Underflow is harmless, and ``Run`` detects overflow.
            with np.errstate(under="ignore", over="ignore"), ExitStack() as stack:
                run = self.loop(problem)(self, problem, start, resume)
                stack.callback(run.method.close)
                if not progress:
                    return run.go(callbacks)
                bar = stack.enter_context(ProgressBar(self.limit, title=name))
                result = run.go([*callbacks, bar])
                bar.finish(result)
                return result
        except MemoryError as error:
            raise InputError(
                f"{name} needs more memory than there is ({str(error) or 'no bytes left'}); x alone takes "
                f"{size:,} bytes, and a run some ten to twenty times as many"
            ) from None

    def loop(self, problem: Objective) -> type[Run]:
        """The loop that runs the method on this problem."""
        return Run

    def check_problem(self, problem: object) -> None:
        """Refuse a problem that this solver cannot minimise."""
        name = type(self).__name__
        if isinstance(problem, self.takes):
            if not self.takes_weakly_convex:
                check_convex(problem.penalty, name)
            return
        if isinstance(problem, Objective):
            raise InputError(
                f"{name} needs a {self.takes.__name__}, {self.because}; for {shown(problem)} use {problem.taken_by}"
            )
        if hasattr(problem, "gather"):
            raise InputError(
                f"{name} needs the data here; for sites use ExactFedRR, FedRR or LocalSGD"
            )
        raise InputError(
            "problem must be a Problem, an OracleProblem or a FiniteSum of your own, "
            f"got {shown(problem)}"
        )

    def config(self, problem: Objective) -> dict[str, str]:
        """The settings that must not differ between a run and its continuation."""
        horizon = getattr(getattr(self, "step", None), "needs_horizon", False)
        free = self.limits if horizon else self.limits | {self.counted}
        names = _settings(type(self))  # type: ignore[arg-type]
        config = {n: _described(getattr(self, n)) for n in names if n not in free}
        for name, default in ADDED.items():  # omitted, as in files of versions that lacked it
            if config.get(name) == repr(default):
                del config[name]
        level = getattr(self, "privacy", None)
        if level is not None and level.noise is None:
            config[self.counted] = repr(self.limit)  # the noise was computed for this number
        return {"solver": type(self).__name__} | config

    def fingerprint(self, problem: Objective) -> Fingerprint:
        """Digests by which a saved run recognises its problem; with privacy, of its public parts alone."""
        private = getattr(self, "privacy", None) is not None
        return public_fingerprint(problem) if private else problem.fingerprint


@dataclass(frozen=True, kw_only=True)
class Solver(BaseSolver):
    """A solver on one machine; the base class for a method of your own.

    Parameters
    ----------
    epochs : the most epochs to run.
    """

    epochs: int = 100


@cache
def _settings(kind: type[BaseSolver]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _described(value: object) -> str:
    """A repr without addresses: functions and objects by a digest of their content."""
    text = repr(value)
    return f"{type(value).__name__} {digest(value)[:16]}" if " at 0x" in text else text
