"""The quadratic model in one coordinate, or one group, at a time: exact, whatever its scale.

r is the gradient of the quadratic at u, and is kept up to date; H is symmetric.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from reshuffle.kernels.options import LOOP

STEPS = 60  # of the search for the norm of a group: bisection alone would find it to rounding
CLOSE = 1e-13  # of what is searched for: a few digits more than a sweep has to have
PROXES = 30  # of the majorised solve of a group with l1 > 0; the steps on the face do the rest


@njit(**LOOP)
def shift_coordinate(H, r, u, j, value):
    """u_j <- value, and r with it."""
    change = value - u[j]
    if change != 0.0:
        u[j] = value
        for k in range(r.size):
            r[k] += change * H[j, k]


@njit(**LOOP)
def descend_coordinate(H, r, u, j, l1, l2, low, high):
    """The best u_j alone; the decrease of the model."""
    gain, value = best_coordinate(H, r, u, j, l1, l2, low, high)
    shift_coordinate(H, r, u, j, value)
    return gain


@njit(**LOOP)
def best_coordinate(H, r, u, j, l1, l2, low, high):
    """The decrease of the model by the best u_j alone, and that u_j."""
    h = H[j, j]
    bend, b = h + l2, h * u[j] - r[j]
    if bend > 0.0:
        pull = abs(b) - l1
        value = (pull if b > 0.0 else -pull) / bend if pull > 0.0 else 0.0
    elif abs(r[j]) > l1:  # a slope without curvature: as far as there is a bound
        value = low if r[j] > 0.0 else high
        value = value if abs(value) < np.inf else u[j]
    else:  # a column of zeros: nothing but the penalty moves it
        value = 0.0 if l1 > 0.0 else u[j]
    value = low if value < low else high if value > high else value
    step = value - u[j]
    gain = -step * (r[j] + 0.5 * h * step + 0.5 * l2 * (value + u[j]))
    gain -= l1 * (abs(value) - abs(u[j]))
    return max(gain, 0.0), value


@njit(**LOOP)
def descend_free(H, r, u, start):
    """The coordinates without a penalty."""
    gain = 0.0
    for j in range(start, u.size):
        gain += descend_coordinate(H, r, u, j, 0.0, 0.0, -np.inf, np.inf)
    return gain


@njit(**LOOP)
def norm_of(u, members):
    total = 0.0
    for k in range(members.size):
        total += u[members[k]] * u[members[k]]
    return sqrt(total)


@njit(**LOOP)
def soft(value, l1):
    pull = abs(value) - l1
    return 0.0 if not pull > 0.0 else pull if value > 0.0 else -pull


@njit(**LOOP)
def solve_shifted(H, members, shift, b, L, v):
    """v = (B + shift I)^{-1} b for the block B of H, by Cholesky with pivots kept above the shift; ||v||."""
    size = members.size
    for i in range(size):
        for j in range(i + 1):
            total = H[members[i], members[j]] + (shift if i == j else 0.0)
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if j < i:
                L[i, j] = total / L[j, j]
            else:
                L[i, i] = sqrt(max(total, shift))
    for i in range(size):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * v[k]
        v[i] = total / L[i, i]
    for i in range(size - 1, -1, -1):
        v[i] /= L[i, i]
        for k in range(i):
            v[k] -= L[i, k] * v[i]
    total = 0.0
    for i in range(size):
        total += v[i] * v[i]
    return sqrt(total)


@njit(**LOOP)
def descend_group(H, r, u, members, l1, l2, strength, room):
    """The best x_g alone: exact without l1, by majorised steps with it; the decrease of the model."""
    size, L, b, v, w = members.size, room.matrix, room.b, room.v, room.w
    trace, flat, pull = 0.0, True, 0.0
    for a in range(size):
        b[a], v[a] = -r[members[a]], u[members[a]]
        for c in range(size):
            b[a] += H[members[a], members[c]] * u[members[c]]
        trace += H[members[a], members[a]]
        flat = flat and l1[members[a]] == 0.0
        pull += soft(b[a], l1[members[a]]) ** 2
    pull = sqrt(pull)
    if pull <= strength or not trace + l2 > 0.0:
        if not (strength > 0.0 or pull == 0.0):
            return 0.0
        for a in range(size):
            v[a] = 0.0
    elif flat:
        # sigma ||(B + (l2 + sigma) I)^{-1} b|| = strength; the left side rises with sigma, from 0 to
        # ||b||. Newton's steps for 1 / ||...|| = sigma / strength, two sides that are nearly straight, from what
        # sigma is for x_g as it was, kept within what is known of the root
        low, high, norm = 0.0, strength * (trace + l2) / (pull - strength), norm_of(u, members)
        sigma = min(strength / norm, high) if norm > 0.0 else high
        for _ in range(STEPS):
            norm = solve_shifted(H, members, l2 + sigma, b, L, v)
            over = sigma * norm - strength
            if over > 0.0:
                high = sigma
            else:
                low = sigma
            if abs(over) <= CLOSE * strength or high - low <= CLOSE * high:
                break
            bent = 0.0  # ||L^{-1} v||^2
            for i in range(size):
                total = v[i]
                for k in range(i):
                    total -= L[i, k] * w[k]
                w[i] = total / L[i, i]
                bent += w[i] * w[i]
            sigma -= (1.0 / norm - sigma / strength) / (bent / norm**3 - 1.0 / strength)
            if not (low < sigma and sigma < high):
                sigma = 0.5 * (low + high)
    else:
        for _ in range(PROXES):  # the trace is no less than the largest eigenvalue
            norm, moved = 0.0, 0.0
            for a in range(size):
                total = trace * v[a] + b[a]
                for c in range(size):
                    total -= H[members[a], members[c]] * v[c]
                w[a] = soft(total, l1[members[a]])
                norm += w[a] * w[a]
            norm = sqrt(norm)
            factor = (1.0 - strength / norm) / (trace + l2) if norm > strength else 0.0
            for a in range(size):
                moved = max(moved, abs(factor * w[a] - v[a]))
                v[a] = factor * w[a]
            if moved == 0.0:
                break
    return move_group(H, r, u, members, l1, l2, strength, v)


@njit(**LOOP)
def move_group(H, r, u, members, l1, l2, strength, v):
    """u_g <- v where that lowers the model; by how much."""
    size, change, before, after, cross = members.size, 0.0, 0.0, 0.0, 0.0
    for a in range(size):
        j = members[a]
        step, both = v[a] - u[j], v[a] + u[j]
        change += step * (r[j] + 0.5 * l2 * both) + l1[j] * (abs(v[a]) - abs(u[j]))
        for c in range(size):
            change += 0.5 * step * H[j, members[c]] * (v[c] - u[members[c]])
        before, after, cross = before + u[j] * u[j], after + v[a] * v[a], cross + step * both
    ends = sqrt(before) + sqrt(after)
    change += strength * cross / ends if ends > 0.0 else 0.0
    if not change < 0.0:
        return 0.0
    for a in range(size):
        shift_coordinate(H, r, u, members[a], v[a])
    return -change


@njit(**LOOP)
def descend_members(H, r, u, members, l1, l2, strength):
    """The coordinates of a group with l1 one by one, where the others keep its norm smooth; the decrease.

    A majorised step of a group sees its largest column alone; this sees every column as it is. A group without l1 has
    been solved exactly.
    """
    total, flat = 0.0, True
    for a in range(members.size):
        flat = flat and l1[members[a]] == 0.0
    if flat:
        return total
    for a in range(members.size):
        j = members[a]
        rest = 0.0
        for c in range(members.size):
            if c != a:
                rest += u[members[c]] * u[members[c]]
        rest = sqrt(rest)
        bend = H[j, j] + l2
        if not (rest > 0.0 and bend > 0.0):
            continue
        b = H[j, j] * u[j] - r[j]
        pull = abs(b) - l1[j]
        value = 0.0
        if pull > 0.0:  # bend v + strength v / sqrt(v^2 + rest^2) = pull: the left side rises
            low, high = pull / (bend + strength / rest), pull / bend
            for _ in range(2 * STEPS):
                middle = sqrt(low) * sqrt(high)
                if bend * middle + strength * middle / sqrt(middle * middle + rest * rest) < pull:
                    low = middle
                else:
                    high = middle
                if high - low <= 1e-14 * high:
                    break
            value = high if b > 0.0 else -high
        step = value - u[j]
        ends = sqrt(value * value + rest * rest) + sqrt(u[j] * u[j] + rest * rest)
        change = step * (r[j] + 0.5 * H[j, j] * step + 0.5 * l2 * (value + u[j]))
        change += l1[j] * (abs(value) - abs(u[j])) + strength * step * (value + u[j]) / ends
        if change < 0.0:
            total -= change
            shift_coordinate(H, r, u, j, value)
    return total
