"""The operations of the quadratic model that know the penalty, for every compiled form of it.

    sweep            one round of exact minimisation, coordinate by coordinate or group by group
    release          the one coordinate or group off the face whose move gains most, moved
    face             where psi is smooth at u (``free``), and its slopes there
    stiffen          the second derivative of psi on the face, added to a matrix
    first_kink       how far a step on the face may go before psi has a kink
    retract          a point moved back to where psi is as smooth as at u
    unbounded        whether a coordinate without curvature would go on for ever
    penalty_value    psi(u), for a u within its bounds
    penalty_change   psi(to) - psi(u), without the cancellation of two large values
    clip             a point moved within the bounds of psi
    contains         whether it lies within them

Coordinates from ``form.l1.size`` on are not penalised.
"""

# The functions of this file are templates: numba gives them their types when it compiles them.

from __future__ import annotations

import numpy as np
from numba.extending import overload

from reshuffle.kernels.descent import (
    best_coordinate,
    descend_coordinate,
    descend_free,
    descend_group,
    descend_members,
    norm_of,
    shift_coordinate,
)
from reshuffle.kernels.options import OPTIONS
from reshuffle.penalties.forms import Coordinates, Groups

RADIAL = 1.0 - 1e-10  # a norm is straight along x_g, but a difference that small would be rounding
CLOSE = 1e-12  # of a coordinate: what is left of it where a step should have ended at zero


def sweep(form, H, r, u, room): ...
def release(form, H, r, u, room): ...
def face(form, u, free, slopes): ...
def stiffen(form, u, index, count, matrix, place): ...
def first_kink(form, u, index, count, step): ...
def retract(form, u, to, kink): ...
def unbounded(form, H, r, u): ...
def penalty_value(form, u): ...
def penalty_change(form, u, to): ...
def clip(form, u): ...
def contains(form, u): ...


@overload(sweep)
def _sweep(form, H, r, u, room):
    def coordinates(form, H, r, u, room):
        gain = 0.0
        for j in range(form.l1.size):
            gain += descend_coordinate(
                H, r, u, j, form.l1[j], form.l2[j], form.low[j], form.high[j]
            )
        return gain + descend_free(H, r, u, form.l1.size)

    def groups(form, H, r, u, room):
        inside, gain = room.free, 0.0
        for j in range(form.l1.size):
            inside[j] = False
        for g in range(form.strengths.size):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            for k in range(members.size):
                inside[members[k]] = True
            gain += descend_group(H, r, u, members, form.l1, form.l2, form.strengths[g], room)
            gain += descend_members(H, r, u, members, form.l1, form.l2, form.strengths[g])
        for j in range(form.l1.size):
            if not inside[j]:
                gain += descend_coordinate(H, r, u, j, form.l1[j], form.l2, -np.inf, np.inf)
        return gain + descend_free(H, r, u, form.l1.size)

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(release)
def _release(form, H, r, u, room):
    def coordinates(form, H, r, u, room):
        most, which, to = 0.0, -1, 0.0
        for j in range(form.l1.size):
            gain, value = best_coordinate(
                H, r, u, j, form.l1[j], form.l2[j], form.low[j], form.high[j]
            )
            if gain > most:
                most, which, to = gain, j, value
        if which >= 0:
            shift_coordinate(H, r, u, which, to)
        return most

    def groups(form, H, r, u, room):
        return sweep(form, H, r, u, room)

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(face, jit_options=OPTIONS)
def _face(form, u, free, slopes):
    def coordinates(form, u, free, slopes):
        for j in range(u.size):
            free[j], slopes[j] = True, 0.0
            if j < form.l1.size:
                l1, v = form.l1[j], u[j]
                free[j] = form.low[j] < v and v < form.high[j] and (v != 0.0 or l1 == 0.0)
                slopes[j] = form.l2[j] * v + (l1 if v > 0.0 else -l1)

    def groups(form, u, free, slopes):
        for j in range(u.size):
            free[j], slopes[j] = True, 0.0
            if j < form.l1.size:
                l1, v = form.l1[j], u[j]
                free[j] = v != 0.0 or l1 == 0.0
                slopes[j] = form.l2 * v + ((l1 if v > 0.0 else -l1) if v != 0.0 else 0.0)
        for g in range(form.strengths.size):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            norm = norm_of(u, members)
            if form.strengths[g] > 0.0:
                for k in range(members.size):
                    j = members[k]
                    if norm > 0.0:
                        slopes[j] += form.strengths[g] * u[j] / norm
                    else:
                        free[j] = False

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(stiffen)
def _stiffen(form, u, index, count, matrix, place):
    """Of the lower triangle alone, which is all that is factorised."""

    def coordinates(form, u, index, count, matrix, place):
        for k in range(count):
            if index[k] < form.l1.size:
                matrix[k, k] += form.l2[index[k]]

    def groups(form, u, index, count, matrix, place):
        for j in range(u.size):
            place[j] = -1
        for k in range(count):
            place[index[k]] = k
            if index[k] < form.l1.size:
                matrix[k, k] += form.l2
        for g in range(form.strengths.size):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            norm = norm_of(u, members)
            if not norm > 0.0:
                continue
            c = form.strengths[g] / norm
            along = RADIAL * c
            for a in range(members.size):
                k = place[members[a]]
                if k < 0:
                    continue
                matrix[k, k] += c
                for b in range(members.size):
                    other = place[members[b]]
                    if 0 <= other and other <= k:
                        matrix[k, other] -= along * (u[members[a]] / norm) * (u[members[b]] / norm)

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(first_kink, jit_options=OPTIONS)
def _first_kink(form, u, index, count, step):
    def coordinates(form, u, index, count, step):
        t = 1.0
        for k in range(count):
            j = index[k]
            if j < form.l1.size and step[k] != 0.0:
                if form.l1[j] > 0.0 and step[k] * u[j] < 0.0:
                    t = min(t, -u[j] / step[k])
                t = min(t, ((form.high[j] if step[k] > 0.0 else form.low[j]) - u[j]) / step[k])
        return t

    def groups(form, u, index, count, step):
        t = 1.0
        for k in range(count):
            j = index[k]
            if j < form.l1.size and form.l1[j] > 0.0 and step[k] * u[j] < 0.0:
                t = min(t, -u[j] / step[k])
        return t

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(retract, jit_options=OPTIONS)
def _retract(form, u, to, kink):
    """``kink``: the point lies on one, up to rounding."""

    def coordinates(form, u, to, kink):
        for j in range(form.l1.size):
            near = kink and abs(to[j]) <= CLOSE * abs(u[j])
            if form.l1[j] > 0.0 and (to[j] * u[j] < 0.0 or near):
                to[j] = 0.0
            to[j] = min(max(to[j], form.low[j]), form.high[j])

    def groups(form, u, to, kink):
        for j in range(form.l1.size):
            near = kink and abs(to[j]) <= CLOSE * abs(u[j])
            if form.l1[j] > 0.0 and (to[j] * u[j] < 0.0 or near):
                to[j] = 0.0

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(unbounded)
def _unbounded(form, H, r, u):
    def coordinates(form, H, r, u):
        for j in range(u.size):
            if H[j, j] > 0.0:
                continue
            if j >= form.l1.size:
                if r[j] != 0.0:
                    return True
            elif not form.l2[j] > 0.0 and abs(r[j]) > form.l1[j]:
                end = form.low[j] if r[j] > 0.0 else form.high[j]
                if not abs(end) < np.inf:
                    return True
        return False

    def groups(form, H, r, u):
        for j in range(u.size):
            if not H[j, j] > 0.0:
                if j >= form.l1.size:
                    if r[j] != 0.0:
                        return True
                elif not form.l2 > 0.0 and abs(r[j]) > form.l1[j]:
                    return True  # a norm over the group might hold it: then this is too careful
        return False

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(penalty_change, jit_options=OPTIONS)
def _penalty_change(form, u, to):
    def coordinates(form, u, to):
        total = 0.0
        for j in range(form.l1.size):
            half = 0.5 * form.l2[j] * (to[j] + u[j])
            total += form.l1[j] * (abs(to[j]) - abs(u[j])) + half * (to[j] - u[j])
        return total

    def groups(form, u, to):
        total = 0.0
        for j in range(form.l1.size):
            half = 0.5 * form.l2 * (to[j] + u[j])
            total += form.l1[j] * (abs(to[j]) - abs(u[j])) + half * (to[j] - u[j])
        for g in range(form.strengths.size):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            ends = norm_of(to, members) + norm_of(u, members)
            if ends > 0.0:  # |a| - |b| = <a - b, a + b> / (|a| + |b|)
                cross = 0.0
                for k in range(members.size):
                    j = members[k]
                    cross += (to[j] - u[j]) * ((to[j] + u[j]) / ends)
                total += form.strengths[g] * cross
        return total

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(penalty_value, jit_options=OPTIONS)
def _penalty_value(form, u):
    def coordinates(form, u):
        total = 0.0
        for j in range(form.l1.size):
            total += form.l1[j] * abs(u[j]) + 0.5 * form.l2[j] * u[j] * u[j]
        return total

    def groups(form, u):
        total = 0.0
        for j in range(form.l1.size):
            total += form.l1[j] * abs(u[j]) + 0.5 * form.l2 * u[j] * u[j]
        for g in range(form.strengths.size):
            members = form.members[form.starts[g] : form.starts[g + 1]]
            total += form.strengths[g] * norm_of(u, members)
        return total

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(clip, jit_options=OPTIONS)
def _clip(form, u):
    def coordinates(form, u):
        for j in range(form.l1.size):
            u[j] = min(max(u[j], form.low[j]), form.high[j])

    def groups(form, u):
        return None

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]


@overload(contains, jit_options=OPTIONS)
def _contains(form, u):
    def coordinates(form, u):
        inside = True
        for j in range(form.l1.size):
            inside = inside and form.low[j] <= u[j] and u[j] <= form.high[j]
        return inside

    def groups(form, u):
        return True

    return {Coordinates: coordinates, Groups: groups}[form.instance_class]
