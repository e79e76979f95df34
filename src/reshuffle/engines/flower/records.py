"""Converts records of this package to records of Flower (one for arrays, one for numbers and strings), and back."""

from __future__ import annotations

from io import BytesIO
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.engines.base import Plain, Record
from reshuffle.errors import InputError

if TYPE_CHECKING:
    from flwr.app import Array as FlowerArray
    from flwr.app import RecordDict

NUMPY = "numpy.ndarray"
"""The serialisation of arrays that Flower itself uses: the bytes of a .npy file."""
HEADER = 512
"""Bytes that a .npy file may have before its numbers begin; numpy writes 128."""

DIMENSIONS = 8
"""The largest number of dimensions of an array; the arrays of this package have at most three."""
LARGEST = 2**48
"""The largest size of one dimension: numpy cannot hold the size of every integer that a header can write."""


def add_record(content: RecordDict, name: str, record: Record) -> None:
    """Put a record into a ``RecordDict``, as ``name`` and ``name.arrays``; an empty record takes no place."""
    from flwr.app import Array, ArrayRecord, ConfigRecord

    arrays = {key: value for key, value in record.items() if isinstance(value, np.ndarray)}
    rest = {key: value for key, value in record.items() if key not in arrays}
    if rest:
        content[name] = ConfigRecord({key: _scalar(key, value) for key, value in rest.items()})
    if arrays:
        content[f"{name}.arrays"] = ArrayRecord(
            {key: Array(np.asarray(value, order="C")) for key, value in arrays.items()}
        )


def get_record(content: Any, name: str) -> dict[str, Plain]:
    """The record of this name in a ``RecordDict``; one of another kind is refused."""
    found: dict[str, Plain] = dict(content.config_records.get(name, {}))
    wrong = [key for key, value in found.items() if type(value) not in (str, int, float)]
    if wrong:
        raise InputError(
            f"{name} must hold numbers and strings, and {wrong[0]!r} is something else"
        )
    arrays = content.array_records.get(f"{name}.arrays", {})
    return found | {key: received(key, array) for key, array in arrays.items()}


def size_of(content: RecordDict) -> int:
    """The bytes of a ``RecordDict``, as Flower counts them."""
    return sum(int(record.count_bytes()) for record in content.values())


def received(name: str, array: FlowerArray) -> AnyArray:
    """The numbers of an array that came over the network, once its header agrees with its length.

    numpy reserves the memory that a header announces before it reads, so the header is checked first.
    """
    data = array.data
    if array.stype != NUMPY:
        raise InputError(f"the array {name!r} must be of numpy, got {array.stype!r}")
    try:
        file = BytesIO(data[:HEADER])
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except Exception as error:  # numpy evaluates the header as Python, which can fail in many ways
        told = f"{type(error).__name__}: {error}"
        raise InputError(f"the array {name!r} was damaged on the way: {told}") from None
    if len(shape) > DIMENSIONS or any(not 0 <= size <= LARGEST for size in shape):
        raise InputError(f"the array {name!r} was damaged on the way: it cannot have {shape=}")
    if dtype.kind not in "fiub" or dtype.byteorder == ">":
        raise InputError(f"the array {name!r} must hold numbers, got {dtype}")
    body = data[file.tell() :]
    if len(body) != prod(shape) * dtype.itemsize:
        raise InputError(
            f"the array {name!r} was damaged on the way: its header says shape {shape} of {dtype}, and "
            f"{len(body):,} bytes follow"
        )
    order: Literal["F", "C"] = "F" if fortran else "C"
    return np.frombuffer(body, dtype).reshape(shape, order=order)


def _scalar(key: str, value: object) -> str | int | float:
    if isinstance(value, (bool, np.bool_, np.integer, int)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, str):
        return str(value)
    raise InputError(
        f"{key} must be an array, a number or a string to travel, got a {type(value).__name__}"
    )
