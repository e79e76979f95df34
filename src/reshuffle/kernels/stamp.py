"""One integer that identifies a loss *and* the code a kernel was compiled from.

A kernel closes over the stamp of its loss. numba keys its disk cache on the values a function
closes over, so an unchanged loss finds its kernel again in a new process, and an edited one (or an
edited kernel) has another stamp and is compiled afresh: a stale kernel cannot run.
"""

from __future__ import annotations

import hashlib
import re
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Function = Callable[..., Any]


@cache
def source_digest() -> bytes:
    """Digest of the sources that are compiled into every kernel."""
    digest = hashlib.blake2b()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def stamp_of(*functions: Function) -> int:
    """A positive 62-bit integer that changes when a function, or what it calls, changes."""
    digest = hashlib.blake2b(source_digest(), digest_size=8)
    for function in functions:
        for part in code_parts(function):
            digest.update(part.encode())
            digest.update(b"\0")
    return int.from_bytes(digest.digest(), "big") >> 2


def code_parts(function: Function) -> Iterator[str]:
    """What identifies a function: its code, its constants, and (recursively) the globals it reads."""
    return _parts(function, set())


def _parts(function: Function, seen: set[int]) -> Iterator[str]:
    function = getattr(function, "py_func", function)  # a numba dispatcher wraps its source
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is None:  # a builtin or a numpy ufunc: its name is its identity
        yield getattr(function, "__qualname__", repr(function))
        return
    yield str(function.__module__)  # a cached kernel imports the modules of its functions
    yield from _code_parts(code)
    yield repr(getattr(function, "__defaults__", None))
    cells = getattr(function, "__closure__", None) or ()
    for cell in cells:
        yield from _value_parts(cell.cell_contents, seen)
    yield from _named_parts(function.__globals__, set(_names(code)), seen)


def _named_parts(namespace: dict[str, Any], names: set[str], seen: set[int]) -> Iterator[str]:
    """What the names stand for in a module, and in the modules that they lead to."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if not isinstance(value, types.ModuleType):
            yield from _value_parts(value, seen)
        elif id(value) not in seen:
            seen.add(id(value))
            yield from _named_parts(vars(value), names, seen)


def _value_parts(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, np.ndarray):  # its repr rounds, and leaves out the middle
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, tuple):
        for entry in value:
            yield from _value_parts(entry, seen)
    elif callable(value):
        yield from _parts(value, seen)
    else:
        yield re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # an address is of one process only


def _names(code: types.CodeType) -> Iterator[str]:
    """Every global and attribute that a code names, those of its inner functions included."""
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
