"""Total variation along a chain, exactly and in linear time.

    min_u  sum_j (u_j - y_j)^2 / 2 + sum_j bounds_j |u_{j+1} - u_j|

Dynamic programming (Johnson, 2013): the derivative of the best value up to j, as a function of u_j, is
increasing and piecewise linear. The next coordinate sees it clipped to [-bounds_j, bounds_j]; clipping
takes knots away at both ends and puts two new ones there, so that all knots together cost O(n). Going
back, u_j is u_{j+1} clipped to where the derivative was clipped.

A bound of 0 between two coordinates separates them: many chains are one chain.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from reshuffle.kernels.options import KERNEL


@njit(**KERNEL)
def chain_prox(y, bounds, u):
    """u <- the minimiser; ``bounds`` has one number less than y."""
    n = y.size
    # a knot: its place, and by how much slope and offset of the derivative change there
    place, slope, offset = np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
    low, high = np.empty(n), np.empty(n)  # where the derivative reaches -bound and +bound
    left, right = n, n - 1  # the first and the last knot
    first, last = -y[0], -y[0]  # offsets of the outermost pieces, whose slope is 1
    for j in range(n - 1):
        bound = bounds[j]
        s, c = 1.0, first
        while left <= right and s * place[left] + c < -bound:
            s += slope[left]
            c += offset[left]
            left += 1
        # the new knot takes the room of one that went, or lies beside the others: left <= right
        low[j] = (-bound - c) / s
        left -= 1
        place[left], slope[left], offset[left] = low[j], s, c + bound
        s, c = 1.0, last
        while right > left and s * place[right] + c > bound:
            s -= slope[right]
            c -= offset[right]
            right -= 1
        high[j] = max((bound - c) / s, low[j])
        right += 1
        place[right], slope[right], offset[right] = high[j], -s, bound - c
        first, last = -bound - y[j + 1], bound - y[j + 1]
    s, c = 1.0, first
    while left <= right and s * place[left] + c < 0.0:
        s += slope[left]
        c += offset[left]
        left += 1
    u[n - 1] = -c / s
    for j in range(n - 2, -1, -1):
        u[j] = min(max(u[j + 1], low[j]), high[j])
    _settle(y, bounds, u)


@njit(nogil=True, error_model="numpy")
def _settle(y, bounds, u):
    """The value of each constant stretch anew, from its mean and its two ends: free of what the knots summed up."""
    n, start, before = y.size, 0, 0.0
    while start < n:
        level, total, count = u[start], 0.0, 0
        stop = start
        while stop < n and u[stop] == level:
            total += y[stop] - level
            count += 1
            stop += 1
        after = 0.0
        if stop < n:
            after = bounds[stop - 1] if u[stop] > level else -bounds[stop - 1]
        value = level + (total + after - before) / count
        for j in range(start, stop):
            u[j] = value
        start, before = stop, after


@njit(**KERNEL)
def chain_holds(g, bounds, l1):
    """Whether g = e + D^T z for some |e| <= l1 and |z| <= bounds: the intervals where z_j can be."""
    low = high = 0.0
    for j in range(g.size):
        bound = bounds[j] if j < bounds.size else 0.0
        low = max(low + g[j] - l1, -bound)
        high = min(high + g[j] + l1, bound)
        if low > high:
            return False
    return True
