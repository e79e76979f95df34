"""Compresses residuals to fewer digits or coordinates; the client keeps the part that is left out.

    T̃_m(z) = z_m + Q(T_m(z) - z_m),    Q(r) → 0 as r → 0

A client of ExactFedRR with state="clients" sends its residual r_m. It vanishes at the solution, since passes leave x unchanged
once h_m = ∇f_m(x). Like DIANA (Mishchenko et al. 2019), sending Q(r_m) and continuing from z_m + Q(r_m) compresses a difference to
what h_m already holds. Fixed points do not change, so the solution is that of the run without compression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.objective import Array
from reshuffle.randomness import generator

Packed = dict[str, AnyArray]
VALUES, PLACES = "packed", "places"
"""The names of a packed residual's parts in a reply."""


FORMATS: Mapping[str, type[np.generic]] = {"float32": np.float32, "bfloat16": np.uint16}
"""The formats of shorter numbers, and the types of the arrays that hold them."""


class Transport(ABC):
    """A way to write a residual in fewer bytes, with numbers of the format ``digits``."""

    digits: str

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in messages, which ``transport_of`` reads."""

    @abstractmethod
    def pack(self, residual: Array, number: int) -> Packed:
        """The residual of the round ``number``, as it travels."""

    @abstractmethod
    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        """Q(r), from the parts that ``pack`` wrote; raises ``ValueError`` if they are invalid."""


@dataclass(frozen=True)
class Digits(Transport):
    """All coordinates, in float32 (half of the bytes, 24 binary digits) or bfloat16 (a quarter, 8 digits).

    With ``dithered`` they are rounded up or down at random, without bias: for numbers that do not vanish and are sent without a
    memory of earlier errors. All clients use the same random numbers in a round.
    """

    digits: str
    dithered: bool = False

    @property
    def name(self) -> str:
        return f"{self.digits} {DITHERED}" if self.dithered else self.digits

    def pack(self, residual: Array, number: int) -> Packed:
        values = residual.ravel()
        if self.dithered:
            values = dither(values, self.digits, number)
        return {VALUES: written(values, self.digits)}

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        return read(_part(parts, VALUES, FORMATS[self.digits], prod(shape))).reshape(shape)


@dataclass(frozen=True)
class SomeCoordinates(Transport):
    """k = ⌈share·d⌉ of the coordinates; the others count as 0."""

    share: float
    digits: str = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        share: object = self.share
        number = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
        kind = type(self).__name__
        if not (number and 0 < share <= 1):  # type: ignore[operator]
            raise InputError(f"share of {kind} must lie in (0, 1], got {shown(share)}")
        if self.digits not in FORMATS:
            raise InputError(
                f'digits of {kind} must be "float32" or "bfloat16", got {shown(self.digits)}'
            )

    @property
    def name(self) -> str:
        digits = "" if self.digits == "float32" else f" {self.digits}"
        return f"{type(self).__name__} {self.share!r}{digits}"

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        whole = np.zeros(prod(shape))
        values = read(_part(parts, VALUES, FORMATS[self.digits], ceil(self.share * whole.size)))
        whole[self.places(parts, whole.size, number)] = values
        return whole.reshape(shape)

    @abstractmethod
    def places(self, parts: Mapping[str, object], size: int, number: int) -> NDArray[np.int64]:
        """The places of the coordinates that were sent, in the order of their values."""


@dataclass(frozen=True)
class TopK(SomeCoordinates):
    """The k = ⌈share·d⌉ coordinates that are largest in size, in float32 or bfloat16 (``digits``), with their places."""

    def pack(self, residual: Array, number: int) -> Packed:
        flat, k = residual.ravel(), ceil(self.share * residual.size)
        places = np.sort(np.argpartition(-np.abs(flat), k - 1)[:k])
        return {
            VALUES: written(flat[places], self.digits),
            PLACES: places.astype(_places(flat.size)),
        }

    def places(self, parts: Mapping[str, object], size: int, number: int) -> NDArray[np.int64]:
        k = ceil(self.share * size)
        places = _part(parts, PLACES, _places(size), k).astype(np.int64)
        if (k and places[-1] >= size) or np.any(np.diff(places) <= 0):
            raise ValueError("its places are not those of different coordinates, in their order")
        return places


@dataclass(frozen=True)
class RandomK(SomeCoordinates):
    """k = ⌈share·d⌉ coordinates in float32 or bfloat16 (``digits``), drawn anew in each round and the same for all clients: no place is sent."""

    def pack(self, residual: Array, number: int) -> Packed:
        drawn = self.places({}, residual.size, number)
        return {VALUES: written(residual.ravel()[drawn], self.digits)}

    def places(self, parts: Mapping[str, object], size: int, number: int) -> NDArray[np.int64]:
        return generator(number, size, DRAWS).permutation(size)[: ceil(self.share * size)]


DRAWS = 5
"""The stream of the random numbers of ``RandomK``."""
DITHER = 6
"""The stream of the random numbers of dithered rounding."""
BITS = {"float32": 29, "bfloat16": 45}
"""The bits of a double's mantissa that the shorter format lacks."""
LARGEST = {"float32": float(np.finfo(np.float32).max), "bfloat16": (2.0 - 2.0**-7) * 2.0**127}
"""The largest number of each format."""
DITHERED = "dithered"
SPARSE: Mapping[str, Callable[..., Transport]] = {"TopK": TopK, "RandomK": RandomK}


def transport_of(given: object) -> Transport | None:
    """The transport for "float32", "bfloat16", ``TopK(share)``, ``RandomK(share)``, or the ``name`` of one; None for None or "float64"."""
    if isinstance(given, Transport):
        return given
    word, _, share = given.partition(" ") if isinstance(given, str) else ("", "", "")
    if given is None or (word == "float64" and not share):
        return None
    if word in FORMATS and share in ("", DITHERED):
        return Digits(word, share == DITHERED)
    if word in SPARSE and share:
        share, _, digits = share.partition(" ")
        return SPARSE[word](_number(share), digits=digits or "float32")
    raise InputError(
        'transport must be "float64", "float32", "bfloat16", federated.TopK(share) or federated.RandomK(share), '
        f"got {shown(given)}"
    )


def dithered(solver: object) -> Digits | None:
    """The transport of a solver whose clients' changes do not vanish at the solution; None for "float64"."""
    given = getattr(solver, "transport", None)
    found = transport_of(given)
    if found is None:
        return None
    if getattr(getattr(solver, "privacy", None), "noise_at", "") == "driver":
        raise InputError(
            f'transport must be "float64" with noise_at="driver", got {given!r}: a change that is rounded after it was clipped may be longer '
            'than its clip; use noise_at="sites"'
        )
    if isinstance(found, Digits):
        return Digits(found.digits, dithered=True)
    raise InputError(
        f'transport of {type(solver).__name__} must be "float64", "float32" or "bfloat16", got {given!r}: the change of a client\'s model does not vanish '
        'at the solution, so that no coordinate of it can be left out; use ExactFedRR(state="clients") or FedNewton'
    )


def dither(values: Array, kind: str, number: int) -> Array:
    """Each number rounded at random to one of its two neighbours in the other format, without bias."""
    drop, one = np.uint64(BITS[kind]), np.uint64(1)
    noise = generator(number, values.size, DITHER).integers(0, one << drop, values.size, np.uint64)
    bits = np.ascontiguousarray(values).view(np.uint64) + noise
    kept: Array = ((bits >> drop) << drop).view(np.float64)
    return kept


def written(values: Array, kind: str) -> AnyArray:
    """The numbers in another format, rounded to the nearest; one that overflows is refused."""
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
    if np.any(np.abs(single) > LARGEST[kind]) or np.isnan(single).any():
        raise InputError(
            f'its residual is too large for {kind}: use transport="float64" or a smaller step'
        )
    if kind == "float32":
        return single
    bits = single.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, halves to even
    return rounded.astype(np.uint16)


def read(values: AnyArray) -> Array:
    """The numbers that ``written`` wrote."""
    if values.dtype == np.uint16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    found = values.astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError("its packed residual holds NaN or infinity")
    return found


def _places(size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if size <= 1 << 16 else np.uint32


def _part(parts: Mapping[str, object], name: str, dtype: type[np.generic], size: int) -> AnyArray:
    found = parts.get(name)
    if not isinstance(found, np.ndarray) or found.dtype != dtype or found.shape != (size,):
        raise ValueError(f"its part {name!r} must be {np.dtype(dtype)} of length {size}")
    return found


def _number(text: str) -> float:
    """The number that a text holds; NaN, which is no share, if it holds none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
