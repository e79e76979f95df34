"""Converts tasks and answers to the content of Flower's messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshuffle.engines.base import Failure, Plain, Reply, Task
from reshuffle.engines.flower.fields import FAILURE, HEAD, check_answer, check_fields
from reshuffle.engines.flower.records import add_record, get_record, size_of
from reshuffle.engines.number_bytes import read, written
from reshuffle.errors import InputError

if TYPE_CHECKING:
    from flwr.app import RecordDict

LONGEST = 1000
"""Characters of a site's error that are believed and shown, in one line."""
WHO = "who"
"""The kind of the message that asks a node which site it is."""


def task_content(task: Task, client: int) -> RecordDict:
    """The content of a task for one client."""
    from flwr.app import RecordDict

    content = RecordDict()
    head: dict[str, Plain] = {
        "kind": task.kind, "run": task.run, "round": task.round, "step": task.step,
        "digest": task.digest, "client": client, "x": written(task.x, task.width),
    }  # fmt: skip
    if client in task.controls:
        head["control"] = task.controls[client]
    add_record(content, "task", head)
    add_record(content, "more", task.more)
    add_record(content, "own", task.own.get(client, {}))
    return content


def task_of(content: RecordDict) -> Task:
    """The task of a message, for its one client."""
    head: Any = get_record(content, "task")
    client = int(head["client"])
    own = get_record(content, "own")
    return Task(
        str(head["run"]), int(head["round"]), float(head["step"]), read(head["x"]), str(head["digest"]),
        (client,), {client: head["control"]} if "control" in head else {}, kind=str(head["kind"]),
        more=get_record(content, "more"), own={client: own} if own else {},
    )  # fmt: skip


def answer_content(answer: Reply | Failure) -> RecordDict:
    """The content of a client's answer; an error is cut to ``LONGEST`` characters."""
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


def answer_of(content: RecordDict, client: int, largest: int, task: Task) -> Reply | Failure:
    """The answer of a message to a task, refused unless it is in the name of the client that was asked, of a size to be
    expected, and has the parts that the task asks for."""
    size = size_of(content)
    if size > largest:
        return Failure(client, f"its answer has {size:,} bytes, and at most {largest:,} are taken")
    try:
        failure = get_record(content, "failure")
        head: Any = failure or get_record(content, "reply")
        if not head:
            raise InputError("it holds neither a reply nor a failure")
        if type(head.get("client")) is not int:
            raise InputError("it does not say from which client it is")
        if head["client"] != client:
            raise InputError(f"it is in the name of client {head['client']}")
        check_fields(head, FAILURE if failure else HEAD)
        if failure:
            reason = shortened(head["reason"])
            return Failure(client, reason, bool(head["diverged"]), bool(head["lost"]))
        check, more = head.get("check"), get_record(content, "more")
        if check is not None and type(check) is not int:
            raise InputError("'check' must be an integer")
        reply = Reply(
            head["run"], head["round"], client, head["digest"], head["model"], check, more
        )
        if (reply.run, reply.round, reply.digest) == (task.run, task.round, task.digest):
            check_answer(task, more)  # The driver refuses a reply to another task.
        return reply
    except InputError as error:
        return Failure(client, shortened(f"its answer is refused: {error}"))


def shortened(reason: str) -> str:
    """One line of an error text that came from elsewhere."""
    line = " ".join("".join(c if c.isprintable() else " " for c in reason).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
