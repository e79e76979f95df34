"""The clients' side of ExactFedRR with state at the clients: h_m and the history of the acceleration never leave the client.

    z_m = Σ_j α_j T_m(z_j) by the α that came with x,    h_m = (x - z_m)/τ_m,
    the client's passes lead to x̂_m,    T_m(z) = x̂_m - τ_m h_m,    and r_m = T_m(z) - z_m is sent.

If the server shortens the step, z_m ← x - (τ⁺/τ)(x - z_m) keeps h_m. Only products of the residuals' changes with each other leave the
client, as sums for the small matrix of the server.

Where a client has a folder, its state is saved there between rounds: one file per run, so that one run does not overwrite
the state of another, for the last ``KEPT`` runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reshuffle.digests import digest
from reshuffle.engines import Plain, Task
from reshuffle.errors import InputError, LostState
from reshuffle.federated.extrapolation import Choice
from reshuffle.federated.transport import Transport, transport_of
from reshuffle.npz_archive import read_archive, write_archive
from reshuffle.objective import Array

Folder = str | os.PathLike[str]
KIND = ("state of a client", 1)
"""The kind and version that the file of a client's state names."""
KEPT = 8
"""Runs whose states a folder keeps for a client. A state has some twenty vectors of the model's length, so that eight of
them are small beside most data; and a site seldom has more interrupted runs that are to be resumed."""
Passes = Callable[[Array, Array | None], Array]
"""(x, h) -> x̂: the client's local epoch."""


class ClientState(NamedTuple):
    """The memory of a client between rounds."""

    key: str
    """The key of the run."""
    round: int
    """One plus the number of the round after which it was saved."""
    digest: str
    """The digest of the x from which it was made."""
    images: Array
    residuals: Array


class ClientStates:
    """The states of a host's clients. Where a client has a folder they are also saved there, and a new process continues from it."""

    def __init__(self, folders: Mapping[int, Folder | None] | None = None) -> None:
        self.folders = folders or {}
        self._states: dict[int, ClientState] = {}

    def after(
        self, task: Task, client: int, key: str, onward: Callable[[ClientState | None], ClientState]
    ) -> ClientState:
        """The client's state after the task's round of the run of this key, made by ``onward`` from the one before it.

        None stands for no state: the client has not taken part in the run yet. A client that is asked again for a round
        that it has done keeps its state, and gives the same answer again.
        """
        folder, state = self.folders.get(client), self._states.get(client)
        if state is None or state.key != key:
            state = None if folder is None else read_state(folder, client, key)
        if state is None or (state.round, state.digest) != (task.round + 1, task.digest):
            state = onward(state)
            if folder is not None:
                write_state(folder, client, state)
            self._states[client] = state
        return state

    def __getstate__(self) -> dict[str, object]:
        return {"folders": self.folders, "_states": {}}  # A host travels without them.


def answer(
    client: int, task: Task, passes: Passes, memory: ClientStates
) -> tuple[Array, dict[str, Plain]]:
    """The residual of a client's round, and its products with the changes of residuals."""
    key, own = str(task.more["key"]), task.own[client]
    since, tau = int(own["since"]), task.step * float(own["total"])

    def onward(state: ClientState | None) -> ClientState:
        return _round(task, key, _checked(state, since, task), tau, passes)

    residuals, transport = memory.after(task, client, key, onward).residuals, _transport(task)
    if transport is None:
        return residuals[-1], _products(residuals)
    return np.empty(0), {**transport.pack(residuals[-1], task.round), **_products(residuals)}


def _transport(task: Task) -> Transport | None:
    """The form in which the server asks for residuals; None if they travel unchanged."""
    return transport_of(task.more["transport"]) if "transport" in task.more else None


def _checked(state: ClientState | None, since: int, task: Task) -> ClientState | None:
    """The state from which the round begins; None in the client's first round."""
    if since == 0:
        return None
    if state is None:
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
        more = task.more
        kept = slice(int(more["start"]), int(more["stop"]))
        base, ratio = int(more["base"]), float(more["ratio"])
        z = Choice(base, np.asarray(more["weights"]), kept).point(state.images)
        if more["back"]:  # The client returns to the start of the last round.
            z -= state.residuals[base]
        if ratio != 1.0:  # τ has changed, and h_m must stay the same.
            z = x - ratio * (x - z)
        h = (x - z) / tau
        images, residuals = state.images[kept], state.residuals[kept]
    image = passes(x, h)
    if h is not None:
        image = image - tau * h
    residual, transport = image - z, _transport(task)
    if transport is not None:  # The client continues from the residual that the server is told.
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
    """‖r‖² of the newest residual, its products with all changes, and the products of the newest change with all changes."""
    flat = residuals.reshape(len(residuals), -1)
    changes = np.diff(flat, axis=0)
    return {
        "square": float(np.einsum("k,k->", flat[-1], flat[-1])),
        "slopes": np.einsum("ik,k->i", changes, flat[-1]),
        "changes": np.einsum("ik,k->i", changes, changes[-1]) if len(changes) else np.empty(0),
    }


# --- files of states -------------------------------------------------------------------------------


def write_state(folder: Folder, client: int, state: ClientState) -> None:
    """Save a client's state, either completely or not at all."""
    path = state_file(folder, client, state.key)
    about = {
        "client": client, "key": state.key, "round": state.round, "digest": state.digest,
    }  # fmt: skip
    first = not path.exists()
    write_archive(path, *KIND, about, {"images": state.images, "residuals": state.residuals})
    if first:
        _forget(path, client)


def read_state(folder: Folder, client: int, key: str) -> ClientState | None:
    """The state that a client has saved in the run of this key; None if it has saved none."""
    path = state_file(folder, client, key)
    return _read(path, client, key) if path.exists() else None


def state_file(folder: Folder, client: int, key: str) -> Path:
    """The file of a client's state in a run. The key comes from the driver: its digest is a safe part of a name."""
    return Path(folder) / f"client-{client}-{digest(key)[:16]}.npz"


def _forget(newest: Path, client: int) -> None:
    """Remove the files of this client's earlier runs beyond ``KEPT``, the oldest first."""
    written: dict[Path, int] = {}
    for path in newest.parent.glob(f"client-{client}-{'[0-9a-f]' * 16}.npz"):
        with suppress(FileNotFoundError):  # Another process of the site has just removed the file.
            written[path] = path.stat().st_mtime_ns
    written.pop(newest, None)  # It counts as the newest file, whatever the clock says.
    for path in sorted(written, key=lambda path: written[path], reverse=True)[KEPT - 1 :]:
        path.unlink(missing_ok=True)


def _read(path: Path, client: int, key: str) -> ClientState:
    """The state in a file; refused unless the file names this client and this run."""
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
    if kept.key != key:
        raise LostState(f"the state in {path} belongs to another run")
    good = images.shape == residuals.shape and images.ndim > 1 and len(images) > 0
    if not good or not all(a.dtype == np.float64 and np.isfinite(a).all() for a in arrays.values()):
        raise LostState(f"its state in {path} is damaged: it holds other arrays than a state has")
    return kept
