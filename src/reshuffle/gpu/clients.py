"""The samples of many clients on a device, and what the kernels of a round need besides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.checks import check_first
from reshuffle.gpu.device import Device, Geometry, Launch, geometry, stride_of
from reshuffle.gpu.row_kind import NUMBERS, RowKind, longest_of, rows_on_device, start_of
from reshuffle.gpu.source import LOSSES
from reshuffle.losses import Loss
from reshuffle.losses.native import built_in
from reshuffle.rows import Rows

WARP = 32


class LocalPasses(NamedTuple):
    """Local passes described by numbers, as the kernels read them."""

    order: str
    """ "shuffle": every sample once, in random order; "draw": samples with replacement; "cyclic"."""
    fixed: bool
    """Whether every round has the visits of the first."""
    batch: int
    visits: NDArray[np.int64]
    """The number of visits of each client."""
    averages: Array
    """The factor by which each client multiplies the gradients of a batch."""
    passes: int = 1
    """The number of passes of a round, for work with control variates."""


def check_loss_on_device(loss: Loss) -> str:
    """Check that the loss has a kernel; returns its C++ type and parameters."""
    name = LOSSES.get(built_in(type(loss)) or "")
    if name is None:
        raise InputError(
            f"loss {loss!r} has no kernel on the device: use one of the package's losses of one output, "
            "or another engine"
        )
    return f"{name}{{{','.join(map(repr, loss.params))}}}"


def settings_of_clients(
    device: Device, kind: RowKind, *, longest: int, number: np.dtype[np.generic], bias: bool, ridge: bool, weighted: bool, loss: Loss
) -> tuple[Geometry, dict[str, str]]:  # fmt: skip
    """How clients with rows of at most ``longest`` entries are laid out, and the settings of their kernels."""
    at = geometry(device, longest, stride_of(kind.features + bias, number), number)
    rows = {name: kind.settings[name] for name in ("VALUE", "START", "DENSE")}
    flags = {"WHOLE": at.whole, "IN_SHARED": at.shared, "BIAS": bias, "RIDGE": ridge, "WEIGHTED": weighted}  # fmt: skip
    return at, {
        "REAL": NUMBERS[number.name], **rows, "LANES": str(at.lanes), "HELD": str(at.held), "AHEAD": str(at.ahead),
        **{name: str(int(flag)) for name, flag in flags.items()},
        "THREADS": str(at.threads), "RESIDENT": str(at.resident), "LOSS": check_loss_on_device(loss),
    }  # fmt: skip


class DeviceClients:
    """The samples of very many clients, for rounds of local passes.

    Parameters
    ----------
    device : the device that holds the data and runs the kernels.
    rows : the rows of all clients, one client after the other; arrays that are on the device already are not copied.
    targets, weights : one number for each row; no weights are given if all are 1.
    first : client c has the rows first[c] … first[c+1]-1.
    number : "float64" or "float32", the type of the numbers of the models.
    unit : the kernels of its local passes: "round" for ``DeviceRounds``, "exact" for ``DeviceExactRounds``.
    """

    def __init__(
        self,
        device: Device,
        rows: Rows,
        targets: DeviceArray,
        weights: DeviceArray,
        loss: Loss,
        first: NDArray[np.int64],
        features: int,
        *,
        bias: bool = False,
        ridge: float = 0.0,
        number: str = "float64",
        unit: str = "round",
    ) -> None:
        check_loss_on_device(loss)
        self.device, self.features, self.bias, self.ridge = device, features, bias, ridge
        self.first = first
        self.clients, self.width = len(first) - 1, features + bias
        n = len(targets)
        check_first(first, n)
        if number not in NUMBERS:
            raise InputError(f'number must be "float64" or "float32", got {number!r}')
        if len(weights) not in (0, n):
            raise InputError(
                f"weights must be {n} numbers, one for each row, or none, got {len(weights)}"
            )
        if rows.dense and rows.values.shape != (n, features):
            raise InputError(f"rows must have shape {(n, features)}, got {rows.values.shape}")
        self.number = np.dtype(number)
        value = np.dtype(np.float32 if rows.values.dtype == np.float32 else np.float64)
        # A lane that has no entry reads the first entry of all rows instead.
        if not rows.dense and not rows.stored:
            one = np.zeros(1, dtype=np.uint32)
            rows = rows._replace(
                values=rows.values if rows.unit else one.astype(value), indices=one
            )
        self.rows = rows_on_device(device, rows, n, features, value, np.dtype(np.uint32))
        kind = RowKind.of(self.rows, features)._replace(start=start_of(rows))
        self.samples = (
            *self.rows,
            device.put(targets, self.number),
            device.put(weights, self.number) if len(weights) else None,
        )
        """Rows, targets and weights, as the kernels take them."""
        self.first_on_device = device.put(first, np.int64)
        self.stride = stride_of(self.width, self.number)
        self.layout, settings = settings_of_clients(
            device, kind, longest=features if kind.dense else longest_of(self.rows[2]), number=self.number,
            bias=bias, ridge=ridge > 0.0, weighted=len(weights) > 0, loss=loss,
        )  # fmt: skip
        self.kernels = device.compile(settings, unit)
        self.unit = unit
        self.out = device.room(self.width, np.float64)
        self._room: dict[str, DeviceArray] = {}

    def add_blocks(self, sums: object, blocks: int) -> DeviceArray:
        """Start the sum of the blocks' sums; returns the array on the device that will hold it."""
        self.kernels.run(
            "sum_of_blocks", Launch(-(-self.width // WARP), min(WARP, max(self.device.lanes))),
            sums, np.int64(blocks), np.int32(self.width), self.out,
        )  # fmt: skip
        return self.out

    def room_for(self, count: int) -> tuple[Launch, DeviceArray | None, DeviceArray]:
        """The launch for ``count`` clients, memory for models that do not fit into shared memory, and memory for the blocks' sums."""
        at, device = self.layout, self.device
        blocks = max(1, min(device.processors * at.resident, -(-count // at.groups)))
        size = blocks * at.groups * self.stride
        models = None if at.shared else self.kept_room("models", size, self.number)
        launch = Launch(blocks, at.threads, at.memory)
        return launch, models, self.kept_room("sums", blocks * self.stride, self.number)

    def kept_room(self, name: str, size: int, dtype: object) -> DeviceArray:
        """An array on the device that is kept for the next round."""
        if name not in self._room or self._room[name].size < size:
            self._room[name] = self.device.room(size, dtype)
        return self._room[name]
