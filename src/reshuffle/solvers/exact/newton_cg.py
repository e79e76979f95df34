"""Newton steps on the face, by conjugate gradients: where a Hessian would be too large to write out.

For losses of one output: with several, conjugate gradients took as many passes as the epochs they were to
save (digits). The face of x are the points where ψ is as smooth as at x: coordinates at zero, or at a bound, stay there.
On it a Newton step solves (∇²f + ∇²ψ)d = -(∇f + ∇ψ). A product with ∇²f is one pass over the rows, and
the columns' scales are taken out by a diagonal; shuffled epochs in between move what is off the face.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.objective import Array
from reshuffle.penalties import Able, ability
from reshuffle.penalties.forms import Coordinates, Form, native_form
from reshuffle.problem import Problem
from reshuffle.solvers.second_order import Linearisation, SecondOrder

MOST = 40  # products of a step at most
ENOUGH = 1e-3  # of the residual: a step that is this near to Newton's is as good,
ROUGH = (
    0.03  # and a first one, whose face and model are far from the last ones, may be as far from it
)
AIM = 0.3  # of the residual that would leave the accuracy that is wanted
TINY = 1e-300  # a curvature that is as good as none


class Taken(NamedTuple):
    """What a step on the face did."""

    at: Linearisation
    """f where it led."""
    gained: float
    passes: int
    products: int


def has_faces(problem: Problem) -> bool:
    """Whether steps on the face can be made; beside what a Newton step needs, ∇²ψ times a vector."""
    able = ability(problem.penalty, "curvature_product") is not None
    return able and not problem.datafit.outputs


class FaceSteps:
    """Steps on the face of points of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.penalty = problem, cast(Able, problem.penalty)
        self.curves, self.form = SecondOrder(problem.datafit), cast(Form, problem.form_with_ridge)
        self._native = native_form(self.form)

    def step(self, x: Array, wanted: float = 0.0) -> Taken:
        """One step from x, with a search along it; where none lowers P, x again.

        ``wanted`` is the accuracy to come to, over that of x. It goes like the square of the residual where ψ
        is smooth; elsewhere a dual point lags behind, and its gap goes like the residual.
        """
        before, at = self.curves.passes, self.curves.linearise(x)
        free, slopes = self._face(x)
        share = np.sqrt(wanted) if self._smooth else wanted
        enough = float(np.clip(AIM * share, ENOUGH, ROUGH))
        d, products = self._direction(at, free, slopes, enough)
        to = self._retracted(x, x + d)
        d = to - x
        psi = self._psi(x)
        t, to = self.curves.search(at, d, self.curves.margins(d), self._native, psi)
        new, gained = at, 0.0
        if t > 0.0:
            new = self.curves.linearise(to)
            gained = at.value + psi - new.value - self._psi(to)
        return Taken(new, gained, self.curves.passes - before, products)

    @cached_property
    def _smooth(self) -> bool:
        return isinstance(self.form, Coordinates) and not self.form.l1.any()

    def _psi(self, x: Array) -> float:
        seen = x[: self.problem.features]
        return self.penalty.value(seen) + 0.5 * self.problem.ridge * float(np.vdot(seen, seen))

    def _face(self, x: Array) -> tuple[NDArray[np.bool_], Array]:
        """Coordinates that are free to move, and the slope of ψ along them."""
        free, slopes = np.empty(x.shape, dtype=np.bool_), np.empty(x.shape)
        native.face(self._native, np.ascontiguousarray(x), free, slopes)
        return free, slopes

    def _retracted(self, x: Array, to: Array) -> Array:
        """The point, with coordinates that changed their sign at zero, and others within their bounds."""
        native.retract(self._native, x, to)
        return to

    def _direction(
        self, at: Linearisation, free: NDArray[np.bool_], slopes: Array, enough: float
    ) -> tuple[Array, int]:
        """The solution of the Newton equation on the face, by preconditioned conjugate gradients."""
        diagonal = np.maximum(self._diagonal(at), TINY)
        scales = self.curves.weights * at.curvatures
        r = np.where(free, -(at.gradient + slopes), 0.0)
        d, scaled = np.zeros(r.shape), r / diagonal
        p, power = scaled.copy(), float(np.vdot(r, scaled))
        first = power
        for k in range(MOST):
            if not power > enough**2 * first:
                return d, k
            bent = np.where(free, self._product(at, scales, p), 0.0)
            curvature = float(np.vdot(p, bent))
            if not curvature > 0.0:
                return d, k + 1
            alpha = power / curvature
            d += alpha * p
            r -= alpha * bent
            scaled = r / diagonal
            power, old = float(np.vdot(r, scaled)), power
            p = scaled + (power / old) * p
        return d, MOST

    def _product(self, at: Linearisation, scales: Array, v: Array) -> Array:
        """(∇²f + ∇²ψ)v, the ridge included; ``scales`` are the curvatures of the weighted rows."""
        features = self.problem.features
        out = self.curves.product(scales, v)
        seen = np.ascontiguousarray(v[:features])
        out[:features] += self.penalty.curvature_product(at.x[:features], seen)
        out[:features] += self.problem.ridge * seen
        return out

    def _diagonal(self, at: Linearisation) -> Array:
        """About that of the Hessian: the mean curvature of the rows times the mean squares of the columns."""
        fit = self.curves.fit
        mean = float(np.vdot(self.curves.weights, at.curvatures)) / fit.n
        diagonal = mean * fit.column_squares + self.problem.ridge
        return np.append(diagonal, mean) if fit.bias else diagonal
