"""Resumes a saved run. Its content is not trusted: it is compared with a fresh state before a method uses it.

Names, types and shapes of the arrays are compared before they are read (``check_headers``), their numbers before
they are used (``check_numbers``, and what a method knows besides, ``Method.check_state``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from reshuffle.digests import Fingerprint
from reshuffle.errors import InputError, shown
from reshuffle.npz_archive import Header, header_of
from reshuffle.solvers.method import Method, State
from reshuffle.trace import STATE, TRACE, Result, opened_result, result_of, under

BEST, BEST_VALUE = "best", "best_value"
SAME = 1e-6
"""The order of additions may change P(x) by this share, on columns of any scale."""


class Previous:
    """The run that ``resume`` names, in memory or in a file."""

    def __init__(self, resume: object) -> None:
        if not isinstance(resume, (Result, str, os.PathLike)):
            raise InputError(
                f"resume must be a Result or the path of a saved one, got {shown(resume)}"
            )
        self.given = resume

    def check_run(self, config: Mapping[str, str], problem: Fingerprint) -> None:
        """Refuse the run of another solver, of other settings or on another problem."""
        if isinstance(self.given, Result):
            saved, fingerprint = self.given.config, self.given.fingerprint
        else:
            with opened_result(self.given) as stored:
                saved = dict(stored.about["config"])
                fingerprint = Fingerprint(dict(stored.about.get("fingerprint", {})))
        for name in dict.fromkeys([*config, *saved]):
            old, new = saved.get(name), config.get(name)
            if old != new:
                raise InputError(f"resume: the saved run has {name} = {old}, this one {new}")
        differ = problem.differences(fingerprint)
        if differ:
            raise InputError(
                f"resume: the saved run was on another problem (different: {', '.join(differ)})"
            )

    def result(self, method: Method, columns: list[str]) -> Result:
        """The saved run, compared with a fresh state of the method and with the columns of its trace."""
        fresh = method.saved(method.start(np.zeros(method.problem.shape)))
        if method.keeps_best:
            fresh |= {BEST: fresh["x"], BEST_VALUE: np.zeros(1)}
        if isinstance(self.given, Result):
            result = self.given.snapshot()
            headers = {name: header_of(array) for name, array in result.state.items()}
            check_headers(headers, fresh, method.lengths())
        else:
            with opened_result(self.given) as stored:
                check_headers(under(STATE, stored.headers), fresh, method.lengths())
                check_columns(list(under(TRACE, stored.headers)), columns)
                result = result_of(stored)
        check_columns(list(result.trace), columns)
        check_numbers(result.state, fresh)
        _check_progress(result, method.evaluates)
        method.check_state(result.state)
        _check_objective(result, method)
        return result


def check_headers(found: Mapping[str, Header], fresh: State, lengths: Mapping[str, int]) -> None:
    """Refuse a saved state whose arrays are not like those of a fresh one.

    ``lengths`` has the largest allowed lengths of some arrays. The others must be as long as in the fresh state, except
    arrays that are empty there, which may have grown.
    """
    if set(found) != set(fresh):
        raise InputError(f"resume: the saved state has {sorted(found)}, this run's {sorted(fresh)}")
    for name, wanted in fresh.items():
        shape, dtype = found[name]
        fits = shape == wanted.shape
        if wanted.ndim and shape[1:] == wanted.shape[1:] and len(shape) == wanted.ndim:
            fits |= shape[0] <= lengths.get(name, -1) or (not len(wanted) and name not in lengths)
        if dtype != wanted.dtype or not fits:
            raise InputError(
                f"resume: {name} of the saved state has shape {shape} and dtype {dtype}, "
                f"this run's {wanted.shape} and {wanted.dtype}"
            )


def check_numbers(state: State, fresh: State) -> None:
    """Refuse NaN, and infinities if a fresh state has none."""
    for name, array in state.items():
        if array.dtype.kind != "f":
            continue
        wanted = fresh[name]
        may_be = np.isinf(wanted) if wanted.shape == array.shape else np.zeros(1, dtype=bool)
        if np.isnan(array).any() or (np.isinf(array) & ~may_be).any():
            raise InputError(f"resume: {name} of the saved state must be finite")


def check_columns(found: list[str], wanted: list[str]) -> None:
    """Refuse a trace that this run cannot continue."""
    if set(found) != set(wanted):
        raise InputError(f"resume: the saved trace has the columns {found}, this run's {wanted}")


def _check_progress(result: Result, evaluates: bool) -> None:
    """Refuse invalid counts and seconds. P(x) may be missing if the method does not evaluate it."""
    row, first = result.trace.last(), result.trace["objective"][0]
    counts = ("epoch", "gradients", "prox_evals", "seconds", "step")
    wrong = [name for name in counts if not 0 <= row[name] < 2.0**63]
    known = first > -np.inf and np.isfinite(row["objective"])  # x0 may violate a constraint
    if wrong or row["epoch"] > result.epoch or not (known or not evaluates):
        names = ", ".join(wrong or ["epoch", "objective"])
        raise InputError(f"resume: the last row of the saved trace is not one of a run ({names})")


def _check_objective(result: Result, method: Method) -> None:
    """Refuse a run whose P(x) is not that of its x (or of the best point, if the method returns that)."""
    row, state = result.trace.last(), result.state
    if not method.evaluates:
        return  # P(x) is not known here.
    if method.keeps_best:
        name, said, true = BEST, float(state[BEST_VALUE][0]), method.problem.objective(state[BEST])
    elif row["epoch"] == result.epoch:
        name, said, true = "x", row["objective"], method.objective(method.resumed(state))
    else:
        return  # A run that diverged has no row for its end.
    rounding = SAME * max(abs(true), abs(result.trace["objective"][0]))
    if not abs(true - said) <= rounding or row["objective"] < said - rounding:
        said = min(said, row["objective"])
        raise InputError(f"resume: P({name}) is {true:g}, not {said:g} as the saved run says")
