"""The clients of a federation on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.errors import InputError
from reshuffle.federated.local import ClientGroup, Local
from reshuffle.gpu import Device, DeviceClients, DeviceRounds


def rounds_aboard(
    local: Local, group: ClientGroup, positions: Sequence[int], device: Device, number: str
) -> DeviceRounds:
    """Copy the clients' samples to the device and set up the local work there; work without kernels is refused."""
    passes = local.device_passes(group)
    if passes is None:
        raise InputError(
            'engine="cuda" does the local work of FedRR (without importance; orders Reshuffle, ShuffleOnce and '
            f'Cyclic) and LocalSGD, not {type(local).__name__} as it is set: use engine="threads"'
        )
    fits = [problem.datafit for problem in group.problems]
    known = [fit for fit in fits if fit is not None and not fit.on_disk]
    if len(known) < len(fits):
        raise InputError(
            'engine="cuda" takes clients that are rs.Problem with rows in memory; use engine="threads" for others'
        )
    if any(fit.offsets.size for fit in known):
        raise InputError('engine="cuda" has no kernels for offsets: use engine="threads"')
    together = Datafit.join(known)
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
        ridge=group.problems[0].ridge,
        number=number,
    )
    return DeviceRounds(clients, passes, local.seed, np.array(positions, dtype=np.int64))
