"""Newton steps by conjugate gradients on the face of x, for problems whose Hessian would be too large to write out.

The face of x is the set of points where ψ is as smooth as at x: coordinates at zero, or at a bound, stay there. On it a
Newton step solves (∇²f + ∇²ψ)d = -(∇f + ∇ψ). A product with ∇²f is one pass over the rows, and a diagonal preconditioner
removes the scales of the columns; shuffled epochs in between move the coordinates that are off the face.

The phase is for losses of one output. With several, conjugate gradients took as many passes as they saved epochs (on digits).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.objective import Array, FiniteSum
from reshuffle.penalties import Able, Penalty, ability
from reshuffle.penalties.forms import native_form
from reshuffle.problem import Problem
from reshuffle.solvers.exact import costs
from reshuffle.solvers.exact.newton_steps import can_finish, form_of, psi_of
from reshuffle.solvers.exact.phase import Outcome, Phase
from reshuffle.solvers.exact.rest import after_steps
from reshuffle.solvers.exact.view import View
from reshuffle.solvers.second_order import Linearisation, SecondOrder

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

FOUND = 5
"""After this many epochs most of the features that matter have been found."""
SETTLED = 2
"""``FOUND`` for a run that began near the minimiser."""
SAME_FACE = 0.05
"""If an epoch changes more than this share of the coordinates, the face is not the final one and steps on it are wasted."""
ANY_FACE = 0.2
"""``SAME_FACE`` if epochs make no progress: a step then gains more than the epochs that would settle the face."""
GAIN = 50.0
"""The factor by which a step on the face usually reduces the movement: it replaces the epochs that would do the same."""
VISIBLE = 1e-7
"""The smallest tolerance whose square is still visible in P; below it the gain of a second step would be rounding."""
WORTH = 0.5
"""A step that leaves more than this share of the certificate was not worth its time."""
MOST = 40
"""The most products of a step."""
FIRST = 20
"""The most products of the first step of a run: if they do not suffice, the problem is too ill-conditioned for this phase."""
ENOUGH = 1e-3
"""If the residual has fallen to this share of the first one, the step is as good as Newton's."""
ROUGH = 0.03
"""``ENOUGH`` for a first step, whose face and model are far from the final ones."""
AIM = 0.3
"""The target of the residual, as a share of the residual at the wanted accuracy."""
TINY = 1e-300
"""A lower bound for diagonal entries of the Hessian, so that none is zero."""


class NewtonCG(Phase):
    """Steps on the face of x in the active features, alternating with epochs. Only the duality gap certifies them."""

    name: ClassVar[str] = "newton_cg"

    def able(self, problem: FiniteSum, solver: ExactProxRR) -> bool:
        return can_finish(problem) and has_faces(problem)

    def ready(self, view: View) -> bool:
        """True if epochs converge slowly and have found the features that matter; once begun, steps and epochs alternate."""
        begun = view.second_order_steps > 0
        epochs = self.cost(view) / view.epoch_cost
        slow = view.warm or view.state.monitor.falls() ** epochs > 1.0 / GAIN
        found = view.epoch >= (SETTLED if view.warm else FOUND)
        most = SAME_FACE if view.epochs_left < np.inf else ANY_FACE
        same = view.state.newton.changed <= most
        if view.resting or not (found and same) or not (begun or slow) or self._pays_back(view):
            return False
        return view.warm or self.cost(view) <= view.work_left

    def cost(self, view: View) -> float:
        return costs.conjugate_gradients(view.model.datafit, view.state.newton.products)

    def _pays_back(self, view: View) -> bool:
        """Whether epochs are still due because the last step failed: they are made for as long as it took."""
        paid = view.state.newton.since + 1.0 + self.cost(view) / view.epoch_cost
        return self.failed(view) and view.epoch < paid

    def failed(self, view: View) -> bool:
        """Whether the last step used all its products before its residual was small, and left most of the certificate."""
        newton = view.state.newton
        early = newton.products >= (FIRST if newton.steps <= 1.0 else MOST)
        return early and view.state.monitor.checked > WORTH * newton.gap

    def step(self, view: View) -> Outcome:
        """One step; an epoch is due after it."""
        run, tol = view.run, view.run.solver.tol
        tol = tol if tol >= VISIBLE else 0.0
        wanted = tol / view.state.monitor.checked if view.second_order_steps else np.inf
        made = view.state.newton.steps
        most = FIRST if made == 0.0 else MOST
        taken = run.tool(FaceSteps, view.model).step(view.x, wanted, most)
        newton = after_steps(view, taken.gained, 1, self.cost(view))
        newton = newton._replace(
            products=float(taken.products), steps=made + 1.0, since=view.epoch, gap=_gap_at(view), columns=0.0
        )  # fmt: skip
        gradients = taken.passes * run.problem.n
        return Outcome(view.moved_to(taken.at, newton=newton), gradients, step=view.step)


def _gap_at(view: View) -> float:
    """The certificate at x; zero if epochs were made since the last one, which then says nothing about this step."""
    monitor = view.state.monitor
    return monitor.checked if monitor.at == monitor.moves[-1] else 0.0


class Taken(NamedTuple):
    """The outcome of a step on the face."""

    at: Linearisation
    """f at the end point of the step."""
    gained: float
    passes: int
    products: int


def has_faces(problem: Problem) -> bool:
    """Whether steps on the face are possible: besides the needs of a Newton step, they multiply ∇²ψ by a vector."""
    return has_curvature(problem.penalty) and not problem.datafit.outputs


def has_curvature(penalty: Penalty) -> TypeGuard[Able]:
    """Whether the penalty can multiply by its Hessian."""
    return ability(penalty, "curvature_product") is not None


class FaceSteps:
    """Steps on the face of points of one problem."""

    def __init__(self, problem: Problem) -> None:
        if not has_curvature(problem.penalty):
            raise AttributeError(f"penalty {problem.penalty!r} has no curvature_product")
        self.problem, self.penalty = problem, problem.penalty
        self.second_order, self.form = SecondOrder(problem.datafit), form_of(problem)
        self._native = native_form(self.form)

    def step(self, x: Array, wanted: float = 0.0, most: int = MOST) -> Taken:
        """One step from x, with a line search; x itself if no step lowers P.

        ``wanted`` is the target accuracy, over that of x. The accuracy falls like the square of the residual
        if ψ is smooth; otherwise the dual point lags behind, and its gap falls like the residual.
        """
        before, at = self.second_order.passes, self.second_order.linearise(x)
        free, slopes = self._face(x)
        share = np.sqrt(wanted) if self._smooth else wanted
        enough = float(np.clip(AIM * share, ENOUGH, ROUGH))
        d, products = self._direction(at, free, slopes, enough, most)
        to = self._retracted(x, x + d)
        d = to - x
        psi = psi_of(self.problem, x)
        t, to = self.second_order.search(at, d, self.second_order.margins(d), self._native, psi)
        new, gained = at, 0.0
        if t > 0.0:
            new = self.second_order.linearise(to)
            gained = at.value + psi - new.value - psi_of(self.problem, to)
        return Taken(new, gained, self.second_order.passes - before, products)

    @cached_property
    def _smooth(self) -> bool:
        return self.form.one_by_one is not None and not self.form.l1.any()

    def _face(self, x: Array) -> tuple[NDArray[np.bool_], Array]:
        """Coordinates that are free to move, and the slope of ψ along them."""
        free, slopes = np.empty(x.shape, dtype=np.bool_), np.empty(x.shape)
        native.face(self._native, np.ascontiguousarray(x), free, slopes)
        return free, slopes

    def _retracted(self, x: Array, to: Array) -> Array:
        """The point ``to``, with coordinates that changed their sign set to zero and all within their bounds."""
        native.retract(self._native, x, to)
        return to

    def _direction(
        self,
        at: Linearisation,
        free: NDArray[np.bool_],
        slopes: Array,
        enough: float,
        most: int = MOST,
    ) -> tuple[Array, int]:
        """The solution of the Newton equation on the face, by preconditioned conjugate gradients."""
        diagonal = self._diagonal(at)
        free = free & (diagonal > TINY)  # a coordinate without curvature would overflow all others
        diagonal = np.maximum(diagonal, TINY)
        scales = self.second_order.weights * at.curvatures
        r = np.where(free, -(at.gradient + slopes), 0.0)
        d, scaled = np.zeros(r.shape), r / diagonal
        p, power = scaled.copy(), float(np.vdot(r, scaled))
        first = power
        for k in range(most):
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
        return d, most

    def _product(self, at: Linearisation, scales: Array, v: Array) -> Array:
        """(∇²f + ∇²ψ)v, the ridge included; ``scales`` are the curvatures of the weighted rows."""
        features = self.problem.features
        out = self.second_order.product(scales, v)
        seen = np.ascontiguousarray(v[:features])
        out[:features] += self.penalty.curvature_product(at.x[:features], seen)
        out[:features] += self.problem.ridge * seen
        return out

    def _diagonal(self, at: Linearisation) -> Array:
        """An approximate diagonal of the Hessian: the mean curvature of the rows times the mean squares of the columns."""
        fit = self.second_order.fit
        mean = float(np.vdot(self.second_order.weights, at.curvatures)) / fit.n
        diagonal = mean * fit.column_squares + self.problem.ridge
        return np.append(diagonal, mean) if fit.bias else diagonal
