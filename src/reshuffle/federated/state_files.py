"""Saves the clients' states between rounds, in one file per run, so that one run does not overwrite the state of another.

A folder keeps the states of the last ``KEPT`` runs of a client; when one more begins, the oldest file is removed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reshuffle.digests import digest
from reshuffle.errors import InputError, LostState
from reshuffle.npz_archive import read_archive, write_archive
from reshuffle.objective import Array

Folder = str | os.PathLike[str]
KIND = ("state of a client", 1)
"""The kind and version that the file of a client's state names."""
KEPT = 8
"""Runs whose states a folder keeps for a client. A state has some twenty vectors of the model's length, so that eight of
them are small beside most data; and a site seldom has more interrupted runs that are to be resumed."""


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
