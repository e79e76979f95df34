"""Tasks and answers as the content of Flower's messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.engines.base import Failure, Plain, Reply, Task
from reshuffle.engines.flower.records import add_record, get_record, size_of
from reshuffle.errors import InputError

LONGEST = 1000
"""Characters of a site's error that are believed and shown, in one line."""
WHO = "who"
"""The kind of the message that asks a node which site it is."""
EMPTY = np.empty(0)


def task_content(task: Task, client: int) -> Any:
    """What a task says to one client."""
    from flwr.app import RecordDict

    content = RecordDict()
    head: dict[str, Plain] = {
        "kind": task.kind, "run": task.run, "round": task.round, "step": task.step,
        "digest": task.digest, "client": client, "x": task.x,
    }  # fmt: skip
    if client in task.controls:
        head["control"] = task.controls[client]
    add_record(content, "task", head)
    add_record(content, "more", task.more)
    add_record(content, "own", task.own.get(client, {}))
    return content


def task_of(content: Any) -> Task:
    """The task of a message, for its one client."""
    head: Any = get_record(content, "task")
    client = int(head["client"])
    own = get_record(content, "own")
    return Task(
        str(head["run"]), int(head["round"]), float(head["step"]), head["x"], str(head["digest"]),
        (client,), {client: head["control"]} if "control" in head else {}, kind=str(head["kind"]),
        more=get_record(content, "more"), own={client: own} if own else {},
    )  # fmt: skip


def answer_content(answer: Reply | Failure) -> Any:
    """What a client answers; of an error no more than ``LONGEST`` characters."""
    from flwr.app import RecordDict

    content = RecordDict()
    if isinstance(answer, Failure):
        add_record(content, "failure", {
            "client": answer.client, "reason": shortened(answer.reason),
            "diverged": answer.diverged, "lost": answer.lost,
        })  # fmt: skip
        return content
    head: dict[str, Plain] = {
        "run": answer.run, "round": answer.round, "client": answer.client, "digest": answer.digest,
        "model": answer.model,
    }  # fmt: skip
    if answer.check is not None:
        head["check"] = answer.check
    add_record(content, "reply", head)
    add_record(content, "more", answer.more)
    return content


def answer_of(content: Any, client: int, largest: int) -> Reply | Failure:
    """The answer of a message, which must be that of the client who was asked, and of a size to be expected."""
    size = size_of(content)
    if size > largest:
        return Failure(client, f"its answer has {size:,} bytes, and at most {largest:,} are taken")
    try:
        failure: Any = get_record(content, "failure")
        head: Any = failure or get_record(content, "reply")
        if not head:
            raise InputError("it holds neither a reply nor a failure")
        if head["client"] != client:
            raise InputError(f"it is in the name of client {head['client']}")
        if failure:
            reason = shortened(str(head["reason"]))
            return Failure(client, reason, bool(head["diverged"]), bool(head["lost"]))
        more = get_record(content, "more")
        return Reply(
            head["run"],
            head["round"],
            client,
            head["digest"],
            head["model"],
            head.get("check"),
            more,
        )
    except (InputError, KeyError) as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return Failure(client, shortened(f"its answer is refused: {told}"))


def shortened(reason: str) -> str:
    """One line of an error text that came from elsewhere."""
    line = " ".join("".join(c if c.isprintable() else " " for c in reason).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
