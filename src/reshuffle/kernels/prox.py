"""The prox of a compiled penalty, in place on a flat vector. numba picks it by the type of the form."""

from __future__ import annotations

from math import sqrt
from typing import Any

from numba import njit
from numba.extending import overload

from reshuffle.kernels.options import FAST, OPTIONS
from reshuffle.penalties.forms import Coordinates, Groups


def prox(form, flat, step): ...


@njit(inline="always", error_model="numpy", fastmath=FAST)
def separable_prox(value, step, l1, l2, low, high):
    """argmin_u  l1 |u| + (l2/2) u^2 + indicator[low, high](u) + (u - value)^2 / (2 step)."""
    shrunk = abs(value) - step * l1
    u = (0.0 if shrunk <= 0.0 else shrunk) / (1.0 + step * l2)  # written so that NaN stays NaN
    u = u if value > 0.0 else -u
    return low if u < low else high if u > high else u


def _coordinates(form, flat, step):
    for j in range(form.l1.size):
        flat[j] = separable_prox(flat[j], step, form.l1[j], form.l2[j], form.low[j], form.high[j])


def _groups(form, flat, step):
    shrink = 1.0 / (1.0 + step * form.l2)
    for j in range(form.l1.size):
        left = abs(flat[j]) - step * form.l1[j]
        u = (0.0 if left <= 0.0 else left) * shrink
        flat[j] = u if flat[j] > 0.0 else -u
    for g in range(form.strengths.size):
        square, threshold = 0.0, step * form.strengths[g] * shrink
        for p in range(form.starts[g], form.starts[g + 1]):
            square += flat[form.members[p]] * flat[form.members[p]]
        norm = sqrt(square)
        factor = 0.0 if norm <= threshold else 1.0 - threshold / norm  # NaN stays NaN
        for p in range(form.starts[g], form.starts[g + 1]):
            flat[form.members[p]] *= factor


PROXES: dict[Any, Any] = {Coordinates: _coordinates, Groups: _groups}
"""Kind of compiled penalty -> its prox: a new kind is one function here."""


@overload(prox, jit_options=OPTIONS)
def _prox(form, flat, step):
    return PROXES[form.instance_class]
