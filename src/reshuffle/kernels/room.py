"""Arrays that kernels work in.

Made in Python, since every allocation in a kernel costs a tenth of a second to compile, and in few pieces, since
every array that is handed to a kernel costs half a microsecond: the kernel cuts them up.
"""

# The compiled functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from reshuffle.kernels.gram import PACKED
from reshuffle.kernels.options import LOOP

Array = NDArray[np.float64]


class Room(NamedTuple):
    """For the model of a Newton step in so many coordinates; ``where`` first, then room for matrices."""

    where: NDArray[np.int64]
    place: NDArray[np.int64]
    matrix: Array
    free: NDArray[np.bool_]
    slopes: Array
    r: Array
    step: Array
    to: Array
    bent: Array
    scales: Array
    b: Array
    v: Array
    w: Array
    null: Array


class Rented(NamedTuple):
    """The same as Python hands it over."""

    places: NDArray[np.int64]
    free: NDArray[np.bool_]
    vectors: Array
    matrix: Array


def rented(size: int) -> Rented:
    """Room for a model in this many coordinates."""
    places, free = np.empty((2, size), dtype=np.int64), np.empty(size, dtype=np.bool_)
    return Rented(places, free, np.empty((10, size)), np.empty((size, size)))


@njit(**LOOP)
def room_in(rented):
    places, v = rented.places, rented.vectors
    return Room(
        places[0], places[1], rented.matrix, rented.free,
        v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9],
    )  # fmt: skip


class Paper(NamedTuple):
    """For all steps of a small set: one entry per row (and output), per coordinate, and matrices."""

    change: Any
    low: Any
    factors: Array
    radius: Array
    shares: Array
    scales: Array
    scaled: Array
    gram: Array
    H: Array
    best: Array
    d: Array
    to: Array


class Pad(NamedTuple):
    """The same as Python hands it over."""

    margins: Any
    rows: Array
    scaled: Array
    gram: Array
    H: Array
    vectors: Array


def pad_for(width: int, shape: tuple[int, ...], size: int) -> Pad:
    """Paper for so many columns, margins of this shape and so many unknowns."""
    rows = np.empty((4, shape[0])), np.empty((width, min(PACKED, shape[0])))
    square = np.empty((width, width)) if len(shape) > 1 else np.empty((0, 0))
    return Pad(np.empty((2, *shape)), *rows, square, np.empty((size, size)), np.empty((3, size)))


@njit(**LOOP)
def paper_on(pad):
    m, r, v = pad.margins, pad.rows, pad.vectors
    return Paper(
        m[0], m[1], r[0], r[1], r[2], r[3], pad.scaled, pad.gram, pad.H, v[0], v[1], v[2]
    )  # fmt: skip
