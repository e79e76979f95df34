"""Rounds on a device: it returns the mean of the models, or sums of residuals, but no single model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.engines import Session
from reshuffle.errors import InputError
from reshuffle.federated.local import ClientGroup, Corrected, Local
from reshuffle.federated.replies import Policy
from reshuffle.federated.server import Server
from reshuffle.gpu import Device, DeviceClients, DeviceExactRounds, DeviceRounds


def is_on_device(
    session: Session, server: Server, policy: Policy, engine: str, rounds_x: bool
) -> bool:
    """Whether the session has its clients on a device; an error if the server or the policy needs single models."""
    if getattr(session, "mean", None) is None:
        return False
    wrong = ""
    if server.device != ("mean" if getattr(session, "exact", None) is None else "exact"):
        wrong = (
            f"engine {engine} gives the mean of the clients' models, and {type(server).__name__} needs each of "
            'them: use engine="threads"'
        )
    if rounds_x or server.transport is not None:
        wrong = f'transport and downlink must be "float64" with engine {engine}: nothing is sent'
    if policy.timeout is not None:
        wrong = f"round_timeout must be None with engine {engine}, which cannot stop a round"
    if wrong:
        session.close()
        raise InputError(wrong)
    return True


def rounds_aboard(
    local: Local, group: ClientGroup, device: Device, number: str
) -> DeviceRounds | DeviceExactRounds:
    """Copy the clients' samples to the device and set up the local work there; refuse work that has no kernels."""
    passes = local.device_passes(group)
    if passes is None:
        raise InputError(
            'engine="cuda" does the local work of FedRR (without importance), LocalSGD and ExactFedRR, with the orders Reshuffle, '
            f'ShuffleOnce and Cyclic, but not {type(local).__name__} with these settings: use engine="threads"'
        )
    exact = isinstance(local, Corrected)
    fits = [local.device_fit(problem) for problem in group.problems]
    known = [fit for fit in fits if fit is not None and not fit.on_disk]
    if len(known) < len(fits):
        raise InputError(
            'engine="cuda" takes clients that are rs.Problem with rows in memory; use engine="threads" for others'
        )
    if any(fit.offsets.size for fit in known):
        raise InputError('engine="cuda" has no kernels for offsets: use engine="threads"')
    together = Datafit.join(_weighted(known))
    first = np.concatenate([[0], np.cumsum([fit.n for fit in known])]).astype(np.int64)
    clients = DeviceClients(
        device,
        together.quick,
        together.targets,
        together.weights,
        together.loss,
        first,
        together.features,
        bias=together.bias,
        ridge=0.0 if exact else group.problems[0].ridge,
        number=number,
        unit="exact" if exact else "round",
    )
    begins = np.array(group.positions, dtype=np.int64)
    if exact:
        return DeviceExactRounds(clients, passes, local.seed, begins, products=True)
    return DeviceRounds(clients, passes, local.seed, begins)


def _weighted(fits: Sequence[Datafit]) -> Sequence[Datafit]:
    """The same samples; if some have weights, all are given weights. Importance copies are made for single clients."""
    if len({bool(fit.weights.size) for fit in fits}) == 1:
        return fits
    return [
        fit
        if fit.weights.size
        else fit.on_samples(fit.rows, fit.targets, np.ones(fit.n), fit.offsets)
        for fit in fits
    ]
