"""Arrays that kernels work in. Made in Python: every allocation in a kernel costs a tenth of a second to compile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def room_for(size: int) -> Room:
    """Room for a model in this many coordinates."""
    where, place = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    slopes, r, step, to, bent = (np.empty(size) for _ in range(5))
    scales, b, v, w, null = (np.empty(size) for _ in range(5))
    matrix, free = np.empty((size, size)), np.empty(size, dtype=np.bool_)
    return Room(where, place, matrix, free, slopes, r, step, to, bent, scales, b, v, w, null)


class Paper(NamedTuple):
    """For all steps of a small set: one entry per row (and output), per coordinate, and matrices."""

    coefs: Any
    change: Any
    low: Any
    factors: Array
    radius: Array
    shares: Array
    scales: Array
    scaled: Array
    gram: Array
    H: Array
    u: Array
    d: Array
    to: Array
    step: Any
    nothing: NDArray[np.uint32]


def paper_for(A: Array, shape: tuple[int, ...], x: Array) -> Paper:
    """Paper for the rows of A, margins of this shape and the unknown x."""
    n, size, width = shape[0], x.size, A.shape[1]
    change, low = np.empty(shape), np.empty(shape)
    factors, radius, shares, scales = (np.empty(n) for _ in range(4))
    u, d, to = (np.empty(size) for _ in range(3))
    return Paper(
        np.empty((1, *shape[1:])), change, low, factors, radius, shares, scales, np.zeros(A.shape),
        np.empty((width, width)), np.empty((size, size)), u, d, to, np.empty_like(x),
        np.empty(0, dtype=np.uint32),
    )  # fmt: skip
