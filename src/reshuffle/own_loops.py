"""Functions of the core for your own loops that ``numba.njit`` compiles.

    slope(data, i, x)       l'(a_iᵀx + b, y_i): all that ∇f_i depends on
    add(data, i, s, out)    out ← out + w_i·s·a_i: with s the slope at x, out ← out + ∇f_i(x)
    prox(psi, x, step)      x ← prox_{step·ψ}(x), in place

They call by address the functions that the solvers of the package use, so that your method is compared with theirs
on equal terms. ``data`` and ``psi`` are handles of a problem, which has to be kept while they are used: see
``Problem.functions`` and ``Problem.compiled_penalty``. This module needs numba (the extra of that name).
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_double, c_int64, c_size_t

from numba import njit

from reshuffle.arrays import Array
from reshuffle.core import native

_slope_at, _add_at, _prox_at = native.single_function_addresses()
_slope = CFUNCTYPE(c_double, c_size_t, c_int64, c_size_t)(_slope_at)
_add = CFUNCTYPE(None, c_size_t, c_int64, c_double, c_size_t)(_add_at)
_prox = CFUNCTYPE(None, c_size_t, c_size_t, c_double)(_prox_at)


@njit(nogil=True)
def slope(data: int, i: int, x: Array) -> float:
    """l'(a_iᵀx + b, y_i)."""
    found: float = _slope(data, i, x.ctypes.data)
    return found


@njit(nogil=True)
def add(data: int, i: int, s: float, out: Array) -> None:
    """out ← out + w_i·s·a_i."""
    _add(data, i, s, out.ctypes.data)


@njit(nogil=True)
def prox(psi: int, x: Array, step: float) -> None:
    """x ← prox_{step·ψ}(x), in place."""
    _prox(psi, x.ctypes.data, step)
