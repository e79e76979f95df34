"""The quadratic model of a Newton step, with its penalty, minimised to the last digits.

    min_u  m(u) = g^T (u - x) + (u - x)^T H (u - x) / 2 + psi(u),        r = g + H (u - x).

Sweeps of coordinate descent find the face: which coordinates rest at zero or at a bound. They see no
scale of columns, but correlated columns make them slow. So each round ends with a Newton step on the
face, where psi is smooth: one Cholesky factorisation, scaled to a unit diagonal so that it does not
see scales either, and the step cut where a coordinate would change its sign or leave its bounds. Where
the face still changes after a few rounds (strongly correlated columns: sweeps let coordinates go that
the next step on the face brings back), one coordinate at a time is let go: an active-set method.

psi comes as a compiled form (``penalties/forms.py``), with code of its own for five operations in
``kernels/faces.py``.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numba import njit

from reshuffle.kernels.faces import (
    face,
    first_kink,
    penalty_change,
    release,
    retract,
    stiffen,
    sweep,
    unbounded,
)
from reshuffle.kernels.options import KERNEL, LOOP
from reshuffle.kernels.room import room_in

SWEEPS = 30  # of a round at most
SLOW = (
    0.7  # of the gain of the last sweep: sweeps that gain more than this of it are left for a step
)
FEW_STEPS = 4  # on a face that sweeps may still change: each is a factorisation
SWEEPING = 12  # rounds that begin with sweeps; the next ones let one coordinate (or group) go
STEPS = 10  # on a face, beyond one for every coordinate that may have to come to rest
NOISE = 1e-6  # of the decrease: a gain that may be rounding, where it is no less than the last one
PIVOT = 1e-13  # of a unit diagonal: below it a column is a combination of others, up to rounding
LARGEST = 4000  # coordinates of a face: its factorisation takes a third of the cube of that
HALVINGS = 40  # of a step on the face: it then moves nothing that can be seen


@njit(**LOOP)
def factorise(matrix, scales, size):
    """matrix <- L with L L^T = D M D, D M D of unit diagonal; D in scales. Counts the weak pivots.

    A pivot below PIVOT is lifted to it: the step along such a direction is long where the slope asks
    for it (until a kink stops it), and lost in rounding where it does not.
    """
    for i in range(size):
        scales[i] = 1.0 / sqrt(matrix[i, i]) if matrix[i, i] > 0.0 else 0.0
    weak = 0
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j] * scales[i] * scales[j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if j < i:
                matrix[i, j] = total / matrix[j, j]
            else:
                if not total > PIVOT:
                    weak += 1
                    total = PIVOT
                matrix[i, i] = sqrt(total)
    return weak


@njit(**LOOP)
def solve_factored(matrix, scales, b, size):
    """b <- M^{-1} b; returns b^T M^{-1} b."""
    power = 0.0
    for i in range(size):
        total = b[i] * scales[i]
        for k in range(i):
            total -= matrix[i, k] * b[k]
        b[i] = total / matrix[i, i]
        power += b[i] * b[i]
    for i in range(size - 1, -1, -1):
        b[i] /= matrix[i, i]
        for k in range(i):
            b[k] -= matrix[i, k] * b[i]
    for i in range(size):
        b[i] *= scales[i]
    return power


@njit(**LOOP)
def product(H, v, out):
    """out = H v, for a v with many zeros; H is symmetric."""
    for k in range(out.size):
        out[k] = 0.0
    for j in range(v.size):
        if v[j] != 0.0:
            c = v[j]
            for k in range(out.size):
                out[k] += c * H[j, k]


@njit(**LOOP)
def null_vector(room, count, out):
    """out = a direction in which M has no curvature, up to rounding: all that are weak, together.

    For a pivot lifted to PIVOT, PIVOT * M^{-1} e_i is the null vector that ends in i.
    """
    matrix, scales, b = room.matrix, room.scales, room.v
    for i in range(count):
        b[i] = 0.0
        if matrix[i, i] * matrix[i, i] <= 2.0 * PIVOT and scales[i] > 0.0:
            b[i] = (PIVOT if i % 2 == 0 else -PIVOT) / scales[i]
    solve_factored(matrix, scales, b, count)
    length = 0.0
    for j in range(out.size):
        out[j] = 0.0
    for i in range(count):
        out[room.where[i]] = b[i]
        if scales[i] > 0.0:
            length += abs(b[i]) / scales[i]
    return length


@njit(**LOOP)
def face_step(form, H, u, room):
    """One Newton step on the face: (gain, promise not kept, |null|)."""
    size, count = u.size, 0
    index, matrix, free, slopes = room.where, room.matrix, room.free, room.slopes
    r, step, to, bent, b = room.r, room.step, room.to, room.bent, room.b
    face(form, u, free, slopes)
    for j in range(size):  # without a column there is nothing to solve for
        if free[j] and H[j, j] > 0.0:
            index[count] = j
            count += 1
    if count == 0:
        return 0.0, 0.0, 0.0
    if count > LARGEST:  # sweeps alone prove nothing
        return 0.0, np.inf, 0.0
    for k in range(count):
        b[k] = -(r[index[k]] + slopes[index[k]])
        for other in range(k + 1):
            matrix[k, other] = H[index[k], index[other]]
    stiffen(form, u, index, count, matrix, room.place)
    length, weak = 0.0, factorise(matrix, room.scales, count)
    promised = 0.5 * solve_factored(matrix, room.scales, b, count)
    if not promised < np.inf:
        return 0.0, np.inf, 1.0
    if weak > 0:
        length = null_vector(room, count, room.null)
    until = first_kink(form, u, index, count, b)
    t = 1.0
    for trial in range(HALVINGS):
        if trial > 0:  # the whole step, the step up to the first kink, halves of that
            t = until if trial == 1 else 0.5 * t
        for j in range(size):
            to[j] = u[j]
        for k in range(count):
            to[index[k]] += t * b[k]
        retract(form, u, to, t == until)
        for j in range(size):
            step[j] = to[j] - u[j]
        product(H, step, bent)
        change = penalty_change(form, u, to)
        for j in range(size):
            change += step[j] * (r[j] + 0.5 * bent[j])
        # a parabola goes down by what it promised at most: more is an H with rounded, so negative,
        # curvature along a step that is far too long
        if -4.0 * promised <= change and change <= -0.1 * t * promised:
            for j in range(size):
                u[j] = to[j]
                r[j] += bent[j]
            return -change, (0.0 if t == 1.0 and until == 1.0 else promised), length
    return 0.0, promised, length


@njit(**LOOP)
def minimise(form, H, g, x, u, accuracy, floor, rounds, room):
    """Minimise the model from u = x, in place; (decrease, left, |null|, rounds).

    It stops after a round that gained at most ``accuracy`` times the whole decrease, or ``floor``: a
    measure in units of P, which no scale of columns or rows changes. ``left`` is what that round
    gained, and what its last step on the face promised but could not keep. ``room.null`` gets a
    direction in which the last face has no curvature, and |null| is its length in units in which every column
    has curvature 1; zero where there is none. The decrease is infinite where there is no minimum.
    """
    size = u.size
    r, step = room.r, room.step
    total, gain, last, kept, length, made = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for j in range(size):
        step[j] = u[j] - x[j]
    for k in range(rounds):
        made += 1
        product(H, step, r)  # afresh: no rounding gathers over the rounds
        for j in range(size):
            r[j] += g[j]
        if k < SWEEPING:
            before, gain, slow = np.inf, 0.0, True
            for _more in range(SWEEPS):
                more = sweep(form, H, r, u, room)
                gain += more
                if not more > max(0.1 * accuracy * (total + gain), floor):
                    slow = False
                    break
                if more > SLOW * before:
                    break
                before = more
        else:
            gain = release(form, H, r, u, room)
        if k < SWEEPING and not slow and accuracy > NOISE:
            total += gain  # sweeps alone were enough for a rough answer
            break
        for _step in range(FEW_STEPS if k < SWEEPING else size + STEPS):
            more, kept, length = face_step(form, H, u, room)
            gain += more
            if kept <= max(0.1 * accuracy * (total + gain), floor) or not more > 0.0:
                break
        total += gain
        for j in range(size):
            step[j] = u[j] - x[j]
        if not gain > max(accuracy * total, floor):
            break
        if k > 1 and gain > 0.5 * last and gain < NOISE * total:
            break  # no longer less from round to round: this is rounding
        last = gain
    if unbounded(form, H, r, u):
        total = np.inf
    return total, gain + kept, length, made


@cache
def model_kernel(stamp: int) -> Any:
    @njit(**KERNEL)
    def kernel(form, H, g, x, u, accuracy, floor, rounds, null, rented):
        _ = stamp
        room = room_in(rented)
        for j in range(u.size):
            room.null[j] = 0.0
        found = minimise(form, H, g, x, u, accuracy, floor, rounds, room)
        for j in range(u.size):
            null[j] = room.null[j]
        return found

    return kernel
