"""Local work as a record, and back: what a client is to do travels as names and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from reshuffle.engines import Plain, Record
from reshuffle.errors import InputError
from reshuffle.federated.curvature import Curved
from reshuffle.federated.local import Corrected, Local, Sampled, Shuffled
from reshuffle.federated.scales import Rescaled
from reshuffle.orders import Cyclic, Reshuffle, ShuffleOnce

KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind for kind in (Shuffled, Sampled, Corrected, Rescaled, Curved)
}
ORDERS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (Reshuffle, ShuffleOnce, Cyclic)}
MAYBE = {"": None, "yes": True, "no": False}


def described(local: Local) -> dict[str, Plain]:
    """Local work of this package as a record; parts of one's own cannot travel so."""
    if KINDS.get(type(local).__name__) is not type(local):
        raise InputError(
            f"{type(local).__name__} is not known to sites: use FedRR, LocalSGD, ExactFedRR or FedNewton"
        )
    record: dict[str, Plain] = {"work": type(local).__name__}
    for field in fields(local):  # type: ignore[arg-type]
        value = getattr(local, field.name)
        if field.name == "order":
            name = type(value).__name__
            if ORDERS.get(name) is not type(value):
                raise InputError(f"order {value!r} is not known to sites: use {', '.join(ORDERS)}")
            record[field.name] = name
        elif field.name == "importance":
            record[field.name] = next(word for word, meant in MAYBE.items() if meant is value)
        else:
            record[field.name] = np.array(value) if isinstance(value, tuple) else value
    return record


def local_of(record: Record) -> Local:
    """The local work that a record describes."""
    kind = KINDS.get(str(record.get("work")))
    if kind is None:
        raise InputError(f"there is no local work {record.get('work')!r}")
    settings: dict[str, Any] = {field.name: record[field.name] for field in fields(kind)}
    if "order" in settings:
        settings["order"] = ORDERS[settings["order"]]()
    if "importance" in settings:
        settings["importance"] = MAYBE[settings["importance"]]
    if "shape" in settings:
        settings["shape"] = tuple(int(length) for length in settings["shape"])
    local: Local = kind(**settings)
    return local
