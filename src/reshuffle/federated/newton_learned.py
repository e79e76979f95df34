"""Compresses Hessians at the clients: each sends only changes of its derivatives (FedNL, Safaryan et al. 2022).

    client m sends  D_m = C(∇²f_m(x) - H_m)  and makes  H_m ← H_m + D_m,    the server makes  H ← H + Σ_m D_m

H_m is the server's knowledge of client m, although the server holds only the sum; the gradient is learned in the same way, in float32. The differences vanish as
x converges, so that few digits or coordinates are enough, and the limit is that of exact derivatives. The first message of a client has all
coordinates. The derivatives of a trial point that the server does not take are forgotten on both sides, since they may be larger by many powers of ten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reshuffle.engines import Plain, Task
from reshuffle.errors import LostState
from reshuffle.federated.client_state import ClientState, ClientStates
from reshuffle.federated.curvature import HEAD, Curved, active_of
from reshuffle.federated.transport import Digits, Transport, transport_of
from reshuffle.objective import Array

VALUES, SLOPES, WHOLE = "values", "slope", "whole"
"""The names of the parts of a reply besides the packed Hessian: its first numbers, the change of the gradient, and whether it has all coordinates."""
LARGEST = 1e38
"""Larger derivatives, beyond the range of float32, are not learned: they belong to a point that will be rejected."""


def carried(
    local: Curved, known: Array, before: NDArray[np.bool_], now: NDArray[np.bool_]
) -> Array:
    """Gradient and triangle of the Hessian for another set of active features, with zeros for what was not known."""
    size = local.size
    old, new = local.coordinates(before), local.coordinates(now)
    if np.array_equal(old, new):
        return known
    _, here, there = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    was, becomes = np.zeros((old.size, old.size)), np.zeros((new.size, new.size))
    at = np.tril_indices(old.size)
    was[at] = was.T[at] = known[size:]
    becomes[np.ix_(there, there)] = was[np.ix_(here, here)]
    return np.concatenate([known[:size], becomes[np.tril_indices(new.size)]])


def learned(
    client: int,
    task: Task,
    local: Curved,
    numbers: Callable[[], Array],
    memory: ClientStates,
) -> dict[str, Plain]:
    """The answer of a client: the changes of its derivatives."""
    key, since = str(task.more["learns"]), int(task.more["since"])

    def onward(state: ClientState | None) -> ClientState:
        return _next(task, key, since, local, numbers(), state)

    state = memory.after(task, client, key, onward)
    skipped, size = local.features, local.size
    head = state.images[-1, skipped : skipped + HEAD]
    change = state.residuals[-1, skipped + HEAD :]
    transport = _transport(task.more["transport"], since == 0)
    return {
        VALUES: head,
        SLOPES: change[:size].astype(np.float32),
        WHOLE: int(since == 0),
        **transport.pack(change[size:], task.round),
    }


def _transport(name: Plain, whole: bool) -> Transport:
    found = transport_of(name)
    if found is None:
        raise LostState("it was asked to learn derivatives that are not compressed")
    return Digits(found.digits) if whole else found


def _next(
    task: Task, key: str, since: int, local: Curved, numbers: Array, state: ClientState | None
) -> ClientState:
    """The state after this round: what was known before it, and after it. ``numbers`` is the whole answer."""
    now, size = active_of(task.x, local.features), local.size
    target = numbers[HEAD:]
    if since == 0:
        known = np.zeros(target.size)
    elif state is None or state.round != since:
        raise LostState(f"it has lost what the server knew of it after round {since - 1}")
    else:
        row = state.images[int(task.more["keeps"])]
        known = carried(local, row[local.features + HEAD :], row[: local.features] != 0.0, now)
    change = target - known
    if not np.all(np.abs(change) < LARGEST):
        change = np.zeros(target.size)
    transport = _transport(task.more["transport"], since == 0)
    packed = transport.pack(change[size:], task.round)
    told = np.concatenate([
        change[:size].astype(np.float32), transport.unpack(packed, (target.size - size,), task.round),
    ])  # fmt: skip
    head = np.concatenate([now, numbers[:HEAD]])
    images = np.array([np.append(head, known), np.append(head, known + told)])
    residuals = np.array([np.zeros(images.shape[1]), np.append(np.zeros(head.size), told)])
    return ClientState(key, task.round + 1, task.digest, images, residuals)
