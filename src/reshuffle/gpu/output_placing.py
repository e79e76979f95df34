"""Puts the samples of a problem with several outputs on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.device import Device
from reshuffle.gpu.inputs import check_device_matrix
from reshuffle.gpu.output_samples import DeviceOutputs
from reshuffle.gpu.placing import samples_on_device
from reshuffle.gpu.row_kind import RowKind
from reshuffle.gpu.samples import Terms
from reshuffle.gpu.source import VECTOR_LOSSES
from reshuffle.losses import Loss, Squared
from reshuffle.losses.native import built_in
from reshuffle.losses.targets import ENCODE
from reshuffle.rows import Rows

LARGEST = 2.0**31
"""Classes are numbers of 32 bits."""


def check_outputs_on_device(loss: Loss) -> str:
    """Check that a loss of several outputs has a kernel; returns its C++ type."""
    name = VECTOR_LOSSES.get(built_in(type(loss)) or "")
    if name is None:
        raise InputError(f"loss {loss!r} has no kernel on the device: leave out device")
    return name


def settings_of_outputs(kind: RowKind, loss: Loss, bias: bool) -> dict[str, str]:
    """The settings of the kernels for these rows."""
    settings = {"LOSS": check_outputs_on_device(loss), "BIAS": "true" if bias else "false"}
    return kind.settings | settings


def outputs_on_device(device: Device, rows: Rows, terms: Terms, outputs: int) -> DeviceOutputs:
    """Samples for passes on the device. Arrays that are already there, in a type that the kernels read, are not copied."""
    loss = terms.loss
    check_outputs_on_device(loss)
    nothing = device.put(np.zeros(len(terms.targets), dtype=np.float32), np.float32)
    own = terms._replace(targets=nothing, offsets=np.empty(0), loss=Squared())
    base = samples_on_device(device, rows, own)
    kind = RowKind.of(base.rows, terms.features)
    kernels = device.compile(settings_of_outputs(kind, loss, terms.bias), "outputs")
    target = np.int32 if loss.targets == "classes" else np.float64
    return DeviceOutputs(base, kernels, device.put(terms.targets, target), loss, (outputs,))


def check_output_targets(device: Device, y: object, n: int, loss: Loss) -> tuple[DeviceArray, int]:
    """Targets on the device as a loss of several outputs takes them, and the number of outputs."""
    if loss.targets == "rows":
        rows = check_device_matrix(device, "y", y)
        if len(rows) != n:
            raise InputError(f"y must have {n} rows, one per row of X, got {len(rows)}")
        return device.put(rows, np.float64), int(rows.shape[1])
    given = device.put(y, None)
    if given.ndim != 1 or len(given) != n:
        raise InputError(
            f"y must have {n} classes, one per row of X, got shape {tuple(given.shape)}"
        )
    if given.dtype.kind not in "fiub" or not bool((given >= 0).all() & (given < LARGEST).all()):
        raise InputError(f"y must hold the classes 0 … K-1 as numbers; {ENCODE}")
    found: Any = given.astype(np.int32)
    count = int(found.max()) + 1
    if count > n or bool((found != given).any()) or not np.bincount(device.get(found)).all():
        raise InputError(f"y must hold the classes 0 … K-1, each at least once; {ENCODE}")
    if count < 2:
        raise InputError("y holds one class only; at least two are needed")
    return found, count
