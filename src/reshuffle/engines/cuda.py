from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reshuffle.engines.base import Failure, Host, Reply, Task
from reshuffle.errors import InputError, shown
from reshuffle.gpu import CudaDevice, Device, DeviceExactRounds, DeviceRounds
from reshuffle.gpu.row_kind import NUMBERS


@dataclass(frozen=True)
class Cuda:
    """All clients on the graphics card of this computer: for FedRR, FedSO, LocalSGD and ExactFedRR over very many clients.

    The clients visit the same samples as on every other engine, and the models agree up to rounding. Only the mean of the models
    leaves the card. The same card gives the same bits each time.

    Parameters
    ----------
    number : "float64" or "float32", the numbers that the clients' models are made of on the card. The second is about
        twice as fast, and good for accuracies of about 1e-5.
    """

    number: Literal["float64", "float32"] = "float64"

    def __post_init__(self) -> None:
        if self.number not in NUMBERS:
            raise InputError(f'number must be "float64" or "float32", got {shown(self.number)}')

    def device(self) -> Device:
        """The card; an error is raised if there is no card or no CuPy."""
        return CudaDevice('engine="cuda"')

    def open(
        self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
    ) -> DeviceSession:
        device = self.device()
        host = make_host(range(len(sizes)))
        aboard = getattr(host, "aboard", None)
        if aboard is None:
            raise InputError(
                'engine="cuda" takes a Federation whose clients are all in this process; sites need '
                'engine="threads" or "ray"'
            )
        return DeviceSession(aboard(device, self.number), host.sizes())


class DeviceSession:
    """The rounds of one run on a device."""

    def __init__(self, rounds: DeviceRounds | DeviceExactRounds, sizes: dict[int, int]) -> None:
        self.sizes = sizes
        self._rounds: DeviceRounds | DeviceExactRounds | None = rounds

    def mean(self, task: Task) -> NDArray[np.float64]:
        """(1/M) Σ_m x_m over the clients of the task."""
        if not isinstance(self._rounds, DeviceRounds):
            raise RuntimeError("the session is closed, or has rounds with control variates")
        everyone = len(task.clients) == len(self.sizes)
        chosen = None if everyone else np.array(task.clients, dtype=np.int64)
        return self._rounds.mean(task.x, task.step, task.round, chosen)

    @property
    def exact(self) -> DeviceExactRounds | None:
        """The rounds of ExactFedRR, if the session is for that method."""
        return self._rounds if isinstance(self._rounds, DeviceExactRounds) else None

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        """Raises an error: models of single clients do not leave the card."""
        raise InputError(
            'engine="cuda" gives the mean of the clients\' models and not the models themselves: use '
            'engine="threads" for this method'
        )

    def close(self) -> None:
        self._rounds = None
