"""The audit file of a client: a line for every message in and out, written at the client."""

from __future__ import annotations

import json
import os
import time

from reshuffle.digests import digest
from reshuffle.engines import Failure, Reply, Task
from reshuffle.errors import InputError


def note(
    path: str | os.PathLike[str], task: Task, client: int, answer: Reply | Failure | None = None
) -> None:
    """Add a line of JSON to a file for a message, or for the answer to it: when, which way, what kind, how many bytes, their sha256.

    The digest is of the message's content (``reshuffle.digests.digest``), so that the other side's copy
    can be compared with it.
    """
    if answer is None:
        parts = (task.x, task.controls.get(client), task.more, task.own.get(client, {}))
        size, content = task.nbytes([client]), digest(task.step, *parts)
    elif isinstance(answer, Failure):
        size, content = len(answer.reason.encode()), digest(answer.reason)
    else:
        size, content = answer.nbytes, digest(answer.model, answer.more)
    line = {
        "time": time.time(), "way": "in" if answer is None else "out", "kind": task.kind, "run": task.run,
        "round": task.round, "client": client, "bytes": size, "sha256": content,
    }  # fmt: skip
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"its audit file {path} cannot be written: {reason}") from None
