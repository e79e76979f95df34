"""The identity of a user's function, the same in every process: its code, its constants and what it calls."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator

import numpy as np

Function = Callable[..., object]


def code_parts(function: Function) -> Iterator[str]:
    """The parts that identify a function: its code, its constants, and (recursively) the globals it reads."""
    return _parts(function, set())


def _parts(function: Function, seen: set[int]) -> Iterator[str]:
    function = getattr(function, "py_func", function)  # A numba dispatcher wraps a Python function.
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None:  # The name of a builtin or of a numpy ufunc is its identity.
        yield getattr(function, "__qualname__", repr(function))
        return
    yield str(function.__module__)
    yield from _code_parts(code)
    yield repr(getattr(function, "__defaults__", None))
    cells = getattr(function, "__closure__", None) or ()
    for cell in cells:
        yield from _value_parts(cell.cell_contents, seen)
    yield from _named_parts(function.__globals__, set(_names(code)), seen)


def _named_parts(namespace: dict[str, object], names: set[str], seen: set[int]) -> Iterator[str]:
    """The parts of the values of these names in a namespace, and of the functions that they refer to."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if not isinstance(value, types.ModuleType):
            yield from _value_parts(value, seen)
        elif id(value) not in seen:
            seen.add(id(value))
            yield from _named_parts(vars(value), names, seen)


def _value_parts(value: object, seen: set[int]) -> Iterator[str]:
    if isinstance(value, np.ndarray):  # The repr of an array rounds, and leaves out the middle.
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, tuple):
        for entry in value:
            yield from _value_parts(entry, seen)
    elif callable(value):
        yield from _parts(value, seen)
    else:
        # The default repr holds an address, which is valid in one process only.
        yield re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _names(code: types.CodeType) -> Iterator[str]:
    """Every global and attribute that a code object names, including those of its inner functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _code_parts(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)
