"""Passes a loss to the core: a built-in one by name, a user's loss by the addresses of its functions.

A user's functions are compiled by numba if it is installed (the extra ``numba``) and called by address, within
a third of the speed of a built-in loss. Without numba they are called in Python: in passes over all rows once for many
samples, if they accept arrays, otherwise one sample at a time. Addresses of compiled functions (of ctypes, cffi,
``scipy.LowLevelCallable`` or ``numba.cfunc``) are used directly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reshuffle.core import native
from reshuffle.errors import InputError, SpeedWarning, warn_user

if TYPE_CHECKING:
    from reshuffle.arrays import Array
    from reshuffle.losses.base import Loss

PARTS = ("value", "derivative", "second", "conjugate")
"""The functions of a loss that the core calls, in the core's order."""

Scalar = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
CFunction = Scalar.__mro__[1]
"""The base class of all functions of ctypes."""
Pointer = ctypes.POINTER(ctypes.c_double)
Block = ctypes.CFUNCTYPE(None, Pointer, Pointer, Pointer, ctypes.c_int64)

Part = Callable[..., "float | Array"]
"""A function of a loss, of one margin or of several, before it is compiled."""


class Compiled(Protocol):
    """A function that numba has compiled for calls by address."""

    @property
    def address(self) -> int: ...


def native_loss(loss: Loss, classes: bool) -> native.Loss:
    """The core's object for the loss; ``classes`` says that the targets of a vector loss are classes."""
    kind: object = type(loss)
    return _native_loss(kind, loss.params, repr(loss), classes)


def own_errors(loss: Loss) -> list[BaseException]:
    """The errors that a user's functions have raised when the core called them; empty for built-in losses."""
    return _ERRORS.setdefault((type(loss), loss.params), [])


_ERRORS: dict[tuple[type[Loss], tuple[float, ...]], list[BaseException]] = {}


@cache
def _native_loss(
    kind: type[Loss], params: tuple[float, ...], name: str, classes: bool
) -> native.Loss:
    core = built_in(kind)
    if core is not None:
        return native.built_in_loss(core, list(params))
    addresses, blocks, kept = _addresses(kind, params, name, classes)
    if kind.vector:
        make = native.given_class_loss if classes else native.given_row_loss
        return make(addresses, kept)
    return native.given_loss(addresses, blocks, kept)


def _addresses(
    kind: type[Loss], params: tuple[float, ...], name: str, classes: bool
) -> tuple[list[int], list[int], list[object]]:
    """The addresses of the parts for one sample, and for many if Python is called; and what must live as long as these."""
    addresses, blocks = [0] * len(PARTS), [0] * len(PARTS)
    kept: list[object] = []
    for k, part in enumerate(PARTS):
        function: Part | None = getattr(kind, part, None)
        if function is None:
            continue
        given = None if kind.vector else address_of(function)
        if given is not None and params:
            raise InputError(f"loss {name}: a function given by its address takes (z, y) alone")
        calls: tuple[object, ...] = (function,)
        if given is not None:
            addresses[k] = given
        elif has_numba():
            if kind.vector:
                compiled = _compiled_vector(function, params, name, classes, part in IN_PLACE)
            else:
                compiled = _compiled(function, params, name)
            calls, addresses[k] = (compiled,), compiled.address
        else:
            warn_slow(name)
            errors = _ERRORS.setdefault((kind, params), [])
            if kind.vector:
                calls = (_called_vector(function, params, classes, part in IN_PLACE, errors),)
            else:
                calls = _called(function, params, errors)
                blocks[k] = _pointer(calls[1]) if len(calls) > 1 else 0
            addresses[k] = _pointer(calls[0])
        kept += calls
    return addresses, blocks, kept


def built_in(kind: type[Loss]) -> str | None:
    """The core's name for this class of losses, if no subclass has replaced its functions; otherwise None."""
    for ancestor in kind.__mro__:
        if "core" in vars(ancestor):
            same = all(getattr(kind, part) is getattr(ancestor, part) for part in PARTS)
            return vars(ancestor)["core"] if same else None
    return None


# --- functions of one margin ------------------------------------------------------------------------


def _compiled(function: Part, params: tuple[float, ...], name: str) -> Compiled:
    """The function with its parameters, compiled for a call by address."""
    numba = import_module("numba")
    with compiling(name):
        with_params = _with_params(function, params)

        def closed(z: float, y: float) -> float | Array:
            try:
                found: float | Array = with_params(z, y)
                return found
            except Exception:  # otherwise numba prints the error for every sample and returns 0
                return np.nan

        made: Compiled = numba.cfunc("float64(float64, float64)", error_model="numpy")(closed)
        return made


def _with_params(function: Part, params: tuple[float, ...]) -> Callable[..., Any]:
    """(z, y) -> function(z, y, *params), for calls from compiled functions; its author may have compiled it already."""
    njit = import_module("numba").njit(error_model="numpy")
    inner = function if hasattr(function, "py_func") else njit(function)
    made: Callable[..., Any] = njit(lambda z, y: inner(z, y, *params))
    return made


def _called(
    function: Part, params: tuple[float, ...], errors: list[BaseException]
) -> tuple[object, ...]:
    """The uncompiled function as a callback for one sample and, if it accepts arrays, another one for many."""

    def one(z: float, y: float) -> float:
        try:
            return float(function(z, y, *params))
        except BaseException as error:  # the caller of the core raises it again, also Ctrl-C
            errors.append(error)
            return np.nan

    def many(z: object, y: object, out: object, n: int) -> None:
        at, targets, found = (np.ctypeslib.as_array(a, (n,)) for a in (z, y, out))
        try:
            found[:] = function(at, targets, *params)
        except BaseException as error:
            errors.append(error)
            found[:] = np.nan

    return (Scalar(one), Block(many)) if _takes_arrays(function, params) else (Scalar(one),)


def _takes_arrays(function: Part, params: tuple[float, ...]) -> bool:
    """Whether the function, called with arrays, gives the same values as for their entries."""
    z, y = np.array([0.3, -1.2, 2.5]), np.array([1.0, -1.0, 1.0])
    try:
        whole = np.asarray(function(z.copy(), y, *params), dtype=np.float64)
        each = [float(function(a, b, *params)) for a, b in zip(z.tolist(), y.tolist(), strict=True)]
    except Exception:  # the function accepts only numbers
        return False
    return whole.shape == z.shape and bool(np.array_equal(whole, each))


# --- functions of several margins -------------------------------------------------------------------

IN_PLACE = ("derivative", "second")
"""Parts of a vector loss that overwrite the margins; the others return a number."""


def _compiled_vector(
    function: Part, params: tuple[float, ...], name: str, classes: bool, changes: bool
) -> Compiled:
    numba = import_module("numba")
    carray, njit, types = numba.carray, numba.njit, numba.types
    with compiling(name):
        with_params = _with_params(function, params)
        number = types.int32 if classes else types.float64
        kinds = (types.CPointer(types.float64), types.int64, types.CPointer(number))
        target = njit(lambda y, k: y[0]) if classes else njit(lambda y, k: carray(y, (k,)))

        def returned(z: object, k: int, y: object) -> float:
            try:
                found: float = with_params(carray(z, (k,)), target(y, k))
                return found
            except Exception:
                return np.nan

        def changed(z: object, k: int, y: object) -> float:
            at = carray(z, (k,))
            try:
                with_params(at, target(y, k))
            except Exception:
                at[:] = np.nan
            return 0.0

        wrap = numba.cfunc(types.float64(*kinds), error_model="numpy")
        made: Compiled = wrap(changed if changes else returned)
        return made


def _called_vector(
    function: Part,
    params: tuple[float, ...],
    classes: bool,
    changes: bool,
    errors: list[BaseException],
) -> object:
    """The uncompiled function as a callback for the margins of one sample."""
    target = ctypes.c_int32 if classes else ctypes.c_double
    kind = ctypes.CFUNCTYPE(ctypes.c_double, Pointer, ctypes.c_int64, ctypes.POINTER(target))

    def call(z: object, k: int, y: Any) -> float:
        at = np.ctypeslib.as_array(z, (k,))
        try:
            found = function(at, y[0] if classes else np.ctypeslib.as_array(y, (k,)), *params)
            return 0.0 if changes else float(found)
        except BaseException as error:  # raised again by whoever called the core
            errors.append(error)
            at[:] = np.nan
            return np.nan

    return kind(call)


# --- addresses --------------------------------------------------------------------------------------


def address_of(function: Any) -> int | None:
    """The address of a compiled function double(double, double); None if it is none."""
    inner = getattr(function, "function", function)  # of a LowLevelCallable
    if isinstance(inner, CFunction):
        found = _pointer(inner)
    elif type(inner).__module__ == "_cffi_backend":
        found = int(import_module("_cffi_backend").FFI().cast("uintptr_t", inner))
    elif isinstance(getattr(inner, "address", None), int):  # numba.cfunc
        found = inner.address
    else:
        return None
    declared = _declared(inner)
    if declared not in (None, SIGNATURE):
        raise InputError(
            f"a function given by its address must be of the type {SIGNATURE}, got {declared}"
        )
    return found


SIGNATURE = "double(double, double)"


def _declared(function: Any) -> str | None:
    """The declared type of a compiled function, in the notation of C; None if it is unknown."""
    if hasattr(function, "argtypes"):  # of ctypes
        if function.argtypes is None:  # no one has said
            return None
        kinds = (*function.argtypes, function.restype)
        names = [getattr(k, "__name__", "void").removeprefix("c_") for k in kinds]
    elif type(function).__module__ == "_cffi_backend":
        kind = import_module("_cffi_backend").FFI().typeof(function)
        if kind.kind != "function":
            return None
        names = [k.cname for k in (*kind.args, kind.result)]
    else:
        signature = getattr(function, "_sig", None)
        if signature is None:
            return None
        kinds = (*signature.args, signature.return_type)
        names = [{"float64": "double", "float32": "float"}.get(str(k), str(k)) for k in kinds]
    return f"{names[-1]}({', '.join(names[:-1])})"


def _pointer(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@cache
def has_numba() -> bool:
    """Whether the extra ``numba`` is installed."""
    return find_spec("numba") is not None


@cache
def warn_slow(name: str) -> None:
    """Warn once that a user's loss is called in Python."""
    warn_user(
        f"loss {name} is called one sample at a time in Python; install numba (the extra "
        "reshuffle[numba]) and it is compiled",
        SpeedWarning,
    )


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Turn numba's errors about a loss's functions into an error that names the loss."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("numba."):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = [line for line in lines if not line.startswith(("Failed in", "During:", "File "))]
        raise InputError(
            f"loss {name}: its functions cannot be compiled: {' '.join(told[:2])}"
        ) from None
