"""Converts a parameter to the matrix or vector that a penalty takes."""

from __future__ import annotations

import torch

from reshuffle.arrays import Array
from reshuffle.errors import InputError, shown


def channels(parameter: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """The matrix with a row for each channel: W of shape (c, …) becomes c × (…), a view where the layout allows it.

    A number becomes a vector of length one; a vector is unchanged.

    Parameters
    ----------
    parameter : the weight of a layer.
    axis : the axis of the channels. The weights of ``Linear`` and ``Conv2d`` have the outputs at axis 0 and the inputs at
        axis 1; those of ``ConvTranspose2d`` have them the other way round.
    """
    check_axis(axis, parameter.ndim)
    if parameter.ndim < 2:
        return parameter.reshape(-1)
    rows = parameter.movedim(axis, 0)
    return rows if rows.ndim == 2 else rows.reshape(rows.shape[0], -1)


def check_axis(axis: object, axes: int) -> None:
    """Check that an axis is valid for a parameter with ``axes`` axes; a vector and a number have only axis 0."""
    last = max(axes, 1) - 1
    if not isinstance(axis, int) or isinstance(axis, bool) or not 0 <= axis <= last:
        raise InputError(
            f"axis must be an integer from 0 to {last} for a parameter with {axes} axes, got {shown(axis)}"
        )


def as_numbers(parameter: torch.Tensor, axis: int) -> Array:
    """The channels as a float64 numpy array: a view if the parameter has this type, otherwise a copy."""
    rows = channels(parameter.detach(), axis).to("cpu", torch.float64)
    found: Array = rows.contiguous().numpy()
    return found


@torch.no_grad()
def write(parameter: torch.Tensor, axis: int, numbers: Array) -> None:
    """Copy numbers that are laid out by ``channels`` back into the parameter."""
    values = torch.from_numpy(numbers)
    if parameter.ndim >= 2:
        shape = parameter.movedim(axis, 0).shape
        values = values.reshape(shape).movedim(0, axis)
    parameter.copy_(values.reshape(parameter.shape))
