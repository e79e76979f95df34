"""When a Newton step is worth its cost against shuffled epochs: decided by counts, never by a clock."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple, cast

import numpy as np

from reshuffle.objective import Array
from reshuffle.penalties.abilities import rows
from reshuffle.penalties.forms import Coordinates, Form
from reshuffle.problem import Problem
from reshuffle.solvers.certificate import Certificate, FreeCoordinates, Proof
from reshuffle.solvers.exact.newton_cg import FaceSteps, has_faces
from reshuffle.solvers.exact.newton_compiled import PART, Whole, is_small
from reshuffle.solvers.exact.newton_drivers import Descent
from reshuffle.solvers.exact.newton_steps import Newton, Progress
from reshuffle.solvers.newton_model import FEW
from reshuffle.solvers.second_order import Linearisation
from reshuffle.solvers.slope_table import SlopeTable

# Nanoseconds on one core, measured on a9a and on dense sets (benchmarks/NOTES.md). Ratios are what counts.
VISIT = 20.0  # of a shuffled step, besides its values
STORED = (
    1.9,
    0.35,
)  # of a stored value and output in a shuffled step: of sparse rows, of dense ones,
OUTPUT = 0.7  # and of dense ones with several outputs
ROW = 10.0  # of a row in a pass in storage order, besides its values
READ = 1.2, 0.25  # of a stored value and output there
TRIALS = 17.0  # of a row and output in the search along a line, which tries two points or so
PASSES = 4  # of a Newton step: f and its slopes, the margins of the step, and columns looked at
SPARSE = 1.0  # of a product of two stored values of a row, in the Hessian
DENSE = 0.1  # of a product of two entries of rows laid out as dense ones
SOLVE = 6.0  # of an entry of the Hessian: some ten sweeps over it
FACTOR = 0.06  # of a cube of its width: three factorisations
CALLS = 3e5, 6e4  # of the Python around a Newton step, and around an epoch
NEEDED = 3.0  # Newton steps that are expected to be enough, wherever they begin
PROVING = 2.0  # of these, where nothing but a step proves anything: they are to be made in any case
FROM_ZERO = 6.0  # the same where no epoch was made,
WARM = 2.0  # and where the run begins near the end, as along a path
EPOCHS = 10.0, 5000.0  # that a run without them takes: so many, and so many visits
LEAST = 3.0  # epochs that a step may cost where epochs do not come nearer
CHEAP = 4.0  # epochs of a step that is worth it in any case: the last ones are there to certify
SETTLED = 2  # epochs after which a cheap step is made
LARGEST = 3000  # coordinates of a Hessian: 72 MB
FOUND = 5  # epochs after which most of the features that matter have been found
PRODUCTS = 12.0  # of a step on the face, with the Hessian
PRODUCT = 1.5  # passes that each is worth: values are read once and used twice
REST = 5  # epochs after a Newton step that could not lower P
LOOSEST = (
    1e-6  # of f(0): a bound for models to prove; farther out they lie too far below P to prove any
)
PRECISION = 1e-13  # of f(0): what rounding leaves of a bound
TRUSTED = 1e-4  # of f(0): a gap from where on the bound of a model with groups is believed too


class Steps(NamedTuple):
    """What the state of a run says about its Newton steps."""

    made: float = 0.0
    rest: float = 0.0
    """The epoch before which no further step is tried."""
    stuck: float = np.inf
    """P(x) where no step could lower it."""
    progress: Progress = Progress()

    @classmethod
    def of(cls, numbers: Array) -> Steps:
        made, rest, stuck, *progress = numbers.tolist()
        return cls(made, rest, stuck, Progress(*progress))

    def array(self) -> Array:
        return np.array([*self[:-1], *self.progress])


def certified(
    problem: Problem,
    form: Form,
    measured: Callable[[], Certificate],
    at: Linearisation,
    bound: float,
    tol: float,
) -> float:
    """The smaller of what Newton's models and the dual point prove at x, over f(0).

    Models with groups are solved less surely than separable ones: where there is a gap, it is asked.
    """
    separable = isinstance(form, Coordinates)
    bound = FreeCoordinates(problem).believed(bound, at.slopes, at.gradient)
    if separable and bound <= tol:
        return bound
    measure = measured()
    trusted = separable or isinstance(measure, Proof)
    x, ridge = at.x[: problem.features], problem.ridge
    gap = measure.from_slopes(
        at.x, at.slopes, at.gradient, lambda: at.value + 0.5 * ridge * float(np.sum(x * x))
    )
    return min(gap, bound) if trusted or gap <= TRUSTED else gap


class Finish:
    """Newton steps on the problem, or on the part of it that a working set is."""

    def __init__(self, memory: SlopeTable) -> None:
        self.memory = memory
        self._newton: Newton | None = None
        self._face: FaceSteps | None = None
        self._led: tuple[object, Linearisation] | None = None
        self._has_faces = has_faces(cast(Problem, memory.problem))

    @property
    def separable(self) -> bool:
        """Whether the models are solved coordinate by coordinate."""
        return isinstance(cast(Problem, self.memory.problem).form_with_ridge, Coordinates)

    def certified(self, at: Linearisation, bound: float, measure: Certificate, tol: float) -> float:
        """What is proved at a point that Newton steps in all features led to, over f(0)."""
        newton = self.newton(self.memory)
        return certified(newton.problem, newton.form, lambda: measure, at, bound, tol)

    def newton(self, part: SlopeTable) -> Newton:
        """The steps on this part; those of the last one are kept."""
        if self._newton is None or self._newton.problem is not part.problem:
            self._newton = Newton(cast(Problem, part.problem))
        return self._newton

    def face(self, part: SlopeTable) -> FaceSteps:
        """The steps on the face on this part; those of the last one are kept."""
        if self._face is None or self._face.problem is not part.problem:
            self._face = FaceSteps(cast(Problem, part.problem))
        return self._face

    def last(self, part: SlopeTable, x: Array) -> Linearisation | None:
        """f at x, where the last step on this part led there."""
        if self._led is None or self._led[0] is not part.problem:
            return None
        at = self._led[1]
        return at if np.array_equal(at.x, x) else None

    def led(self, part: SlopeTable, at: Linearisation) -> None:
        """Remember where a step on this part led."""
        self._led = part.problem, at

    def descent(self, part: SlopeTable) -> Descent:
        """The same as a run makes them: all in one call, where the set is small in a working set."""
        small = self.is_small(part)
        return Whole(cast(Problem, part.problem)) if small else self.newton(part)

    def is_small(self, part: SlopeTable) -> bool:
        """Whether all steps on this working set are made in one call."""
        return part is not self.memory and is_small(part.problem, PART)

    def pays(
        self,
        part: SlopeTable,
        x: Array,
        epoch: int,
        left: float,
        squarings: float,
        proving: bool,
        bent: float = 1.0,
    ) -> bool:
        """Whether Newton's way to the end is shorter than the epochs that seem to be ``left``.

        Near the end each of its steps squares the accuracy, so that they are no more than ``squarings``;
        but there a step on the face may cost less.

        At the start, shorter than those that a run usually takes: more where they are of few visits, as
        on wide sets. Where epochs do not come nearer at all, a step may cost as many as have been made.
        ``proving``: only a step can prove how far x is from the end. ``bent``: see ``cost``.
        """
        if self.is_small(part):
            return True
        cost = self.cost(part, x, bent)
        quadratic = cast(Problem, part.problem).loss.quadratic
        if epoch == 0:
            steps = 1.0 if quadratic else WARM if x.any() else FROM_ZERO
            return steps * cost <= EPOCHS[0] + EPOCHS[1] / part.count
        if left == np.inf:
            return cost <= max(LEAST, epoch)
        if epoch >= SETTLED and cost <= CHEAP:
            return True
        by_face = self._has_faces and epoch >= FOUND and self.face_cost(part) < cost
        needed = NEEDED if by_face else min(NEEDED, max(squarings, 1.0))
        steps = 1.0 if quadratic else max(needed - PROVING * proving, 1.0)
        return steps * cost <= left

    def face_pays(self, part: SlopeTable, epoch: int, left: float, warm: bool) -> bool:
        """Whether a step on the face, by conjugate gradients, is shorter than the epochs that seem to be left.

        Like those it has the features to itself that are not zero, so these should have been found;
        sooner where the run is ``warm``, begun near the end.
        """
        found = epoch >= (SETTLED if warm else FOUND)
        return self._has_faces and found and self.face_cost(part) <= left

    def face_cost(self, part: SlopeTable) -> float:
        """Of a step on the face, in epochs."""
        fit = cast(Problem, part.problem).datafit
        dense, stored = int(fit.rows.dense), fit.rows.stored / fit.n
        passes = (PRODUCT * PRODUCTS + PASSES) * (ROW + READ[dense] * stored) + TRIALS
        return (CALLS[0] + fit.n * passes) / self._epoch(part)

    def _epoch(self, part: SlopeTable) -> float:
        """Of an epoch."""
        fit = cast(Problem, part.problem).datafit
        outputs, dense = prod(fit.outputs), int(fit.rows.dense)
        stored = OUTPUT if dense and outputs > 1 else STORED[dense]
        each = VISIT + stored * fit.rows.stored / fit.n * outputs
        return CALLS[1] + part.count * each

    def cost(self, part: SlopeTable, x: Array, bent: float = 1.0) -> float:
        """Of a Newton step, in epochs. Of the rows, a share ``bent`` has curvature and is in the Hessian."""
        fit = cast(Problem, part.problem).datafit
        n, outputs, dense = fit.n, prod(fit.outputs), int(fit.rows.dense)
        stored = fit.rows.stored / n
        support = int(np.count_nonzero(rows(x != 0)))
        active = min(fit.features, max(FEW, support)) + fit.bias
        width = active * outputs
        if fit.loss.each is not None:  # one Hessian of the features, whatever the outputs
            return self._cost_of_squares(part, active)
        if (
            dense and outputs > 1
        ):  # one product in the coordinates that matter, whatever their features
            form = cast(Problem, part.problem).form_with_ridge
            held = bool(form.l1.any()) if isinstance(form, Coordinates) else True
            support = int(np.count_nonzero(x)) if self.separable else support * outputs
            support = support if held else fit.features * outputs  # nothing rests at zero
            width = min(fit.features * outputs, max(FEW, support)) + fit.bias * outputs
        if width > LARGEST:
            return np.inf
        inside = min(stored * active / max(fit.features, 1), active) + fit.bias
        pairs = outputs * (outputs - 1) / 2 if outputs > 1 else 1
        products = pairs * min(SPARSE * inside**2 / 2, DENSE * active**2 / 2)
        if dense and outputs > 1:
            products = DENSE * width**2 / 2
        passes = PASSES * (ROW + READ[dense] * stored * outputs) + TRIALS * outputs
        step = CALLS[0] + n * (passes + bent * products) + SOLVE * width**2 + FACTOR * width**3
        return step / self._epoch(part)

    def _cost_of_squares(self, part: SlopeTable, active: int) -> float:
        """The same for squares over several outputs, solved one by one where the penalty is separable."""
        fit = cast(Problem, part.problem).datafit
        n, outputs, dense = fit.n, prod(fit.outputs), int(fit.rows.dense)
        width, models = (active, outputs) if self.separable else (active * outputs, 1)
        if width > LARGEST:
            return np.inf
        stored = fit.rows.stored / n
        inside = min(stored * active / max(fit.features, 1), active) + fit.bias
        products = min(SPARSE * inside**2 / 2, DENSE * active**2 / 2)
        passes = PASSES * (ROW + READ[dense] * stored * outputs) + TRIALS * outputs
        solving = models * (SOLVE * width**2 + FACTOR * width**3)
        return (CALLS[0] + n * (passes + products) + solving) / self._epoch(part)
