"""Proximal Newton steps on a problem that is known by its Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reshuffle.cached import cached_property
from reshuffle.core import native
from reshuffle.errors import InputError, held_warnings
from reshuffle.interruption import listen
from reshuffle.objective import Array
from reshuffle.penalties import ability
from reshuffle.penalties.abilities import as_able
from reshuffle.smoothness import OVERFLOW
from reshuffle.solvers.active_features import SLACK, ActiveFeatures, Mask
from reshuffle.solvers.certificate import RelativeMapping
from reshuffle.solvers.exact.costs import LARGEST
from reshuffle.solvers.exact.decrement import STALLED
from reshuffle.solvers.exact.newton_steps import ABILITIES
from reshuffle.solvers.fista import FISTA
from reshuffle.solvers.method import Check, Epoch, Method, State
from reshuffle.solvers.newton_model import QuadraticObjective, descend, within
from reshuffle.solvers.newton_proof import duality_gap, proved_decrement, residual
from reshuffle.solvers.recession import FAR, NO_MINIMISER
from reshuffle.solvers.solver import Solver
from reshuffle.twice_differentiable import FirstOrder, TwiceDifferentiable

SHRINKS = 1e-4
"""Once differences of P are lost in rounding, steps count as converging only if each decreases the model by less than this share of the last decrease."""
HALVINGS = 12
"""The most halvings of a step before damping gives another one."""
FIRST_DAMPING, MORE_DAMPING, MOST_DAMPING = 1e-3, 10.0, 1e12
"""Damping δ multiplies the diagonal of the Hessian by 1 + δ: the first δ, its factor from one trial to the next, and the largest."""
INSTEAD = "take FISTA, or a stronger ℓ1"
"""The advice if there are too many features for a Hessian."""
FEW = 200
"""With a dual point, a Newton decrement is also computed for at most this many features: its eigenvalues take some milliseconds."""
MODEL_EPOCHS = 20_000
"""The most iterations of FISTA on a model; each is a product with its matrix and a prox."""


@dataclass(frozen=True, kw_only=True)
class ProxNewton(Solver):
    """Proximal Newton steps with a line search, for problems that are known by their Hessian, such as ``CoxProblem``.

        x⁺ = x + t(u - x),    u = argmin_u ⟨∇f(x), u - x⟩ + ½(u - x)ᵀ∇²f(x)(u - x) + ψ(u).

    If a penalty holds features at zero, the model has the others and those that may soon leave zero. An epoch is a step: a Hessian,
    and a pass over the rows for each trial of the line search. For a ``Problem`` use ``ExactProxRR``, whose Newton
    steps are made in the core.

    ``tol`` is compared with a bound on P(x) - P*, over f(0) - inf f, if one can be proved: by a dual point if the penalty holds
    every feature, or by the Newton decrement if the Hessian is not singular. Otherwise it is compared with the gradient mapping,
    and the run ends as stationary.

    Examples
    --------
    >>> import numpy as np
    >>> import reshuffle as rs
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> problem = rs.CoxProblem(X, [1.0, 2.0, 3.0, 4.0], [1, 1, 0, 1], penalty=rs.penalties.L1(0.02))
    >>> result = rs.ProxNewton().solve(problem)
    >>> result.converged, result.x.round(3)
    (True, array([-0.244,  0.244]))
    """

    epochs: int = 200
    tol: float = 1e-9
    takes: ClassVar[Any] = TwiceDifferentiable
    because: ClassVar[str] = "which gives its Hessian (for a Problem use ExactProxRR)"

    def bind(self, problem: TwiceDifferentiable) -> Method:
        return NewtonByHessian(problem, self)


class ModelStep(NamedTuple):
    """The minimiser of a model."""

    u: Array
    decrease: float
    rounds: int


class DampedStep(NamedTuple):
    """A step to x + length·(u - x), and what it took to find it; of length zero where no step lowers P."""

    u: Array
    decrease: float
    """That of the model."""
    length: float
    damping: float
    """That of the next step."""
    passes: int
    rounds: int
    flat: bool = False
    """Whether P itself shows no difference."""


class NewtonByHessian(Method):
    """``ProxNewton`` on a problem. The state: x, damping, and the decrease of the last model."""

    keeps_best = True

    def __init__(self, problem: TwiceDifferentiable, solver: ProxNewton) -> None:
        super().__init__(problem, solver)
        self.problem: TwiceDifferentiable = problem
        self.schedule = lambda epoch: 1.0
        penalty = problem.penalty
        self.compiled = all(ability(penalty, name) is not None for name in ABILITIES)
        has_dual = ability(penalty, "has_dual")
        self.dual = bool(has_dual is not None and has_dual(problem.shape, problem.ridge))
        exact = ability(penalty, "prox_from") is None
        most = FEW if self.dual else LARGEST
        self.decrements = problem.features <= most and (self.compiled or exact)
        self.known: list[FirstOrder] = []
        if self.dual or self.decrements:
            self.certificate = "gap"
            proofs = ["duality gap"] * self.dual + ["Newton decrement"] * self.decrements
            self.header = {"certificate": " or ".join(proofs)}
        else:
            self.header = {"certificate": RelativeMapping.meaning}
        self.header["models"] = "coordinate descent" if self.compiled else "FISTA"

    @cached_property
    def psi(self) -> ActiveFeatures:
        penalty, shape = as_able(self.problem.penalty), self.problem.shape
        return ActiveFeatures(penalty, shape, self.problem.features, self.problem.ridge, INSTEAD)

    @cached_property
    def everything(self) -> Mask:
        return np.ones(self.problem.features, dtype=bool)

    def _expand(self, x: Array) -> FirstOrder:
        """f and ∇f at x; those at the last two points are kept."""
        for at in self.known:
            if np.array_equal(at.x, x):
                return at
        self.known = [self.problem.expand(x), *self.known[:1]]
        return self.known[0]

    def objective(self, state: State) -> float:
        return self._expand(state["x"]).value + self._psi(state["x"])

    # --- an epoch ------------------------------------------------------------------------------

    def start(self, x0: Array) -> State:
        if not np.isfinite(self.problem.smoothness.L_max):
            raise InputError(OVERFLOW)
        x = within(self.psi.form(self.everything), x0) if self.compiled else x0
        if not np.isfinite(self.problem.penalty.value(x)):
            x = self.problem.prox(x, 1.0)  # a point that satisfies all constraints
        return {"x": x, "newton": np.array([0.0, np.inf]), "moved": np.zeros(x.shape)}

    def advance(self, state: State, epoch: int, step: float) -> Epoch:
        damping, last = state["newton"].tolist()
        at = self._expand(state["x"])
        found = self._search(at, damping)
        work = found.passes * self.problem.n, found.rounds
        if found.length == 0.0 or (found.flat and not found.decrease < SHRINKS * last):
            return Epoch(state, *work, found.length, STALLED)
        x = found.u if found.length == 1.0 else at.x + found.length * (found.u - at.x)
        newton = np.array([found.damping, found.decrease])
        return Epoch({"x": x, "newton": newton, "moved": x - at.x}, *work, found.length)

    def _search(self, at: FirstOrder, damping: float) -> DampedStep:
        """Models with more and more damping, until the step of one lowers P."""
        height, passes, rounds = at.value + self._psi(at.x), 1, 0
        active = self.psi.wanted(at.x, at.gradient / SLACK) if self.compiled else self.everything
        H = self.problem.hessian(at.x, np.flatnonzero(active).astype(np.uint32))
        at.gradient[~self.problem.varying] = 0.0
        while True:
            listen()
            u, decrease, made = self._model(at, active, H, damping)
            rounds += made
            if decrease <= native.ROUNDING * abs(height):  # too small to show in P
                return DampedStep(u, decrease, 1.0, 0.0, passes, rounds, flat=True)
            length, tried = self._length(at, u, height)
            passes += tried
            if length == 1.0:
                damping = damping / MORE_DAMPING if damping > FIRST_DAMPING else 0.0
            elif not length > 0.0:
                damping = max(MORE_DAMPING * damping, FIRST_DAMPING)
            if length > 0.0 or damping > MOST_DAMPING:
                return DampedStep(u, decrease, length, damping, passes, rounds)

    def endless(self, state: State) -> str:
        """Why P has no minimiser, if f falls for ever along the last step and no penalty rises."""
        moved, size = state["moved"], float(np.abs(state["moved"]).max(initial=0.0))
        if not (size > 0.0 and self.problem.can_recede and not self.problem.ridge > 0.0):
            return ""
        x, psi = state["x"], self.problem.penalty.value
        if psi(x + FAR / size * moved) > psi(x) or not self.problem.recedes(moved):
            return ""
        largest = int(np.argmax(np.abs(moved)))
        return (
            f"{NO_MINIMISER}: along the last steps, of which that of coefficient {largest} is the longest, {self.problem.receding}, "
            "so that coefficients grow without end; their size depends on tol alone"
        )

    def _psi(self, x: Array) -> float:
        return self.problem.penalty.value(x) + 0.5 * self.problem.ridge * float(x @ x)

    def _model(self, at: FirstOrder, active: Mask, H: Array, damping: float) -> ModelStep:
        """The minimiser of the model in the active features."""
        bent = H + np.diag(damping * np.diag(H)) if damping else H
        if not self.compiled:
            return self._model_by_prox(at, bent)
        start, u = at.x[active], at.x[active].copy()
        floor = native.TRACE * native.EPSILON * abs(at.value)
        form = self.psi.form(active)
        solved = descend(form, bent, at.gradient[active], start, u, native.FINE, floor)
        whole = at.x.copy()
        whole[active] = u
        good = np.isfinite(solved.gained) and np.isfinite(u).all()
        return ModelStep(whole if good else at.x, solved.gained if good else np.inf, solved.rounds)

    def _model_by_prox(self, at: FirstOrder, H: Array) -> ModelStep:
        """The minimiser of the model by FISTA, for a penalty that has only a prox."""
        ridge, size = self.problem.ridge, at.x.size
        bent = H + ridge * np.eye(size)
        model = QuadraticObjective(at.x, at.gradient + ridge * at.x, bent, self.problem.penalty)
        if not model.smoothness.L_max > 0.0:
            return ModelStep(at.x, 0.0, 0)
        with held_warnings():
            fista = FISTA(epochs=MODEL_EPOCHS, tol=1e-12, eval_every=MODEL_EPOCHS)
            found = fista.solve(model, at.x)
        before = self.problem.penalty.value(at.x)
        return ModelStep(found.x, before - model.objective(found.x), found.epoch)

    def _length(self, at: FirstOrder, u: Array, height: float) -> tuple[float, int]:
        """The length of the step that lowers P as promised (0 if none does), and the passes made."""
        d, length = u - at.x, 1.0
        promised = float(at.gradient @ d) + self._psi(u) - self._psi(at.x)
        if not (promised < 0.0 and np.isfinite(d).all()):
            return 0.0, 0
        for k in range(HALVINGS):
            to = u if k == 0 else at.x + length * d
            reached = self._expand(to).value + self._psi(to)
            allowed = height + native.ARMIJO * length * promised
            if reached <= allowed + (native.ROUNDING * abs(height) if k == 0 else 0.0):
                return length, k + 1
            length *= 0.5
        return 0.0, HALVINGS

    # --- its end -------------------------------------------------------------------------------

    def certify(self, state: State) -> Check:
        if self.certificate == RelativeMapping.name:
            return super().certify(state)
        problem, at, bound = self.problem, self._expand(state["x"]), np.inf
        near = 100.0 * self.solver.tol * problem.reference
        if self.dual:
            bound = duality_gap(problem, as_able(problem.penalty), at)
        target = self.solver.tol * problem.reference
        if not bound <= target and self.decrements and state["newton"][1] <= near:
            at, proved = self._decrement(at)
            if proved < bound:
                bound, state = proved, state | {"x": at.x}
        return Check(bound / problem.reference, problem.n, 1, state)

    def _decrement(self, at: FirstOrder) -> tuple[FirstOrder, float]:
        """The Newton decrement at x; for a penalty that has only a prox, at the end of a proximal gradient step.

        Next to the minimum such a step may seem not to lower P, because of rounding. The bound that is proved at its end then
        holds at x too.
        """
        diagonal = np.arange(at.x.size)
        every = diagonal.astype(np.uint32)
        H = self.problem.hessian(at.x, every)
        at.gradient[~self.problem.varying] = 0.0
        if np.any(self.problem.varying & (np.diag(H) == 0.0)):
            return at, np.inf  # rounding has destroyed the curvature
        if self.compiled:
            h, l2 = residual(self.psi.form(self.everything), at.x, at.gradient)
            H[diagonal, diagonal] += l2
            return at, proved_decrement(self.problem, h, H)
        ridge = self.problem.ridge
        step = 1.0 / (float(np.linalg.eigvalsh(H)[-1]) + ridge or 1.0)
        slope = at.gradient + ridge * at.x
        u = self.problem.prox(at.x - step * slope, step)
        then, height = self.problem.expand(u), at.value + self._psi(at.x)
        lower = then.value + self._psi(u) <= height
        h = then.gradient + ridge * u - slope + (at.x - u) / step
        H = self.problem.hessian(u, every)
        H[diagonal, diagonal] += ridge
        proved = proved_decrement(self.problem, h, H)
        return (then, proved) if lower else (at, proved + native.ROUNDING * abs(height))
