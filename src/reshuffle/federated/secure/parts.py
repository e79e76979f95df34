"""Converts the parts of an answer to one vector, for one mask, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from reshuffle.engines import Plain, Reply
from reshuffle.errors import InputError
from reshuffle.federated.secure.fixed_point import FixedPoint, Words
from reshuffle.federated.secure.header import SumHeader
from reshuffle.objective import Array

MODEL = "model"
"""The part that is a reply's array, or, with a number after it, a block of one; the others have the names that they have in the reply."""
ADDED = (MODEL, "square", "slopes", "changes")
"""Parts that the server adds up without weights."""
MEANS = ("value", "gradient", "rising", "rising_excess", "floor", "means", "product")
"""Parts that are means over a site's samples, and are weighted by N_m/N."""
Layout = list[tuple[str, tuple[int, ...]]]


def is_added(name: str) -> bool:
    """Whether a part is added up without weights."""
    return name.partition(" ")[0] in ADDED


def parts_of(reply: Reply, share: float, blocks: Sequence[int] = ()) -> dict[str, Array]:
    """What a site adds to the sum, by names in a fixed order; the array in blocks of these lengths."""
    named: dict[str, object] = {}
    if len(blocks) > 1:
        pieces = np.split(reply.model, np.cumsum(blocks)[:-1])
        named = {f"{MODEL} {k}": piece for k, piece in enumerate(pieces)}
    elif reply.model.size:
        named = {MODEL: reply.model}
    named |= {name: reply.more[name] for name in sorted(reply.more)}
    found = {}
    for name, part in named.items():
        values = np.asarray(part)
        if values.dtype.kind not in "fiub" or not (is_added(name) or name in MEANS):
            raise InputError(
                f"{name} of a site's answer is not a number that is added up, and cannot be part of a secure sum"
            )
        found[name] = values * (1.0 if is_added(name) else share)
    return found


def scale_of(header: SumHeader, name: str) -> FixedPoint:
    """The fixed point of a part."""
    return FixedPoint(header.ranges.get(name, header.exponent), len(header.sites))


def beyond(header: SumHeader, parts: Mapping[str, Array]) -> list[str]:
    """The parts that hold a value beyond their range."""
    return [name for name, part in parts.items() if not scale_of(header, name).holds(part)]


def words_of(header: SumHeader, parts: Mapping[str, Array]) -> Words:
    """All parts as integers, one after the other."""
    encoded = [scale_of(header, name).encode(part).ravel() for name, part in parts.items()]
    return np.concatenate([*encoded, np.empty(0, np.uint64)])


def layout_text(parts: Mapping[str, Array]) -> str:
    """The names and shapes of the parts, as they travel."""
    return json.dumps([(name, part.shape) for name, part in parts.items()])


def layout_of(text: Plain) -> Layout:
    """The layout of a text that came from a site."""
    try:
        pairs = json.loads(str(text))
        return [(str(name), tuple(int(length) for length in shape)) for name, shape in pairs]
    except (ValueError, TypeError):
        raise InputError("the layout of a masked answer is damaged") from None


def size_of(layout: Layout) -> int:
    """The numbers of all parts together."""
    return sum(int(np.prod(shape, dtype=np.int64)) for _, shape in layout)


def model_of(totals: Mapping[str, Array]) -> Array:
    """The array that consists of the blocks."""
    blocks = [part for name, part in totals.items() if name.partition(" ")[0] == MODEL]
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty(0), *blocks])


def decoded(header: SumHeader, layout: Layout, total: Words) -> dict[str, Array]:
    """The sums of the parts."""
    found, start = {}, 0
    for name, shape in layout:
        stop = start + int(np.prod(shape, dtype=np.int64))
        found[name] = scale_of(header, name).decode(total[start:stop]).reshape(shape)
        start = stop
    return found
