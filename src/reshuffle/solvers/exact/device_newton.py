"""Newton steps on rows that lie on a device, with gradients of all rows and Hessians of a sample of them.

    x⁺ = argmin_u  ⟨∇f(x), u - x⟩ + ½(u - x)ᵀH(u - x) + ψ(u),    H = (1/m) Σ_{i in S} w_i l''(a_iᵀx_S) a_i a_iᵀ.

With m random rows H is off by a share of about √(d/m), so that a step leaves d/m of P(x) - P*; it costs one pass over all
rows, and H is kept while the steps are short. If a step gains less than that, H gets more rows, in the end all.
The model is minimised on the processor.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.device_problem import DeviceProblem, SamplesOnDevice
from reshuffle.gpu.samples import Pass
from reshuffle.interruption import listen
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.forms import Form
from reshuffle.randomness import generator
from reshuffle.solvers.exact.device_models import HessianAt, NewtonStep, eased, raised
from reshuffle.solvers.exact.device_search import Searched, searched
from reshuffle.solvers.exact.newton_on_disk import Expansion, model_minimiser
from reshuffle.solvers.exact.newton_steps import ABILITIES
from reshuffle.solvers.newton_model import descend, is_quadratic

FEWEST, MOST = 100, 400
"""The fewest and the most rows of a first Hessian for each column: a step then leaves 1/100 to 1/400 of P(x) - P*."""
WORK_PER_BYTE = 50
"""A first Hessian takes this many operations for each byte of a pass: on an H200 that is as long as about two passes."""
MORE = 4
"""After a step that gained too little, the next Hessian has this many times as many rows."""
HALVINGS = 6
"""Steps shorter than 1/64 of Newton's are not tried before the next Hessian."""
MOST_HALVINGS = 60
"""The most halvings of a step whose Hessian is that of all rows."""
SHRINKS = 0.1
"""If a step promises more than this share of the last one's promise, H is too coarse or too old."""
FAR = 1e-2
"""After a step that promised more than this share of f(0) the Hessian is computed anew, because x has moved far."""
SMALL = 500
"""Columns up to which the processor solves a linear system itself, in less time than the device takes to begin."""
UNSOLVED = 0.1
"""A step with the Hessian of m rows leaves about d/m of P(x) - P*. Its model is solved to this share of d/m: that leaves little more, and sweeps over the coordinates mostly reach it without a factorisation."""
SOLVED = 1e-6
"""A linear system counts as solved if its residual is at most this share of its right side."""
FAINT = native.EPSILON**2
"""Promised gains below this share of P are rounding errors of the slopes."""
SEEN = 0.5
"""If the squares of a column in a sample sum to less than this share of what is expected, the column is given the mean curvature of columns."""


class DeviceNewton:
    """Newton steps on one problem. Caches its last results, which depend on its arguments and the seed alone."""

    def __init__(self, problem: DeviceProblem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.compiled = all(ability(problem.penalty, name) is not None for name in ABILITIES)
        self._passes: list[tuple[Array, Pass]] = []
        self._factor: tuple[Array, Any] | None = None
        self._part: SamplesOnDevice | None = None
        self._bent: tuple[HessianAt, Array] | None = None

    @property
    def samples(self) -> SamplesOnDevice:
        return self.problem.datafit

    @property
    def columns(self) -> int:
        """Columns of the models."""
        return self.samples.width

    @cached_property
    def first_rows(self) -> int:
        """Rows of the first Hessian."""
        return self.rows_for(self.columns)

    def rows_for(self, width: int) -> int:
        """Rows of a first Hessian of ``width`` columns: few enough that it costs little beside the passes, but enough for each column."""
        size = width * prod(self.samples.outputs)
        affordable = WORK_PER_BYTE * self.samples.nbytes // (2 * size * size)
        wanted = width * max(FEWEST, min(MOST, affordable // width))
        return wanted if 2 * wanted <= self.samples.n else self.samples.n

    def at(self, x: Array) -> Pass:
        """f at x; the passes at the last two points are kept."""
        for known, found in self._passes:
            if np.array_equal(known, x):
                return found
        listen()
        self._passes = self._passes[:1]  # free the memory of older slopes first
        found = self.samples.at(x)
        self._passes = [(x, found), *self._passes]
        return found

    def height(self, x: Array) -> float:
        """P(x); infinite where it overflows."""
        value = self.at(x).value + self.problem.ridge_at(x)
        found = self.problem.objective(x, value) if np.isfinite(value) else np.inf
        return found

    # --- a step ----------------------------------------------------------------------------------

    def step(self, x: Array, model: HessianAt) -> NewtonStep:
        """A step from x, halved until P falls."""
        n, at = self.samples.n, self.at(x)
        whole = model.rows >= n
        if whole:
            model = model._replace(x=x)
        height, H = self.height(x), self.hessian(model)
        u, promised, rounds = self._minimiser(x, at, H, model)
        passes = model.rows / n
        hidden = not promised > native.ROUNDING * abs(height)  # too small to show in P
        known = min(model.promised, model.hidden)
        if hidden and not FAINT * abs(height) < promised < SHRINKS * known:
            return self._failed(x, height, model, passes, rounds)
        found = self._searched(x, u, at, hidden, HALVINGS if not whole else MOST_HALVINGS)
        passes += found.passes
        if not found.length:
            return self._failed(x, height, model, passes, rounds)
        then = model
        if promised > FAR * abs(self.samples.at_zero):
            then = model.moved(found.x, model.rows)
        elif not whole and (found.length < 1.0 or promised > SHRINKS * model.promised):
            then = model.moved(found.x, min(n, MORE * model.rows))
        then = then._replace(
            promised=promised,
            damping=eased(model.damping, found.length, self.samples.loss),
            hidden=promised if hidden else np.inf,
        )
        return NewtonStep(found.x, found.height, then, False, passes, rounds)

    def _searched(self, x: Array, u: Array, at: Pass, hidden: bool, halvings: int) -> Searched:
        """The search along the step to u; a step too small to show in P is taken whole, unless P rises visibly."""
        if not hidden:
            return searched(self.height, x, u, self._promised(x, u, at.gradient), halvings)
        before, there = self.height(x), self.height(u)
        stays = there <= before + native.ROUNDING * abs(before)
        return Searched(u, 1.0, there, 1) if stays else Searched(x, 0.0, before, 1)

    def _failed(
        self, x: Array, height: float, model: HessianAt, passes: float, rounds: int
    ) -> NewtonStep:
        """The outcome if no step to the model's minimiser lowers P: more damping at a flat place of the loss, more rows, or the end."""
        n = self.samples.n
        if (damping := raised(model.damping, self.samples.loss)) > model.damping:
            then, stuck = model.moved(x, model.rows)._replace(damping=damping), False
        elif model.rows < n:
            then, stuck = model.moved(x, min(n, MORE * model.rows)), False
        else:
            then, stuck = model, True
        return NewtonStep(x, height, then, stuck, passes, rounds)

    def hessian(self, model: HessianAt) -> Array:
        """H at the model's point, over a random sample of rows."""
        if self._bent is not None and self._bent[0].is_like(model):
            return self._bent[1]
        listen()
        samples = self.samples
        extra = model.damping * self._largest_curvature(model) if model.damping else 0.0
        if model.rows < samples.n:
            if self._part is None or self._part.n != model.rows:
                self._part = None  # free the memory of the last sample first
                self._part = samples.sample(model.rows, key_of(self.seed, 1))
            H = self._sampled(self._part, model, extra)
        else:
            H = self._hessian(samples, model, extra)
        self._bent = model, H
        return H

    def _largest_curvature(self, model: HessianAt) -> float:
        """The bound on the loss's curvature; for a loss without one, the mean curvature of all rows at the model's point."""
        if (bound := float(self.samples.loss.curvature)) < np.inf:
            return bound
        squares = float(self._squares(self.samples, model).sum()) + self.samples.bias
        mean = float(np.trace(self._hessian(self.samples, model, 0.0))) / (squares or 1.0)
        return mean if mean > 0.0 else 1.0

    def _hessian(self, samples: SamplesOnDevice, model: HessianAt, extra: float) -> Array:
        return samples.hessian(model.x, extra)

    def _squares(self, samples: SamplesOnDevice, model: HessianAt) -> Array:
        """The mean square of each column of the model."""
        return samples.column_squares

    def _sampled(self, part: SamplesOnDevice, model: HessianAt, extra: float) -> Array:
        """H over some rows, with added curvature for columns of which these rows have too few entries."""
        outputs, H = prod(self.samples.outputs), self._hessian(part, model, extra)
        squares, seen = (
            np.repeat(self._squares(rows, model), outputs) for rows in (self.samples, part)
        )
        unseen = np.flatnonzero(seen < SEEN * squares)
        if unseen.size:
            total = float(squares.sum()) + self.samples.bias * outputs
            share = float(np.trace(H)) / total
            if not share > 0.0:
                bound = float(self.samples.loss.curvature)
                share = bound if bound < np.inf else 1.0
            H[unseen, unseen] = np.maximum(H[unseen, unseen], share * squares[unseen])
        return H

    def _minimiser(
        self, x: Array, at: Pass, H: Array, model: HessianAt
    ) -> tuple[Array, float, int]:
        """The minimiser of the model, the gain that it promises, and the rounds of the solver."""
        problem, form = self.problem, self.problem.form_with_ridge
        if not self.compiled or form is None:
            u = model_minimiser(problem, Expansion(x, np.empty(0), at.gradient, at.value, H))
            return u, self._promised(x, u, at.gradient, H), 1
        if is_quadratic(form):
            solution = self._solved(x.reshape(-1), at.gradient.reshape(-1), H, form.l2)
            if solution is not None:
                u = solution.reshape(x.shape)
                return u, self._promised(x, u, at.gradient, H), 1
        return descended(form, H, at.gradient, at.value, x, self._accuracy(H, model))

    def _accuracy(self, H: Array, model: HessianAt) -> float:
        """The share of the model's decrease that its solver may leave: much less than the error due to the sample of rows."""
        if model.rows >= self.samples.n:
            return native.FINE
        return max(native.FINE, UNSOLVED * len(H) / model.rows)

    def _promised(self, x: Array, u: Array, g: Array, H: Array | None = None) -> float:
        """The decrease from x to u that the model promises; without H, that its linear part promises."""
        d, psi = u - x, self.problem.penalty.value
        features = self.problem.features
        ours = (
            psi(x[:features])
            - psi(u[:features])
            + self.problem.ridge_at(x)
            - self.problem.ridge_at(u)
        )
        bent = 0.0 if H is None else 0.5 * np.vdot(d, H @ d.reshape(-1))
        return float(ours - np.vdot(g, d) - bent)

    def _solved(self, x: Array, g: Array, H: Array, l2: Array) -> Array | None:
        """The minimiser if ψ is a ridge, by one linear system; None if H has no inverse."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        whole = np.append(l2, np.zeros(x.size - l2.size))
        bent, slope = H + np.diag(whole), g + whole * x
        if x.size > SMALL:
            u: Array = x - self.samples.device.solve(bent, slope)
        else:
            if self._factor is None or self._factor[0] is not H:
                try:
                    self._factor = H, cho_factor(bent, check_finite=False)
                except LinAlgError:
                    return None
            u = x - cho_solve(self._factor[1], slope, check_finite=False)
        left = np.linalg.norm(bent @ (u - x) + slope)  # large if columns depend on each other
        return u if left <= SOLVED * np.linalg.norm(slope) else None


def descended(
    form: Form, H: Array, g: Array, value: float, x: Array, accuracy: float
) -> tuple[Array, float, int]:
    """The minimiser of a model to the accuracy of f, the gain that it promises, and the rounds of the solver; x if it fails."""
    u, floor = x.copy(), native.TRACE * native.EPSILON * abs(value)
    solved = descend(form, H, g, x.reshape(-1), u.reshape(-1), accuracy, floor)
    good = np.isfinite(solved.gained) and np.isfinite(u).all()
    return (u, solved.gained, solved.rounds) if good else (x, 0.0, solved.rounds)


def key_of(seed: int, stream: int) -> int:
    """The key of a sample of rows."""
    return int(generator(seed, stream).integers(2**63))
