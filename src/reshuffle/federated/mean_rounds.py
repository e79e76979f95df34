"""Rounds of engines that return the mean of the clients' models instead of the models."""

from __future__ import annotations

from collections.abc import Callable

from reshuffle.engines import Session, Task
from reshuffle.errors import InputError
from reshuffle.federated.downlink import Downlink
from reshuffle.federated.replies import Policy
from reshuffle.federated.server import Averaging, Server
from reshuffle.solvers.method import State

MeanOfRound = Callable[[Task], State]
"""A task ↦ the state after its round."""


def mean_of_round(
    session: Session, server: Server, policy: Policy, engine: str, downlink: Downlink
) -> MeanOfRound | None:
    """The server's step from the mean, if the session has ``mean``; it is refused if the server or the policy needs more."""
    mean = getattr(session, "mean", None)
    if mean is None:
        return None
    wrong = ""
    plain = isinstance(server, Averaging) and type(server).step is Averaging.step
    if not plain:
        wrong = (
            f"engine {engine} gives the mean of the clients' models, and {type(server).__name__} needs each of "
            'them: use engine="threads"'
        )
    if downlink != "float64" or server.reply_shape((1,)) != (1,):
        wrong = f'transport and downlink must be "float64" with engine {engine}: nothing is sent'
    if policy.timeout is not None:
        wrong = f"round_timeout must be None with engine {engine}, which cannot stop a round"
    if wrong or not isinstance(server, Averaging):
        session.close()
        raise InputError(wrong)
    of_mean = server.of_mean
    return lambda task: of_mean(mean(task), task.clients, task.step)
