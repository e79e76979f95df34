"""Arrays of the last rounds in the state of a server: each under a name of its own, so that a state shares them with the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.solvers.method import State


def remembered(state: State, name: str, memory: int) -> list[Array]:
    """What the state has under this name, of at most ``memory`` rounds, newest last."""
    return [held[0] for k in range(memory) for held in [state[_slot(name, k)]] if len(held)]


def slots(name: str, arrays: Sequence[Array], memory: int, shape: tuple[int, ...]) -> State:
    """The same as entries of a state; slots that are free hold an array of length 0."""
    free = np.empty((0, *shape))
    return {_slot(name, k): arrays[k][None] if k < len(arrays) else free for k in range(memory)}


def check_slots(state: State, memory: int, *names: str) -> int:
    """How many rounds a saved state remembers: of all names as many, in the first slots, or it is refused."""
    counts = {name: [len(state[_slot(name, k)]) for k in range(memory)] for name in names}
    first = counts[names[0]]
    if any(found != first or found != [1] * sum(found) + [0] * found.count(0) for found in counts.values()):  # fmt: skip
        told = " and ".join(f"{sum(found)} {name}s" for name, found in counts.items())
        raise InputError(
            f"resume: the saved state has {told}; they must be as many, in the first of {memory} slots"
        )
    return sum(first)


def _slot(name: str, k: int) -> str:
    return f"{name}{k}"
