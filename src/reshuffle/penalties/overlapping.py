"""Index lists that may overlap, and the compiled passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.errors import InputError, shown

GroupLists = Sequence[Sequence[int]] | Sequence[NDArray[np.int64]]


class Members(NamedTuple):
    """Index lists end to end, smallest group first; ``order`` says which group is where."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]
    order: NDArray[np.int64]


def members_of(groups: object) -> Members:
    """The lists as the kernel reads them."""
    lists = check_lists(groups)
    order = np.argsort([g.size for g in lists], kind="stable")
    lists = [lists[g] for g in order]
    starts = np.concatenate([[0], np.cumsum([g.size for g in lists])])
    return Members(np.concatenate(lists), starts, order)


def check_lists(groups: object) -> list[NDArray[np.int64]]:
    """Lists of different, non-negative integers, none of them empty."""
    if not isinstance(groups, (Sequence, np.ndarray)) or isinstance(groups, str) or not len(groups):
        raise InputError(f"groups must be index lists, at least one, got {shown(groups)}")
    lists = []
    for number, group in enumerate(groups):
        members = np.asarray(group)
        if members.ndim != 1 or (members.size and members.dtype.kind not in "iu"):
            raise InputError(f"groups must be lists of integers, group {number} is {shown(group)}")
        if not members.size:
            raise InputError(f"groups must not be empty, group {number} is")
        if members.min() < 0 or np.unique(members).size != members.size:
            raise InputError(
                f"groups must name each coordinate once, from 0 on, group {number} is {shown(group)}"
            )
        lists.append(members.astype(np.int64))
    return lists
