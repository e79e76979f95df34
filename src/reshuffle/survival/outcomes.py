"""Checks times and events, and combines them in the one array that estimators take."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.arrays import AnyArray, Array, Mask
from reshuffle.errors import InputError, shown
from reshuffle.validation import as_array, check_column, check_finite


def check_times(name: str, given: object, n: int) -> Array:
    """One time per row, finite and not negative."""
    times = as_array(name, given)
    if times.dtype.kind in "mM":
        raise InputError(
            f"{name} must hold numbers, got dates or durations: convert them to numbers in the unit you want"
        )
    times = check_column(name, times, n)
    if times.min() < 0:
        raise InputError(
            f"{name} must not be negative, got {times.min():g}: a time is counted from the start of observation"
        )
    return times


def check_events(name: str, given: object, n: int) -> Mask:
    """Whether the event of each row was observed: True or 1; False or 0 where the row is censored."""
    events = as_array(name, given)
    if events.shape != (n,) or events.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be {n} values, True or 1 for an event and False or 0 for a censored row, "
            f"got shape {events.shape}, dtype {events.dtype}"
        )
    if events.dtype.kind == "f":
        check_finite(name, events)
    if not np.isin(events, (0, 1)).all():
        strange = np.setdiff1d(events, (0, 1))[:3].tolist()
        raise InputError(
            f"{name} must be True or 1 for an event and False or 0 for a censored row, got {strange}"
        )
    found: Mask = events.astype(bool)
    return found


def check_strata(given: object, n: int) -> NDArray[np.int64]:
    """The number of the stratum of each row; 0 for all rows if no strata are given."""
    if given is None:
        return np.zeros(n, dtype=np.int64)
    labels = as_array("strata", given)
    if labels.shape != (n,):
        raise InputError(
            f"strata must be {n} labels, one per row of X, got shape {labels.shape}: {shown(given)}"
        )
    if any(label is None or label != label for label in labels.tolist()):
        raise InputError("strata must have a label in every row, got a missing one")
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise InputError("strata must be labels of one type, got several") from None


def outcome(time: ArrayLike, event: ArrayLike) -> AnyArray:
    """Times and events as the one array y of an estimator: its fields are ``event`` and ``time``.

    scikit-survival writes its targets the same way, so that they can be exchanged.

    Examples
    --------
    >>> from reshuffle.survival import outcome
    >>> outcome(time=[5.0, 3.0], event=[True, False])["time"]
    array([5., 3.])
    """
    n = np.shape(time)[0] if np.ndim(time) else 0
    times, events = check_times("time", time, n), check_events("event", event, n)
    both = np.empty(n, dtype=[("event", "?"), ("time", "f8")])
    both["event"], both["time"] = events, times
    return both


def parts(y: object) -> tuple[AnyArray, AnyArray]:
    """The times and the events of such an array, or of a matrix with the two columns time and event."""
    given = as_array("y", y) if not hasattr(y, "iloc") else np.asarray(y)
    if given.dtype.names is not None and len(given.dtype.names) == 2:
        flags = [name for name in given.dtype.names if given.dtype[name] == np.bool_]
        if len(flags) == 1:
            (other,) = set(given.dtype.names) - set(flags)
            return given[other], given[flags[0]]
    elif given.ndim == 2 and given.shape[1] == 2 and given.dtype.kind in "fiub":
        return given[:, 0], given[:, 1]
    raise InputError(
        "y must be an array of times and events, as reshuffle.survival.outcome(time, event) makes it, or a "
        f"matrix with the columns time and event, got shape {given.shape}, dtype {given.dtype}"
    )
