"""Latent group norms: a point of the dual ball near a given one, and how far a prox is from its minimum."""

from __future__ import annotations

from math import sqrt

from numba import njit

from reshuffle.kernels.options import KERNEL

ROUNDED = 1e-14  # of x_g: a sphere that is met so closely counts as met, as for an x that differs by no more


@njit(**KERNEL)
def into_balls(y, members, starts, bounds, inside):
    """inside <- y with |inside_g| <= bounds_g for every g: a coordinate shrinks as the tightest of its groups asks."""
    inside[:] = 1.0
    for g in range(bounds.size):
        square = 0.0
        for k in range(starts[g], starts[g + 1]):
            square += y[members[k]] * y[members[k]]
        norm = sqrt(square)
        if norm > bounds[g]:
            for k in range(starts[g], starts[g + 1]):
                inside[members[k]] = min(inside[members[k]], bounds[g] / norm)
    for j in range(y.size):
        inside[j] *= y[j]


@njit(**KERNEL)
def apart_from_support(y, parts, members, starts, bounds):
    """sum_g bounds_g |v_g| - <y, v_g> for a y in the balls: not negative, 0 where each v_g is a multiple of y_g on its sphere.

    With z = bounds_g v_g/|v_g|, a summand is |v_g| (|y_g - z|^2 + bounds_g^2 - |y_g|^2) / (2 bounds_g), which rounding keeps
    much smaller than the difference.
    """
    total = 0.0
    for g in range(bounds.size):
        bound = bounds[g]
        size = inner = 0.0
        for k in range(starts[g], starts[g + 1]):
            size += parts[k] * parts[k]
            inner += y[members[k]] * y[members[k]]
        if not size > 0.0 or not bound > 0.0:  # where the bound is 0, so is y_g
            continue
        norm, length = sqrt(size), sqrt(inner)
        away = 0.0
        for k in range(starts[g], starts[g + 1]):
            difference = y[members[k]] - bound * parts[k] / norm
            away += difference * difference
        slack = max(bound - length - ROUNDED * (bound + norm), 0.0)
        total += norm * (away + slack * (bound + length)) / (2.0 * bound)
    return total


@njit(**KERNEL)
def latent_gap(x, rest, parts, members, starts, bounds, point):
    """A bound on Phi(u) - min Phi, Phi(u) = |u - x|^2 / 2 + Omega(u), at u = sum_g v_g, which is written to ``point``.

    Omega(u) <= sum_g bounds_g |v_g|. With y, ``rest`` brought into the balls, Omega(w) >= <y, w> for every w: y is an
    epsilon-subgradient of Omega at u, with the epsilon of ``apart_from_support``, and r = y - rest is one of Phi, so that
    Phi(u) - min Phi <= epsilon + |r|^2 / 2.
    """
    into_balls(rest, members, starts, bounds, point)
    gap = apart_from_support(point, parts, members, starts, bounds)
    for j in range(x.size):
        gap += 0.5 * (point[j] - rest[j]) ** 2
    point[:] = 0.0
    for k in range(members.size):
        point[members[k]] += parts[k]
    return gap
