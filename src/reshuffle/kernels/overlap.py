"""The prox of norms of overlapping groups, by passes over the groups.

    min_u  |u - x|^2 / 2 + sum_g bounds_g |u_g|,        u = x - sum_g v_g,    |v_g| <= bounds_g

The dual has one vector v_g on each group. With the others fixed, v_g is the projection of rest_g + v_g onto its
ball, rest = x - sum_g v_g. Passes over all groups go to the solution; for groups that are nested or disjoint,
smallest first, one is enough (Jenatton et al., 2011).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from reshuffle.kernels.options import KERNEL

INSIDE = 1.0 - 1e-9  # of a ball's radius: a vector on its boundary is that close to it by rounding
DEPTH = 5  # passes from which the next point is extrapolated; ten were no better
RIDGE = 1e-14  # of the largest entry, on the Gram matrix of the last passes: they become parallel


@njit(**KERNEL)
def overlap_pass(rest, parts, members, starts, bounds):
    """One pass: rest = x - (sum of the parts), which stays true. Returns the squared change of the parts."""
    moved = 0.0
    for g in range(bounds.size):
        square = 0.0
        for k in range(starts[g], starts[g + 1]):
            whole = rest[members[k]] + parts[k]
            square += whole * whole
        norm = sqrt(square)
        share = 1.0 if norm <= bounds[g] else bounds[g] / norm
        for k in range(starts[g], starts[g + 1]):
            j = members[k]
            new = share * (rest[j] + parts[k])
            change = parts[k] - new
            moved += change * change
            rest[j] += change
            parts[k] = new
    return moved


@njit(**KERNEL)
def renew_rest(x, parts, members, rest):
    """rest <- x - (sum of the parts), free of what passes have rounded."""
    rest[:] = x
    for k in range(members.size):
        rest[members[k]] -= parts[k]


@njit(**KERNEL)
def overlap_objective(x, parts, members, starts, bounds, rest):
    """What passes lower, |x - sum of the parts|^2 / 2, after the parts are brought into their balls.

    ``rest`` is renewed.
    """
    total = 0.0
    for g in range(bounds.size):
        square = 0.0
        for k in range(starts[g], starts[g + 1]):
            square += parts[k] * parts[k]
        norm = sqrt(square)
        if norm > bounds[g]:
            for k in range(starts[g], starts[g + 1]):
                parts[k] *= bounds[g] / norm
    renew_rest(x, parts, members, rest)
    for j in range(x.size):
        total += 0.5 * rest[j] * rest[j]
    return total


@njit(**KERNEL)
def overlap_gap(x, rest, parts, members, starts, bounds, clean):
    """A bound on Phi(u) - min Phi, Phi(u) = |u - x|^2 / 2 + sum_g bounds_g |u_g|: the smaller of two.

    At u = rest it is the duality gap sum_g bounds_g |u_g| - <v_g, u_g>, which rounding keeps above some 1e-16.
    ``clean`` is u with zeros in every group whose v_g lies inside its ball, as at the solution. There
    r = u - x + sum_g w_g is a subgradient of Phi, with w_g = bounds_g u_g / |u_g|, and v_g where u_g = 0, so that
    Phi(u) - min Phi <= |r|^2 / 2. Where this one is the smaller, it belongs to ``clean``, which is u = rest elsewhere.
    """
    gap = 0.0
    clean[:] = rest
    for g in range(bounds.size):
        square = inner = size = 0.0
        for k in range(starts[g], starts[g + 1]):
            u = rest[members[k]]
            square += u * u
            inner += parts[k] * u
            size += parts[k] * parts[k]
        gap += max(bounds[g] * sqrt(square) - inner, 0.0)
        if sqrt(size) < INSIDE * bounds[g]:
            for k in range(starts[g], starts[g + 1]):
                clean[members[k]] = 0.0
    residual = clean - x
    for g in range(bounds.size):
        square = 0.0
        for k in range(starts[g], starts[g + 1]):
            square += clean[members[k]] ** 2
        share = bounds[g] / sqrt(square) if square > 0.0 else 0.0
        for k in range(starts[g], starts[g + 1]):
            j = members[k]
            residual[j] += share * clean[j] if square > 0.0 else parts[k]
    left = 0.0
    for j in range(x.size):
        left += 0.5 * residual[j] * residual[j]
    if left < gap:
        return left
    clean[:] = rest
    return gap


@njit(**KERNEL)
def overlap_solve(x, members, starts, bounds, tolerance, gap, most, rest, parts):
    """Passes until one moves the parts by no more than ``tolerance``, or until ``overlap_gap`` is at most ``gap``.

    Returns how many, negative where ``most`` do not do. After every DEPTH passes Anderson's extrapolation of them
    is taken, where it lowers the objective. The gap is looked at after the first two passes (a warm start needs
    no more), and then where an extrapolation begins.
    """
    overlap_objective(x, parts, members, starts, bounds, rest)  # a start may lie outside the balls
    kept = np.empty((DEPTH + 1, parts.size))
    trial, trial_rest = np.empty(parts.size), np.empty(x.size)
    kept[0] = parts
    for k in range(most):
        moved = overlap_pass(rest, parts, members, starts, bounds)
        done = not moved > tolerance * tolerance
        if gap > 0.0 and not done and (k < 2 or k % DEPTH == DEPTH - 1):
            done = overlap_gap(x, rest, parts, members, starts, bounds, trial_rest) <= gap
        if done:
            renew_rest(x, parts, members, rest)
            return k + 1
        kept[k % DEPTH + 1] = parts
        if k % DEPTH == DEPTH - 1:
            if _extrapolate(kept, trial):
                new = overlap_objective(x, trial, members, starts, bounds, trial_rest)
                old = overlap_objective(x, parts, members, starts, bounds, rest)
                if new < old:
                    parts[:] = trial
                    rest[:] = trial_rest
            kept[0] = parts
    return -most


@njit(nogil=True, error_model="numpy")
def _extrapolate(kept, trial):
    """trial <- sum_i c_i kept_{i+1} with sum_i c_i = 1 and the least |sum_i c_i (kept_{i+1} - kept_i)|."""
    depth = kept.shape[0] - 1
    gram = np.empty((depth, depth))
    for i in range(depth):
        for j in range(i + 1):
            total = 0.0
            for k in range(trial.size):
                total += (kept[i + 1, k] - kept[i, k]) * (kept[j + 1, k] - kept[j, k])
            gram[i, j] = gram[j, i] = total
    largest = 0.0
    for i in range(depth):
        largest = max(largest, gram[i, i])
    if not largest > 0.0:
        return False
    for i in range(depth):
        gram[i, i] += RIDGE * largest
    c = _solve_for_ones(gram)
    total = c.sum()
    if not abs(total) > 0.0:
        return False
    trial[:] = 0.0
    for i in range(depth):
        for k in range(trial.size):
            trial[k] += c[i] / total * kept[i + 1, k]
    return True


@njit(nogil=True, error_model="numpy")
def _solve_for_ones(gram):
    """c with gram c = 1, by elimination: the matrix is positive definite and small."""
    size = gram.shape[0]
    c = np.ones(size)
    for i in range(size):
        for j in range(i + 1, size):
            factor = gram[j, i] / gram[i, i]
            for k in range(i, size):
                gram[j, k] -= factor * gram[i, k]
            c[j] -= factor * c[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            c[i] -= gram[i, k] * c[k]
        c[i] /= gram[i, i]
    return c
