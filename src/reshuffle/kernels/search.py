"""P along a line: the search of a Newton step, which reads margins alone."""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from reshuffle.kernels.faces import clip, contains, penalty_change
from reshuffle.kernels.loss import loss_at
from reshuffle.kernels.options import KERNEL, LOOP, OPTIONS
from reshuffle.kernels.passes import BLOCK

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 16.0 * EPS  # of P: the error of one evaluation, with room for sums over many rows
ARMIJO = 0.1  # of the promised decrease, that a step has to keep
STRAIGHT = 0.9  # of the promise kept: the line is straight, go on along it
TRIALS = 60  # halvings of a step


def moved(coefs, z, dz, t, i): ...
def along(stamp, targets, weights, params, margins, change, t, coefs): ...
def change_at(stamp, form, targets, weights, params, margins, change, x, d, t, to, coefs): ...
def search(
    stamp, form, targets, weights, params, margins, change, x, d, slope, value, psi, to, coefs
): ...


@overload(moved, jit_options=OPTIONS)
def _moved(coefs, z, dz, t, i):
    """z_i + t dz_i."""

    def vector(coefs, z, dz, t, i):
        return z[i] + t * dz[i]

    def matrix(coefs, z, dz, t, i):
        for o in range(coefs.shape[1]):
            coefs[0, o] = z[i, o] + t * dz[i, o]
        return coefs[0]

    return vector if z.ndim == 1 else matrix


@overload(along, jit_options=LOOP, prefer_literal=True)
def _along(stamp, targets, weights, params, margins, change, t, coefs):
    """(1/n) sum_i w_i l(z_i + t dz_i): no row is read."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def loop(stamp, targets, weights, params, margins, change, t, coefs):
        total = 0.0
        for start in range(0, len(targets), BLOCK):
            stop, part = min(start + BLOCK, len(targets)), 0.0
            z, dz = margins[start:stop], change[start:stop]
            y, w = targets[start:stop], weights[start:stop]
            for k in range(len(y)):
                weight = w[k] if w.size > 0 else 1.0
                part += weight * loss_at(stamp, params, moved(coefs, z, dz, t, k), y[k])
            total += part
        return total / len(targets)

    return loop


@overload(change_at, jit_options=LOOP, prefer_literal=True)
def _change_at(stamp, form, targets, weights, params, margins, change, x, d, t, to, coefs):
    """f(x + td) and psi(x + td) - psi(x); to <- x + td, within bounds where t <= 1 promises that."""
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def evaluate(stamp, form, targets, weights, params, margins, change, x, d, t, to, coefs):
        for j in range(x.size):
            to[j] = x[j] + t * d[j]
        if t <= 1.0:
            clip(form, to)
        elif not contains(form, to):
            return np.inf, 0.0
        value = along(stamp, targets, weights, params, margins, change, t, coefs)
        return value, penalty_change(form, x, to)

    return evaluate


@overload(search, jit_options=LOOP, prefer_literal=True)
def _search(
    stamp, form, targets, weights, params, margins, change, x, d, slope, value, psi, to, coefs
):
    """The length of the step d from x, and x + td in ``to``; 0 where none lowers P as promised.

    ``slope`` is <grad f(x), d>, ``value`` f(x) and ``psi`` psi(x).
    """
    if not hasattr(stamp, "literal_value"):  # numba's second try, after one that failed
        return None

    def halve(
        stamp, form, targets, weights, params, margins, change, x, d, slope, value, psi, to, coefs
    ):
        objective = value + psi
        f, rise = change_at(
            stamp, form, targets, weights, params, margins, change, x, d, 1.0, to, coefs
        )
        promised = slope + rise
        if not (promised < 0.0 and promised > -np.inf):
            return 0.0
        t, best, reached = 1.0, 0.0, objective
        for trial in range(TRIALS):
            if trial > 0:
                f, rise = change_at(
                    stamp, form, targets, weights, params, margins, change, x, d, t, to, coefs
                )
            here = f + (psi + rise)
            if best > 0.0 and not here < reached:
                break
            if here <= objective + ARMIJO * t * promised:
                best, reached = t, here
                if t == 1.0:
                    break
            elif t == 1.0 and -promised <= ROUNDING * abs(objective) and here <= objective:
                return t
            t *= 0.5
            if -t * promised < EPS * abs(objective):
                break
        # a step that met next to no curvature (half of the promise is what a parabola keeps)
        if best == 1.0 and objective - reached > STRAIGHT * -promised:
            for _ in range(TRIALS):
                f, rise = change_at(
                    stamp, form, targets, weights, params, margins, change, x, d, 2.0 * best, to,
                    coefs,
                )  # fmt: skip
                if not f + (psi + rise) < reached:
                    break
                best, reached = 2.0 * best, f + (psi + rise)
        if best > 0.0:
            for j in range(x.size):
                to[j] = x[j] + best * d[j]
            if best <= 1.0:
                clip(form, to)
        return best

    return halve


@cache
def search_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(form, targets, weights, params, margins, change, x, d, slope, value, psi, to, coefs):
        return search(
            stamp, form, targets, weights, params, margins, change, x, d, slope, value, psi, to,
            coefs,
        )  # fmt: skip

    return kernel
