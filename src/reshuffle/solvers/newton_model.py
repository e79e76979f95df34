"""The quadratic model of P at a point, minimised through working sets of features."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.objective import Array, Visits
from reshuffle.penalties import Able
from reshuffle.penalties.abilities import closed, compiled_form, rows
from reshuffle.penalties.forms import Coordinates, Form
from reshuffle.solvers.curves import Bend, Curves, Linear
from reshuffle.solvers.outputs import OutputCurves

FEW = 100  # features that a first working set may have without a reason


@dataclass(frozen=True)
class Step:
    """Where a model has its minimum: x + d there, and how far below it goes."""

    d: Array
    change: Array
    """Of the margins, for the whole of d."""
    decrease: float
    """m(x) - min m, over all coordinates."""
    left: float
    """Of it in the last round of the solver."""
    regular: bool
    """Whether every direction has curvature, or leaves all margins as they are."""
    passes: int
    rounds: int
    active: int


class Solved(NamedTuple):
    """What the solver of a model in some coordinates did."""

    gained: float
    left: float
    length: float
    """Of ``null``, in units in which every column has curvature 1; zero where there is none."""
    null: Array
    """A direction in which the model has no curvature."""
    rounds: int


def descend(
    form: Form, H: Array, slope: Array, start: Array, u: Array, accuracy: float, floor: float
) -> Solved:
    """Minimise slopeᵀ(u - start) + ½(u - start)ᵀH(u - start) + ψ(u) from u, in place."""
    from reshuffle.kernels.quadratic import model_kernel
    from reshuffle.kernels.room import rented
    from reshuffle.kernels.stamp import stamp_of
    from reshuffle.kernels.whole import ROUNDS

    flat, null = np.ascontiguousarray(slope).reshape(-1), np.empty(u.size)
    gained, left, length, made = model_kernel(stamp_of())(
        form, H, flat, start, u, accuracy, floor, ROUNDS, null, rented(u.size)
    )
    return Solved(float(gained), float(left), float(length), null, int(made))


def loose_rows(form: Form, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Rows of an unknown of this shape that no penalty holds: of an intercept, and features without any."""
    loose = np.ones(shape[0], dtype=bool)
    held = form.l1 > 0
    if isinstance(form, Coordinates):
        held |= (form.l2 > 0) | (form.low > -np.inf) | (form.high < np.inf)
    else:
        held |= form.l2 > 0
        held[form.members[: form.starts[-1]]] = True
    outputs = prod(shape[1:])
    features = held.size // outputs
    loose[:features] = ~held.reshape(features, outputs).any(axis=1)
    return loose


def within(form: Form, x: Array) -> Array:
    """x within the bounds of the penalty, where it has some."""
    if not isinstance(form, Coordinates):
        return x
    new = x.copy()
    flat = new.reshape(-1)[: form.l1.size]
    np.clip(flat, form.low, form.high, out=flat)
    return new


class Model:
    """m(u) = ⟨∇f(x), u - x⟩ + ½(u - x)ᵀH(u - x) + ψ(u), for one problem and any x and curvatures."""

    def __init__(self, curves: Curves, penalty: Able, ridge: float) -> None:
        self.curves, self.penalty, self.ridge = curves, penalty, ridge
        self.shape = (curves.fit.features, *curves.fit.outputs)
        self.form = cast(Form, compiled_form(penalty, self.shape, ridge))
        self.loose = loose_rows(self.form, curves.fit.shape)

    def chosen(self, beyond: Array, old: NDArray[np.bool_], support: int) -> NDArray[np.bool_]:
        """Coordinates to work on: those that are not zero or want to move, the most pressing first."""
        must: NDArray[np.bool_] = (beyond == np.inf) | old
        want = np.flatnonzero((beyond > 0) & ~must)
        room = max(FEW, support)
        if want.size > room:
            squares = self.curves.fit.column_squares[want // self.curves.outputs]
            squares = np.where(squares > 0, squares, np.inf)
            order = np.argsort(-(beyond.flat[want] ** 2) / squares, kind="stable")
            want = want[order[:room]]
        must.flat[want] = True
        if isinstance(self.form, Coordinates):
            return must
        features = closed(self.penalty, must).reshape(-1, *[1] * (beyond.ndim - 1))
        return np.array(np.broadcast_to(features, beyond.shape))

    def minimise(
        self, at: Linear, bend: Bend, accuracy: float, floor: float, complete: bool
    ) -> Step:
        """The minimiser of the model over all coordinates, through working sets.

        If it need not be ``complete``, over the first working set.
        """
        fit, outputs, before = self.curves.fit, self.curves.outputs, self.curves.passes
        features = fit.features
        x, g, rounds = at.x[:features], at.gradient, 0
        old, support = np.zeros(x.shape, dtype=bool), int(np.count_nonzero(x))
        model_gradient, decrease = g, 0.0
        d = np.zeros(fit.shape)
        while True:
            beyond = self.penalty.excess(x, model_gradient[:features])
            chosen = self.chosen(beyond, old, support)
            active = np.flatnonzero(rows(chosen)).astype(np.uint32)
            kept = np.append(chosen[active].ravel(), np.ones(outputs * fit.bias, dtype=bool))
            form = self._form(active, kept)
            slope = g[active]
            if fit.bias:
                slope = slope - np.multiply.outer(self.curves.centre[active], g[-1])
                slope[self.curves.constant[active]] = 0.0
                slope = np.concatenate([slope, g[-1:]])
            start = np.concatenate([x[active].ravel(), np.zeros(outputs * fit.bias)])
            u = start + self._centred(d, active)  # from where the last working set led to
            inner = u[kept]
            solve = self._descend_apart if self._is_apart else self._descend
            solved = solve(form, bend, active, kept, slope.ravel(), start, inner, accuracy, floor)
            u[kept], null = inner, np.zeros(u.size)
            null[kept] = solved.null
            rounds, decrease = rounds + solved.rounds, decrease + solved.gained
            support = int(np.count_nonzero(u))
            d = self._uncentred(u - start, active)
            if (
                outputs > 1 and self.curves.shifts
            ):  # a common shift of rows that no penalty holds changes nothing
                d[self.loose] -= d[self.loose].mean(axis=1, keepdims=True)
            change = self.curves.margins(d)
            if chosen.all() or not complete:
                break
            model_gradient = g + self.curves.combine(self.curves.bent(bend, change))
            old = chosen
            missing = self.penalty.excess(np.zeros(x.shape), model_gradient[:features]) > 0
            if not (missing & ~chosen).any():
                break
        return Step(
            d,
            change,
            decrease,
            solved.left,
            solved.length == 0.0
            or self._is_null(self._uncentred(null, active), bend, solved.length),
            self.curves.passes - before,
            rounds,
            active.size,
        )

    def _descend(
        self, form: Form, bend: Bend, active: Visits, kept: NDArray[np.bool_], slope: Array,
        start: Array, inner: Array, accuracy: float, floor: float,
    ) -> Solved:  # fmt: skip
        """Minimise the model in the coordinates that are kept, from ``inner``, in place."""
        H = self.curves.hessian(bend, active, np.flatnonzero(kept))
        return descend(form, H, slope[kept], start[kept], inner, accuracy, floor)

    @property
    def _is_apart(self) -> bool:
        """Whether the model is a sum over the outputs."""
        return self.curves.apart and isinstance(self.form, Coordinates)

    def _descend_apart(
        self, form: Form, bend: Bend, active: Visits, kept: NDArray[np.bool_], slope: Array,
        start: Array, inner: Array, accuracy: float, floor: float,
    ) -> Solved:  # fmt: skip
        """The same, output by output."""
        curves, outputs = cast(OutputCurves, self.curves), self.curves.outputs
        G = curves.feature_hessian(bend, active)
        feature, output = np.divmod(np.flatnonzero(kept), outputs)
        gained, left, length, rounds = 0.0, 0.0, np.inf, 0
        null = np.zeros(inner.size)
        for k in range(outputs):
            own = np.flatnonzero(output == k)
            if not own.size:
                continue
            some = np.ix_(feature[own], feature[own])
            H, u = np.ascontiguousarray(G[some]), inner[own]
            part = Coordinates(*(v[own[own < v.size]] for v in cast(Coordinates, form)))
            mine = slope[kept][own], start[kept][own]
            found = descend(part, H, *mine, u, accuracy, floor / outputs)
            inner[own], null[own] = u, found.null
            gained, left, rounds = gained + found.gained, left + found.left, rounds + found.rounds
            if found.length > 0.0:  # the shortest: what holds for it holds for the longer ones
                length = min(length, found.length)
        return Solved(gained, left, length if length < np.inf else 0.0, null, rounds)

    def _form(self, active: Visits, kept: NDArray[np.bool_]) -> Form:
        """ψ of these features; where it is separable, of the coordinates that are kept."""
        form = self.form
        if active.size < self.shape[0]:
            part = self.penalty.part(active, self.shape)
            form = cast(Form, compiled_form(part, (active.size, *self.shape[1:]), self.ridge))
        if isinstance(form, Coordinates) and not kept.all():
            form = Coordinates(*(numbers[kept[: numbers.size]] for numbers in form))
        return form

    def _centred(self, d: Array, active: Visits) -> Array:
        """A step of x, as one of the centred active coordinates."""
        if not self.curves.fit.bias:
            return d[active].ravel()
        shift = d[-1:] + np.sum(self.curves.centre[active] * d[active].T, axis=-1)
        return np.concatenate([d[active], shift]).ravel()

    def _uncentred(self, moved: Array, active: Visits) -> Array:
        """A step of the centred active coordinates, as one of x."""
        fit, d = self.curves.fit, np.zeros(self.curves.fit.shape)
        rows = moved.reshape(-1, *fit.outputs)
        d[active] = rows[: active.size]
        if fit.bias:
            d[-1] = rows[-1] - np.sum(self.curves.centre[active] * d[active].T, axis=-1)
        return d

    def _is_null(self, null: Array, bend: Bend, length: float) -> bool:
        """Whether a direction without curvature is a true one: margins that do not change.

        The curvature along it is a sum of squares, lost in rounding below 1e-16 of its terms; the
        margins themselves say so down to the square of that.
        """
        from reshuffle.kernels.whole import DEPENDENT

        change = self.curves.margins(null)
        if change.ndim == 2 and self.curves.shifts:  # a common shift of all outputs changes nothing
            change -= change.mean(axis=1, keepdims=True)
        curvature = float(
            np.sum(self.curves.weights * (self.curves.bent(bend, change) * change).T)
        ) / len(change)
        return bool(np.sqrt(max(curvature, 0.0)) <= DEPENDENT * length < np.inf)
