"""The projection onto an intersection of cylinders, by multipliers: the prox of the latent group lasso.

    min_y  |y - x|^2 / 2   with  |y_g| <= bounds_g for every group g

With a multiplier m_g >= 0 per group and s_j = 1 + (the sum of those of the groups of j), y = x / s. The multipliers minimise the
convex d(m) = sum_j x_j^2 / (2 s_j) + sum_g m_g bounds_g^2 / 2, and the parts of x - y are v_g = m_g y_g. 1/|y_g| is nearly linear
in m, so that Newton's method on 1/|y_g| = 1/bounds_g takes few steps (Villa, Rosasco, Mosci, Verri, 2014, take a projected Newton
method on d). ``penalties.cylinder_newton`` has the steps for what this does not solve.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from reshuffle.kernels.latent import latent_gap
from reshuffle.kernels.options import KERNEL

SECULAR = 3  # steps of Newton's method for one multiplier: the next pass comes back to it
PRODUCTS = 100  # of the conjugate gradients of one step
FORCED = 1e-2  # of the residual, where they end: passes between the steps do the rest
FLAT = 1e-12  # of the diagonal, added to it: groups that are equal have one multiplier too many


@njit(**KERNEL)
def cylinder_pass(x, members, starts, bounds, multipliers, s):
    """Each multiplier in turn to its root of 1/|y_g| = 1/bounds_g, or to zero, with the others as they are."""
    for g in range(bounds.size):
        old = multipliers[g]
        m = old
        for _ in range(SECULAR):
            square = slope = 0.0
            for k in range(starts[g], starts[g + 1]):
                j = members[k]
                y = x[j] / (s[j] - old + m)
                square += y * y
                slope += y * y / (s[j] - old + m)
            if not slope > 0.0:
                m = 0.0
                break
            m = max(m + square * (sqrt(square) / bounds[g] - 1.0) / slope, 0.0)
        multipliers[g] = m
        for k in range(starts[g], starts[g + 1]):
            s[members[k]] += m - old


@njit(**KERNEL)
def cylinder_state(x, members, starts, bounds, multipliers, s, y, parts, point):
    """s, y and the parts of these multipliers. Returns d, and the gap of ``latent_gap`` for the point x - y."""
    s[:] = 1.0
    d = 0.0
    for g in range(bounds.size):
        d += 0.5 * multipliers[g] * bounds[g] * bounds[g]
        for k in range(starts[g], starts[g + 1]):
            s[members[k]] += multipliers[g]
    for j in range(x.size):
        y[j] = x[j] / s[j]
        d += 0.5 * x[j] * y[j]
    for g in range(bounds.size):
        for k in range(starts[g], starts[g + 1]):
            parts[k] = multipliers[g] * y[members[k]]
    return d, latent_gap(x, y, parts, members, starts, bounds, point)


@njit(**KERNEL)
def cylinder_step(members, starts, bounds, multipliers, s, y):
    """The multipliers after Newton's step, by conjugate gradients on those that are positive or have to be."""
    count = bounds.size
    residual, diagonal, weight = np.zeros(count), np.ones(count), y * y / s
    for g in range(count):
        square = total = 0.0
        for k in range(starts[g], starts[g + 1]):
            square += y[members[k]] * y[members[k]]
            total += weight[members[k]]
        if total > 0.0 and (multipliers[g] > 0.0 or sqrt(square) > bounds[g]):
            residual[g] = square * (sqrt(square) / bounds[g] - 1.0)
            diagonal[g] = total * (1.0 + FLAT)
        else:
            diagonal[g] = 0.0  # not among them
    step, z, product = np.zeros(count), np.zeros(count), np.zeros(count)
    shared = np.empty(s.size)
    for g in range(count):
        if diagonal[g] > 0.0:
            z[g] = residual[g] / diagonal[g]
    direction = z.copy()
    size = residual @ z
    enough = FORCED * FORCED * size
    for _ in range(PRODUCTS):
        if not size > enough:
            break
        shared[:] = 0.0
        for g in range(count):
            if diagonal[g] > 0.0:
                for k in range(starts[g], starts[g + 1]):
                    shared[members[k]] += direction[g]
        for g in range(count):
            product[g] = 0.0
            if diagonal[g] > 0.0:
                for k in range(starts[g], starts[g + 1]):
                    product[g] += weight[members[k]] * shared[members[k]]
                product[g] += FLAT * diagonal[g] * direction[g]
        length = size / (direction @ product)
        old, size = size, 0.0
        for g in range(count):
            if diagonal[g] > 0.0:
                step[g] += length * direction[g]
                residual[g] -= length * product[g]
                z[g] = residual[g] / diagonal[g]
                size += residual[g] * z[g]
        for g in range(count):
            direction[g] = z[g] + size / old * direction[g]
    return np.maximum(multipliers + step, 0.0)


@njit(**KERNEL)
def cylinder_solve(x, members, starts, bounds, gap, most, multipliers, parts, point, y):
    """Passes and Newton's steps until the gap is at most ``gap``. Returns how many rounds, negative where ``most`` do not do.

    A step is kept where it lowers d or halves the gap. ``y`` is the projection, ``point`` the prox, x - y, and
    ``parts`` are those of it.
    """
    size = x.size
    s, trial_point = np.empty(size), np.empty(size)
    trial_s, trial_y, trial_parts = np.empty(size), np.empty(size), np.empty(parts.size)
    d, left = cylinder_state(x, members, starts, bounds, multipliers, s, y, parts, point)
    for k in range(most):
        if not left > gap:  # also where x is not finite
            return k, left
        cylinder_pass(x, members, starts, bounds, multipliers, s)
        d, left = cylinder_state(x, members, starts, bounds, multipliers, s, y, parts, point)
        if not left > gap:
            return k + 1, left
        trial = cylinder_step(members, starts, bounds, multipliers, s, y)
        new, now = cylinder_state(
            x, members, starts, bounds, trial, trial_s, trial_y, trial_parts, trial_point
        )
        if new < d or now < 0.5 * left:
            multipliers[:] = trial
            s[:], y[:], parts[:], point[:] = trial_s, trial_y, trial_parts, trial_point
            left = now
    return -most, left
