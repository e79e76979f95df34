"""Compresses residuals to fewer digits or coordinates; the client keeps the part that is left out.

    T̃_m(z) = z_m + Q(T_m(z) - z_m),    Q(r) → 0 as r → 0

A client of ExactFedRR with state="clients" sends its residual r_m. It vanishes at the solution, since passes leave x unchanged
once h_m = ∇f_m(x). Like DIANA (Mishchenko et al. 2019), sending Q(r_m) and continuing from z_m + Q(r_m) compresses a difference to
what h_m already holds. Fixed points do not change, so the solution is that of the run without compression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError, shown
from reshuffle.objective import Array
from reshuffle.randomness import generator

Packed = dict[str, AnyArray]
VALUES, PLACES = "packed", "places"
"""The names of a packed residual's parts in a reply."""


class Transport(Protocol):
    """A way to write a residual in fewer bytes."""

    def pack(self, residual: Array, number: int) -> Packed:
        """The residual of the round ``number``, as it travels."""
        ...

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        """Q(r), from the parts that ``pack`` wrote; raises ``ValueError`` if they are invalid."""
        ...


@dataclass(frozen=True)
class Digits:
    """All coordinates, in float32 (half of the bytes, 24 binary digits) or bfloat16 (a quarter, 8 digits).

    With ``dithered`` they are rounded up or down at random, without bias: for numbers that do not vanish and are sent without a
    memory of earlier errors. All clients use the same random numbers in a round.
    """

    kind: str
    dithered: bool = False

    KINDS: ClassVar[Mapping[str, type[np.generic]]] = {"float32": np.float32, "bfloat16": np.uint16}

    def pack(self, residual: Array, number: int) -> Packed:
        values = residual.ravel()
        return {
            VALUES: written(
                dither(values, self.kind, number) if self.dithered else values, self.kind
            )
        }

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        return read(_part(parts, VALUES, self.KINDS[self.kind], int(np.prod(shape)))).reshape(shape)


@dataclass(frozen=True)
class TopK:
    """The k = ⌈share·d⌉ coordinates that are largest in size, in float32 or bfloat16 (``digits``), with their places."""

    share: float
    digits: str = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        _check_share(self)

    def pack(self, residual: Array, number: int) -> Packed:
        flat, k = residual.ravel(), ceil(self.share * residual.size)
        places = np.sort(np.argpartition(-np.abs(flat), k - 1)[:k])
        return {
            VALUES: written(flat[places], self.digits),
            PLACES: places.astype(_places(flat.size)),
        }

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        size = int(np.prod(shape))
        k = ceil(self.share * size)
        values = read(_part(parts, VALUES, Digits.KINDS[self.digits], k))
        places = _part(parts, PLACES, _places(size), k).astype(np.int64)
        if (k and places[-1] >= size) or np.any(np.diff(places) <= 0):
            raise ValueError("its places are not those of different coordinates, in their order")
        return _spread(values, places, shape)


@dataclass(frozen=True)
class RandomK:
    """k = ⌈share·d⌉ coordinates in float32 or bfloat16 (``digits``), drawn anew in each round and the same for all clients: no place is sent."""

    share: float
    digits: str = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        _check_share(self)

    def pack(self, residual: Array, number: int) -> Packed:
        drawn = self._drawn(residual.size, number)
        return {VALUES: written(residual.ravel()[drawn], self.digits)}

    def unpack(self, parts: Mapping[str, object], shape: tuple[int, ...], number: int) -> Array:
        places = self._drawn(int(np.prod(shape)), number)
        values = read(_part(parts, VALUES, Digits.KINDS[self.digits], places.size))
        return _spread(values, places, shape)

    def _drawn(self, size: int, number: int) -> NDArray[np.int64]:
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
    """The transport for "float32", "bfloat16", ``TopK(share)``, ``RandomK(share)``, or their ``name_of``; None for None or "float64"."""
    if isinstance(given, (TopK, RandomK, Digits)):
        return given
    word, _, share = given.partition(" ") if isinstance(given, str) else ("", "", "")
    if given is None or (word == "float64" and not share):
        return None
    if word in Digits.KINDS and share in ("", DITHERED):
        return Digits(word, share == DITHERED)
    if word in SPARSE and share:
        share, _, digits = share.partition(" ")
        return SPARSE[word](_number(share), digits=digits or "float32")
    raise InputError(
        'transport must be "float64", "float32", "bfloat16", federated.TopK(share) or federated.RandomK(share), '
        f"got {shown(given)}"
    )


def name_of(transport: Transport) -> str:
    """The name of the transport in messages."""
    kind: Any = transport
    if isinstance(kind, Digits):
        return f"{kind.kind} {DITHERED}" if kind.dithered else kind.kind
    return f"{type(kind).__name__} {kind.share!r}{'' if kind.digits == 'float32' else f' {kind.digits}'}"


def digits_of(transport: Transport) -> str:
    """The format of the numbers that a transport sends."""
    kind: Any = transport
    found: str = kind.kind if isinstance(kind, Digits) else kind.digits
    return found


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
        return Digits(found.kind, dithered=True)
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


def _spread(values: Array, places: NDArray[np.int64], shape: tuple[int, ...]) -> Array:
    whole = np.zeros(int(np.prod(shape)))
    whole[places] = values
    return whole.reshape(shape)


def _number(text: str) -> float:
    """The number that a text holds; NaN, which is no share, if it holds none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _check_share(part: TopK | RandomK) -> None:
    share: object = part.share
    number = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
    if not (number and 0 < share <= 1):  # type: ignore[operator]
        raise InputError(f"share of {type(part).__name__} must lie in (0, 1], got {shown(share)}")
    if part.digits not in Digits.KINDS:
        raise InputError(
            f'digits of {type(part).__name__} must be "float32" or "bfloat16", got {shown(part.digits)}'
        )
