"""Harrell's C: how often the row that fails first is the one with the higher risk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError
from reshuffle.survival.outcomes import check_events, check_strata, check_times
from reshuffle.validation import as_array, check_finite

Numbers = NDArray[np.int64]


def concordance(time: object, event: object, risk: object, strata: object = None) -> float:
    """(concordant pairs + half of those with equal risks)/comparable pairs.

    A pair is comparable if one row has an event and the other is known to have none until later; at the same time an
    event and a censored row are comparable, but two events are not. A pair is concordant if the row with the event has the higher
    ``risk``. With ``strata`` only pairs of one stratum count. It takes n·(log n)² steps for n rows.

    Examples
    --------
    >>> from reshuffle.survival import concordance
    >>> concordance(time=[1.0, 2.0, 3.0], event=[1, 1, 0], risk=[2.0, 0.5, 1.0])
    0.6666666666666666

    References
    ----------
    Harrell, Califf, Pryor, Lee, Rosati: Evaluating the yield of medical tests, 1982.
    """
    risks = as_array("risk", risk)
    if risks.ndim != 1 or risks.dtype.kind not in "fiub":
        raise InputError(f"risk must be one number per row, got shape {risks.shape}")
    check_finite("risk", risks)
    times, events = check_times("time", time, risks.size), check_events("event", event, risks.size)
    codes = check_strata(strata, risks.size)
    ranks = np.unique(risks, return_inverse=True)[1].astype(np.int64)
    better = equal = pairs = 0
    for code in np.unique(codes):
        own = np.flatnonzero(codes == code)
        order = own[np.lexsort((events[own], -times[own]))]
        when, at = times[order], np.flatnonzero(events[order])
        # The rows before the first event of the same time fail later, or are not known to fail.
        marks = np.flatnonzero(np.append(True, when[at][1:] != when[at][:-1])) if at.size else at
        before = at[np.repeat(marks, np.diff(np.append(marks, at.size)))]
        lower, same = smaller_before(ranks[order], before, ranks[order][at])
        better, equal, pairs = better + lower, equal + same, pairs + int(before.sum())
    if not pairs:
        raise InputError(
            "no two rows can be compared: there must be an event and another row that is known to have no event until later"
        )
    return (better + 0.5 * equal) / pairs


def smaller_before(ranks: Numbers, ends: Numbers, of: Numbers) -> tuple[int, int]:
    """The number of pairs in which one of the first ``ends[i]`` ranks is below ``of[i]``, and the number in which it is equal.

    A beginning of length b consists of blocks, one for each digit 1 of b in base 2: blocks of one length are sorted together.
    """
    lower = same = 0
    top = int(ranks.max(initial=0)) + 1
    padded = np.full(1 << max(int(ranks.size - 1).bit_length(), 0), top, dtype=np.int64)
    padded[: ranks.size] = ranks
    size = 1
    while size <= ranks.size:
        blocks = np.sort(padded.reshape(-1, size), axis=1)
        keys = (blocks + np.arange(blocks.shape[0])[:, None] * (top + 1)).ravel()
        asked = (ends & size) != 0
        block = (ends[asked] >> size.bit_length()) << 1
        wanted = block * (top + 1) + of[asked]
        first = np.searchsorted(keys, wanted, side="left")
        lower += int((first - block * size).sum())
        same += int((np.searchsorted(keys, wanted, side="right") - first).sum())
        size *= 2
    return lower, same
