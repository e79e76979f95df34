"""The loss of one row, compiled in by its stamp.

loss_at        l(z, y)
slope          l'(z, y), of one row by itself
slope_in_pass  the same in a loop over rows that do not wait for each other
conjugate_at   l*(factor * table[c], y)
put            array[i] = z
keep           coefs[k] = weight * l'
exchange       coefs[k] = weight * (l' - table[c]);  table[c] = l'
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import overload

from reshuffle.kernels.elementary import for_rows
from reshuffle.kernels.options import LOOP, OPTIONS

SLOPES: dict[int, Any] = {}
"""Stamp of a loss -> its compiled ``derivative``, for visits: each waits for the one before."""
LOSSES: dict[int, tuple[Any, ...]] = {}
"""Stamp of a loss -> its compiled ``value``, ``derivative`` and (where it has one) ``conjugate``, for passes."""


def register(stamp: int, *functions: Any) -> None:
    """Make the functions of a loss known to the kernels under their stamp."""
    if stamp not in LOSSES:
        SLOPES[stamp] = njit(**LOOP)(functions[1])
        LOSSES[stamp] = tuple(njit(**LOOP)(for_rows(function)) for function in functions)


def loss_at(stamp, params, z, y): ...
def slope(stamp, params, z, y): ...
def slope_in_pass(stamp, params, z, y): ...
def conjugate_at(stamp, params, table, c, factor, y, coefs): ...
def put(array, i, z): ...
def keep(coefs, k, weight, g): ...
def exchange(table, c, coefs, k, weight, g): ...


@overload(loss_at, jit_options=OPTIONS, prefer_literal=True)
def _loss_at(stamp, params, z, y):
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    value = LOSSES[stamp.literal_value][0]
    return lambda stamp, params, z, y: value(z, y, *params)


@overload(slope, jit_options=OPTIONS, prefer_literal=True)
def _slope(stamp, params, z, y):
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    several = isinstance(z, types.Array)  # outputs, which do not wait for each other
    derivative = LOSSES[stamp.literal_value][1] if several else SLOPES[stamp.literal_value]
    return lambda stamp, params, z, y: derivative(z, y, *params)


@overload(slope_in_pass, jit_options=OPTIONS, prefer_literal=True)
def _slope_in_pass(stamp, params, z, y):
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    derivative = LOSSES[stamp.literal_value][1]
    return lambda stamp, params, z, y: derivative(z, y, *params)


@overload(conjugate_at, jit_options=OPTIONS, prefer_literal=True)
def _conjugate_at(stamp, params, table, c, factor, y, coefs):
    """l*(factor * table[c], y)."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None
    conjugate = LOSSES[stamp.literal_value][2]

    def vector(stamp, params, table, c, factor, y, coefs):
        return conjugate(factor * table[c], y, *params)

    def matrix(stamp, params, table, c, factor, y, coefs):
        for o in range(table.shape[1]):
            coefs[0, o] = factor * table[c, o]
        return conjugate(coefs[0], y, *params)

    return vector if table.ndim == 1 else matrix


@overload(put, jit_options=OPTIONS)
def _put(array, i, z):
    """array[i] = z."""

    def vector(array, i, z):
        array[i] = z

    def matrix(array, i, z):
        for o in range(array.shape[1]):
            array[i, o] = z[o]

    return vector if array.ndim == 1 else matrix


@overload(keep, jit_options=OPTIONS)
def _keep(coefs, k, weight, g):
    def vector(coefs, k, weight, g):
        coefs[k] = weight * g

    def matrix(coefs, k, weight, g):  # a vector loss leaves its derivative in coefs[k]
        for o in range(coefs.shape[1]):
            coefs[k, o] *= weight

    return vector if coefs.ndim == 1 else matrix


@overload(exchange, jit_options=OPTIONS)
def _exchange(table, c, coefs, k, weight, g):
    """coefs[k] = weight * (g - table[c]); table[c] = g."""

    def vector(table, c, coefs, k, weight, g):
        coefs[k] = weight * (g - table[c])
        table[c] = g

    def matrix(table, c, coefs, k, weight, g):  # a vector loss leaves its derivative in coefs[k]
        for o in range(coefs.shape[1]):
            new = coefs[k, o]
            coefs[k, o] = weight * (new - table[c, o])
            table[c, o] = new

    return vector if coefs.ndim == 1 else matrix
