"""The audit file of a client: a line for every message in and out, written at the client."""

from __future__ import annotations

import json
import os
import time

from reshuffle.digests import digest
from reshuffle.engines import Failure, Reply, Task
from reshuffle.errors import InputError


class Audit:
    """Adds a line of JSON to a file: when, which way, what kind, how many bytes, their sha256.

    The digest is of the message's content (``reshuffle.digests.digest``), so that the other side's copy
    can be compared with it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def came(self, task: Task, client: int) -> None:
        parts = (task.x, task.controls.get(client), task.more, task.own.get(client, {}))
        self._note("in", task, client, task.nbytes([client]), digest(task.step, *parts))

    def left(self, task: Task, answer: Reply | Failure) -> None:
        if isinstance(answer, Failure):
            size, content = len(answer.reason.encode()), digest(answer.reason)
        else:
            size, content = answer.nbytes, digest(answer.model, answer.more)
        self._note("out", task, answer.client, size, content)

    def _note(self, way: str, task: Task, client: int, size: int, content: str) -> None:
        line = {
            "time": time.time(), "way": way, "kind": task.kind, "run": task.run, "round": task.round,
            "client": client, "bytes": size, "sha256": content,
        }  # fmt: skip
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"its audit file {self.path} cannot be written: {reason}") from None
