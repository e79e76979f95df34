"""Total variation on a graph, exactly, by a sequence of maximum flows.

    min_u  sum_i (u_i - y_i)^2 / 2 + sum_e bounds_e |u_i - u_j|,    e = (i, j)

The dual is a flow z with |z_e| <= bounds_e, and u_i = y_i - (what leaves i). A block of nodes starts as the
whole graph; let t be its mean of u. Flow is sent from nodes above t to nodes below it. If nothing is left
above, u = t on the block, and the block is done. If not, the nodes that what is left can reach have all
their edges to the rest of the block full: there u >= t, on the rest u <= t, and each side goes on alone
(Hochbaum, 2001; Chambolle and Darbon, 2009). The flow of one level is the start of the next. The blocks of a
level are treated at once.

The flow is Dinic's: the nodes' distances from those above, then paths along growing distances only.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from reshuffle.kernels.options import KERNEL

ROUNDING = (
    1e-14  # of the largest |y - mean|: less than this is neither left above t nor room on an edge
)


@njit(**KERNEL)
def cut_prox(y, first, target, edge, tail, bounds, u):
    """u <- the minimiser. Returns the number of levels.

    The arcs of node i are first[i] ... first[i + 1] - 1: the neighbour ``target``, the number of the ``edge``,
    and whether i is its ``tail`` (z_e counts from tail to head).
    """
    n = y.size
    mean, total, largest = y.mean(), 0.0, 0.0
    for i in range(n):
        total += abs(y[i] - mean)
        largest = max(largest, abs(y[i] - mean))
        u[i] = y[i] - mean  # counted from the mean, so that a common shift costs no digits
    tiny = ROUNDING * largest
    room = np.minimum(bounds, total)  # no more than that ever flows
    z = np.zeros(bounds.size)
    block, count = np.zeros(n, dtype=np.int64), 1
    done = np.zeros(n + 1, dtype=np.bool_)
    excess, reach, pointer = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    queue, path = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    sums, sizes = np.empty(n + 1), np.empty(n + 1, dtype=np.int64)
    levels = 0
    while True:
        sums[:count] = 0.0
        sizes[:count] = 0
        for i in range(n):
            sums[block[i]] += u[i]
            sizes[block[i]] += 1
        left = False
        for i in range(n):
            b = block[i]
            excess[i] = 0.0 if done[b] else u[i] - sums[b] / sizes[b]
            left = left or abs(excess[i]) > tiny
        if not left:
            break
        levels += 1
        while _distances(excess, first, target, edge, tail, room, z, block, tiny, reach, queue):
            _send(excess, first, target, edge, tail, room, z, block, tiny, reach, pointer, path)
        for i in range(n):
            b = block[i]
            if not done[b]:
                u[i] = sums[b] / sizes[b] + excess[i]
        count = _split(block, reach, done, count, sizes)
    _level(y, mean, first, target, edge, tail, block, z, room, sums, sizes, count, u)
    return levels


@njit(nogil=True, error_model="numpy", inline="always")
def _spare(a, edge, tail, room, z):
    """What still fits through an arc."""
    e = edge[a]
    return room[e] - z[e] if tail[a] else room[e] + z[e]


@njit(nogil=True, error_model="numpy")
def _distances(excess, first, target, edge, tail, room, z, block, tiny, reach, queue):
    """Each node's distance from those with something left, -1 where none is; whether one below is reached."""
    n, size, found = excess.size, 0, False
    for i in range(n):
        reach[i] = -1
        if excess[i] > tiny:
            reach[i] = 0
            queue[size] = i
            size += 1
    k = 0
    while k < size:
        i = queue[k]
        k += 1
        for a in range(first[i], first[i + 1]):
            j = target[a]
            if reach[j] < 0 and block[j] == block[i] and _spare(a, edge, tail, room, z) > tiny:
                reach[j] = reach[i] + 1
                queue[size] = j
                size += 1
                found = found or excess[j] < -tiny
    return found


@njit(nogil=True, error_model="numpy")
def _send(excess, first, target, edge, tail, room, z, block, tiny, reach, pointer, path):
    """Flow along paths of growing distance, until each is blocked. ``path`` holds the arcs from the source."""
    for i in range(excess.size):
        pointer[i] = first[i]
    for source in range(excess.size):
        if reach[source] != 0:
            continue
        length, i = 0, source
        while excess[source] > tiny:
            if excess[i] < -tiny:  # at the end of a path: send what fits
                amount = min(excess[source], -excess[i])
                for k in range(length):
                    amount = min(amount, _spare(path[k], edge, tail, room, z))
                cut = length
                for k in range(length - 1, -1, -1):
                    a = path[k]
                    z[edge[a]] += amount if tail[a] else -amount
                    if _spare(a, edge, tail, room, z) <= tiny:
                        cut = k
                excess[source] -= amount
                excess[i] += amount
                if cut < length:  # back to where the first full arc starts
                    i = source if cut == 0 else target[path[cut - 1]]
                    length = cut
                continue  # from a sink that is full the path goes on
            advanced = False
            while pointer[i] < first[i + 1]:
                a = pointer[i]
                j = target[a]
                if (
                    reach[j] == reach[i] + 1
                    and block[j] == block[i]
                    and _spare(a, edge, tail, room, z) > tiny
                ):
                    path[length] = a
                    length += 1
                    i = j
                    advanced = True
                    break
                pointer[i] += 1
            if not advanced:
                if length == 0:
                    break
                length -= 1
                i = source if length == 0 else target[path[length - 1]]
                pointer[i] += 1


@njit(nogil=True, error_model="numpy")
def _split(block, reach, done, count, sizes):
    """New blocks for the nodes that were reached; a block of which none or all were is done. Their number."""
    reached = np.zeros(count, dtype=np.int64)
    for i in range(block.size):
        if reach[i] >= 0:
            reached[block[i]] += 1
    fresh, more = np.full(count, -1), count
    for b in range(count):
        if done[b] or reached[b] == 0 or reached[b] == sizes[b]:
            done[b] = True
        else:
            fresh[b] = more
            done[more] = False
            more += 1
    for i in range(block.size):
        b = block[i]
        if reach[i] >= 0 and fresh[b] >= 0:
            block[i] = fresh[b]
    return more


@njit(nogil=True, error_model="numpy")
def _level(y, mean, first, target, edge, tail, block, z, room, sums, sizes, count, u):
    """u on each block anew, from its mean and the edges to other blocks, which are full."""
    sums[:count] = 0.0
    sizes[:count] = 0
    for i in range(y.size):
        b = block[i]
        sums[b] += y[i] - mean
        sizes[b] += 1
        for a in range(first[i], first[i + 1]):
            if block[target[a]] != b:
                flow = room[edge[a]] if z[edge[a]] > 0.0 else -room[edge[a]]
                sums[b] -= flow if tail[a] else -flow
    for i in range(y.size):
        u[i] = mean + sums[block[i]] / sizes[block[i]]
