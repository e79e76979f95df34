"""Digests of values: equal contents have equal digests, in any process.

A result remembers the digests of its problem's parts, and a run is resumed only on a problem with the same digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from reshuffle.arrays import AnyArray, Hasher
from reshuffle.cached import cached_property
from reshuffle.code_identity import code_parts


def digest(*values: object) -> str:
    """sha256 of the contents: numbers, text, arrays, functions, and objects by their attributes."""
    hasher = hashlib.sha256()
    for value in values:
        _feed(hasher, value, set())
    return hasher.hexdigest()


def _feed(hasher: Hasher, value: object, above: set[int]) -> None:
    """Feed a value to the hasher; ``above`` holds the objects that contain it, so that cycles end."""
    if value is None or isinstance(value, (str, bytes, bool)):
        hasher.update(repr(value).encode())
    elif isinstance(value, (int, float, np.number, np.bool_)):
        same = isinstance(value, np.complexfloating) or value != value or float(value) != value
        hasher.update((repr(value) if same else float(value).hex()).encode())
    elif isinstance(value, np.ndarray):
        _feed_array(hasher, value, above)
    elif id(value) not in above:
        above = above | {id(value)}
        for part in _parts(value):
            _feed(hasher, part, above)
    hasher.update(b"\0")


def _feed_array(hasher: Hasher, array: AnyArray, above: set[int]) -> None:
    hasher.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype == object:
        _feed(hasher, array.tolist(), above)
    else:
        hasher.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _parts(value: Any) -> Iterator[object]:
    if isinstance(value, Mapping):
        for name in sorted(value, key=str):
            yield from (name, value[name])
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=repr)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif hasattr(value, "__func__") and hasattr(value, "__self__"):
        # A bound method: its object counts, too.
        yield from (value.__func__, value.__self__)
    elif hasattr(value, "__code__") or hasattr(value, "py_func"):
        yield from code_parts(value)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}"
    else:
        yield f"{type(value).__module__}.{type(value).__qualname__}"
        yield from _attributes(value).items()


@cache
def on_demand(kind: type) -> frozenset[str]:
    """The names of a class's cached properties."""
    found = (n for k in kind.__mro__ for n, v in vars(k).items() if isinstance(v, cached_property))
    return frozenset(found)


def _attributes(value: object) -> dict[str, object]:
    """The fields of a dataclass; of other objects their attributes, without cached properties."""
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    kind: type = type(value)
    kinds, computed = kind.__mro__, on_demand(kind)
    held = getattr(value, "__dict__", {})
    slots = [n for kind in kinds for n in getattr(kind, "__slots__", ()) if hasattr(value, n)]
    named = {name: held[name] for name in sorted(held) if name not in computed}
    return named | {name: getattr(value, name) for name in slots if not name.startswith("__")}


class Fingerprint(Mapping[str, str]):
    """The digests of a problem's parts, computed once, on first use.

    Hashing the data takes longer than an epoch of a fast method, so a run that is neither saved nor
    resumed does without it.
    """

    def __init__(self, parts: Mapping[str, str] | Callable[[], Mapping[str, str]]) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> str:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def differences(self, other: Mapping[str, str]) -> list[str]:
        """The parts that differ."""
        return [name for name in {**self, **other} if self.get(name) != other.get(name)]

    def _known(self) -> Mapping[str, str]:
        if callable(self._parts):
            self._parts = dict(self._parts())
        return self._parts

    def __getstate__(self) -> dict[str, object]:
        return {"_parts": dict(self._known())}

    def __repr__(self) -> str:
        return "<Fingerprint, not computed yet>" if callable(self._parts) else repr(dict(self))
