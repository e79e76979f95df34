"""Properties that an object computes on first use and keeps."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """``functools.cached_property`` without its lock, as in Python from 3.12 on.

    In 3.11 taking the lock costs more than many of these values. Two threads may both compute a value; they get
    the same one.
    """

    @overload
    def __get__(self, instance: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: object = None) -> T: ...
    def __get__(self, instance: Any, owner: object = None) -> object:
        if instance is None:
            return self
        value = vars(instance)[self.attrname] = self.func(instance)
        return value


def keep(made: T, **known: object) -> T:
    """Set attributes of a new object, which may be frozen, or values of its cached properties; returns the object."""
    vars(made).update(known)
    return made
