"""Values that an object computes when they are first asked for, and keeps."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """``functools.cached_property`` without its lock, as Python has it from 3.12 on.

    In 3.11 the lock takes longer than much of what is kept here. Two threads may both compute a value; they get
    the same one.
    """

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        value = vars(instance)[self.attrname] = self.func(instance)
        return value


def keep(made: T, **known: Any) -> T:
    """An object that was just made, with the values of cached properties that are known already."""
    vars(made).update(known)
    return made
