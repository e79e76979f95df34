"""State at the clients: h_m and the history of the acceleration stay where they are made.

    z_m = Σ_j α_j T_m(z_j) by the α that came with x,    h_m = (x - z_m)/τ_m,
    the client's passes lead to x̂_m,    T_m(z) = x̂_m - τ_m h_m,    and r_m = T_m(z) - z_m is sent.

Where the server shortens the step to a part of it, z_m ← x - (τ⁺/τ)(x - z_m) keeps h_m. Of the residuals' changes only products among themselves leave, as sums for the server's small matrix.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reshuffle.engines import Plain, Task
from reshuffle.errors import InputError, LostState
from reshuffle.federated.extrapolation import Choice
from reshuffle.federated.transport import transport_of
from reshuffle.npz_archive import read_archive, write_archive
from reshuffle.objective import Array

Passes = Callable[[Array, Array | None], Array]
"""(x, h) -> x̂: the client's local epoch."""
KIND = ("state of a client", 1)
"""The kind and version that the file of a client's state names."""


class ClientState(NamedTuple):
    """The memory of a client between rounds."""

    key: str
    """The key of the run."""
    round: int
    """The number of the round that it was saved after, plus one."""
    digest: str
    """The digest of the x that it was made from."""
    images: Array
    residuals: Array


class ClientStates:
    """The states of a host's clients; in a folder, too, where one is given: a new process goes on from there."""

    def __init__(self) -> None:
        self._states: dict[int, ClientState] = {}

    def load(self, client: int, folder: str | os.PathLike[str] | None) -> ClientState | None:
        if client not in self._states and folder is not None and _file(folder, client).exists():
            self._states[client] = _read(_file(folder, client), client)
        return self._states.get(client)

    def save(self, client: int, state: ClientState, folder: str | os.PathLike[str] | None) -> None:
        if folder is not None:
            about = {
                "client": client,
                "key": state.key,
                "round": state.round,
                "digest": state.digest,
            }
            arrays = {"images": state.images, "residuals": state.residuals}
            write_archive(_file(folder, client), *KIND, about, arrays)
        self._states[client] = state


def answer(
    client: int,
    task: Task,
    passes: Passes,
    memory: ClientStates,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[Array, dict[str, Plain]]:
    """The residual of a client's round, and the products that go with it.

    Asked again for a round that it has done, a client says the same again.
    """
    key, own = str(task.more["key"]), task.own[client]
    since, tau = int(own["since"]), task.step * float(own["total"])
    state = memory.load(client, folder)
    again = state is not None and (state.key, state.round, state.digest) == (
        key, task.round + 1, task.digest,
    )  # fmt: skip
    if not again:
        state = _round(task, key, _checked(state, key, since, task), tau, passes)
        memory.save(client, state, folder)
    if state is None:
        raise InputError("it has no state")
    transport, residual = transport_of(task.more.get("transport")), state.residuals[-1]
    if transport is None:
        return residual, _products(state.residuals)
    return np.empty(0), {**transport.pack(residual, task.round), **_products(state.residuals)}


def _checked(state: ClientState | None, key: str, since: int, task: Task) -> ClientState | None:
    """The state that the round begins from; none where it is the client's first."""
    if since == 0:
        return None
    if state is None or state.key != key:
        raise LostState(f"it has lost its state: it was last in round {since - 1} of this run")
    if state.round != since:
        raise LostState(
            f"its state is that after round {state.round - 1}, and round {task.round} goes on from "
            f"that after round {since - 1}"
        )
    if state.images.shape[1:] != task.x.shape:
        raise LostState(
            f"its state is of models of shape {state.images.shape[1:]}, not {task.x.shape}"
        )
    return state


def _round(
    task: Task, key: str, state: ClientState | None, tau: float, passes: Passes
) -> ClientState:
    x: Array = task.x
    images, residuals = np.empty((0, *x.shape)), np.empty((0, *x.shape))
    z, h = x, None
    if state is not None:
        more: Any = task.more
        kept = slice(int(more["start"]), int(more["stop"]))
        base, ratio = int(more["base"]), float(more["ratio"])
        z = Choice(base, np.asarray(more["weights"]), kept).point(state.images)
        if more["back"]:  # to where the last round began
            z -= state.residuals[base]
        if ratio != 1.0:  # τ is another, and h_m is to be the same
            z = x - ratio * (x - z)
        h = (x - z) / tau
        images, residuals = state.images[kept], state.residuals[kept]
    image = passes(x, h)
    if h is not None:
        image = image - tau * h
    residual, transport = image - z, transport_of(task.more.get("transport"))
    if transport is not None:  # the client goes on from what the server is told
        packed = transport.pack(residual, task.round)
        residual = transport.unpack(packed, x.shape, task.round)
        image = z + residual
    return ClientState(
        key,
        task.round + 1,
        task.digest,
        np.concatenate([images, image[None]]),
        np.concatenate([residuals, residual[None]]),
    )


def _products(residuals: Array) -> dict[str, Plain]:
    """‖r‖² of the newest, its products with all changes, and those of the newest change with all."""
    flat = residuals.reshape(len(residuals), -1)
    changes = np.diff(flat, axis=0)
    return {
        "square": float(np.einsum("k,k->", flat[-1], flat[-1])),
        "slopes": np.einsum("ik,k->i", changes, flat[-1]),
        "changes": np.einsum("ik,k->i", changes, changes[-1]) if len(changes) else np.empty(0),
    }


def _file(folder: str | os.PathLike[str], client: int) -> Path:
    return Path(folder) / f"client-{client}.npz"


def _read(path: Path, client: int) -> ClientState:
    """The state in a file, which must be this client's own: nothing else in it tells whose it is."""
    try:
        with read_archive(path, *KIND) as stored:
            about, arrays = stored.about, stored.arrays()
            images, residuals = arrays["images"], arrays["residuals"]
            kept = ClientState(
                str(about["key"]), int(about["round"]), str(about["digest"]), images, residuals
            )
            owner = int(about["client"])
    except (InputError, OSError) as error:
        raise LostState(f"its state in {path} is damaged: {error}") from None
    if owner != client:
        raise LostState(f"the state in {path} belongs to client {owner}")
    good = images.shape == residuals.shape and images.ndim > 1 and len(images) > 0
    if not good or not all(a.dtype == np.float64 and np.isfinite(a).all() for a in arrays.values()):
        raise LostState(f"its state in {path} is damaged: it holds other arrays than a state has")
    return kept
