"""Offsets and exposures: known parts of the margins."""

from __future__ import annotations

import numpy as np

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.losses.base import Loss
from reshuffle.validation import check_column, read_only


def check_offsets(offset: object, exposure: object, n: int, loss: Loss) -> Array:
    """o_i = offset_i + log(exposure_i), one per row; empty if neither is given or all are 0."""
    if offset is None and exposure is None:
        return read_only(np.empty(0))
    given = "offset" if offset is not None else "exposure"
    if loss.vector:
        raise InputError(
            f"{given} needs a loss of one margin, and {loss!r} has several: leave it out"
        )
    total = np.zeros(n)
    if offset is not None:
        total += check_column("offset", offset, n)
    if exposure is not None:
        total += log_of_exposure(exposure, n, loss)
    return read_only(total if total.any() else total[:0])


def log_of_exposure(exposure: object, n: int, loss: Loss) -> Array:
    """log(exposure_i); refused if the mean of the loss is not the exponential of the margin."""
    if not loss.log_link:
        raise InputError(
            f"exposure needs a loss whose mean is exp(margin), such as Poisson(), and {loss!r} is none: give its effect on "
            "the margin as offset"
        )
    times = check_column("exposure", exposure, n)
    if not times.min(initial=1.0) > 0.0:
        at = int(np.argmin(times))
        raise InputError(
            f"exposure must be positive, got {times[at]:g} in row {at}: leave out rows without exposure"
        )
    return np.log(times)
