"""Rounds on engines whose clients are on a device: they return the mean of the models, or sums of residuals, but no single model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reshuffle.engines import Session, Task
from reshuffle.errors import InputError
from reshuffle.federated.device_server import DeviceServer
from reshuffle.federated.downlink import Downlink
from reshuffle.federated.replies import Policy
from reshuffle.federated.scales import Rescaling
from reshuffle.federated.server import Averaging, Server
from reshuffle.gpu import DeviceExactRounds
from reshuffle.solvers.method import State

RoundOnDevice = Callable[[State, Task], State]
"""(state, task) ↦ the state after the task's round."""


def round_on_device(
    session: Session, server: Server, policy: Policy, engine: str, downlink: Downlink
) -> RoundOnDevice | None:
    """The server's step, if the session has its clients on a device; an error if the server or the policy needs single models."""
    mean: Any = getattr(session, "mean", None)
    exact: Any = getattr(session, "exact", None)
    if mean is None:
        return None
    inner = server.server if isinstance(server, Rescaling) else server
    plain = isinstance(server, Averaging) and type(server).step is Averaging.step
    wrong = ""
    if not (isinstance(inner, DeviceServer) if exact is not None else plain):
        wrong = (
            f"engine {engine} gives the mean of the clients' models, and {type(server).__name__} needs each of "
            'them: use engine="threads"'
        )
    if downlink != "float64" or server.transport is not None:
        wrong = f'transport and downlink must be "float64" with engine {engine}: nothing is sent'
    if policy.timeout is not None:
        wrong = f"round_timeout must be None with engine {engine}, which cannot stop a round"
    if wrong:
        session.close()
        raise InputError(wrong)
    if isinstance(server, Averaging):
        of_mean = server.of_mean
        return lambda state, task: of_mean(mean(task), task.clients, task.step)
    if isinstance(server, Rescaling):
        return lambda state, task: server.around(
            state, lambda within: _aboard(inner, within, exact, task)
        )
    return lambda state, task: _aboard(inner, state, exact, task)


def _aboard(server: Server, state: State, rounds: DeviceExactRounds, task: Task) -> State:
    if not isinstance(server, DeviceServer):
        raise TypeError(f"{type(server).__name__} has no rounds on a device")
    return server.aboard(state, rounds, task)
