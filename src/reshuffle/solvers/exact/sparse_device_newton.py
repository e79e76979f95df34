"""Newton steps on a device in the features that matter, for more features than a Hessian can have.

The penalty holds most features at zero. The model of a step has the features that are not zero and those that would leave zero with
the gradient of all rows at x; every step checks all features, so that none is missed. A model is kept while it has all features
that matter; if others are needed, a new Hessian is computed at x.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.device_problem import DeviceProblem, SamplesOnDevice
from reshuffle.gpu.row_kind import MANY
from reshuffle.gpu.samples import Pass
from reshuffle.gpu.wide_samples import WideSamples, wide
from reshuffle.objective import Array
from reshuffle.penalties.abilities import as_able
from reshuffle.solvers.active_features import ActiveFeatures
from reshuffle.solvers.exact.device_models import HessianAt, NewtonStep
from reshuffle.solvers.exact.device_newton import DeviceNewton, descended

SPARE = 2
"""A model is made anew when it has this many times as many features as matter."""


class SparseDeviceNewton(DeviceNewton):
    """Steps whose models have at most ``MANY`` features, chosen by the gradient in all features."""

    def __init__(self, problem: DeviceProblem, seed: int) -> None:
        super().__init__(problem, seed)
        self.sets = ActiveFeatures(
            as_able(problem.penalty), problem.shape, problem.features, problem.ridge, "leave out device, or penalise more", MANY
        )  # fmt: skip

    @cached_property
    def columns(self) -> int:
        """An estimate of the columns of later models: the features that would leave zero at once."""
        zero = np.zeros(self.samples.width)
        wanted = self._wanted(zero, self.at(zero).gradient)
        return int(np.count_nonzero(wanted)) + self.samples.bias

    def step(self, x: Array, model: HessianAt) -> NewtonStep:
        g = self.at(x).gradient
        matter = self._wanted(x, g)
        kept = np.flatnonzero(matter).astype(np.uint32)
        if kept.size > SPARE * MANY:  # the groups are too large
            raise self.sets.too_wide(kept.size)
        had = np.zeros(matter.size, dtype=bool)
        had[model.features] = True
        if np.any(matter & ~had) or model.features.size > SPARE * max(kept.size, 1):
            rows = max(model.rows, self.rows_for(kept.size + self.samples.bias))
            model = model._replace(x=x, rows=rows, promised=np.inf, features=kept)
        done = super().step(x, model)
        full = kept.size >= self.sets.room
        if done.stuck and full and self.sets.missing(x, g, matter):
            raise self.sets.too_wide(kept.size + 1)
        return done

    def _wanted(self, x: Array, g: Array) -> NDArray[np.bool_]:
        """The features that matter; at least one, since a penalty on no feature has no form."""
        found = self.sets.wanted(x, g)
        return found if found.any() else self.sets.with_others(np.arange(found.size) == 0)

    def _hessian(self, samples: SamplesOnDevice, model: HessianAt, extra: float) -> Array:
        return wide(samples).hessian_of(model.features, model.x, extra)

    def _squares(self, samples: SamplesOnDevice, model: HessianAt) -> Array:
        return samples.column_squares[model.features]

    def _minimiser(
        self, x: Array, at: Pass, H: Array, model: HessianAt
    ) -> tuple[Array, float, int]:
        d, kept = self.problem.features, model.features
        own, g = (np.append(a[kept], a[d:]) for a in (x, at.gradient))
        accuracy = self._accuracy(H, model)
        mask = np.zeros(d, dtype=bool)
        mask[kept] = True
        form = self.sets.form(mask)
        found, promised, rounds = descended(form, H, g, at.value, own, accuracy)
        u = np.zeros_like(x)
        u[kept], u[d:] = found[: kept.size], found[kept.size :]
        return u, promised, rounds


def device_newton_of(problem: DeviceProblem, seed: int) -> DeviceNewton:
    """Steps in all features if a Hessian can have them all, else in those that matter."""
    many = isinstance(problem.datafit, WideSamples)
    return SparseDeviceNewton(problem, seed) if many else DeviceNewton(problem, seed)
