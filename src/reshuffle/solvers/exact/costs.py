"""Estimates the cost of a step of each phase, in nanoseconds on one core, from counts of work and never by a clock.

The numbers were measured on dense and sparse sets within and beyond the cache (benchmarks/NOTES.md); only their ratios
matter.
"""

from __future__ import annotations

from math import prod

import numpy as np

from reshuffle.datafit import Datafit
from reshuffle.objective import Array
from reshuffle.penalties.abilities import rows
from reshuffle.problem import Problem
from reshuffle.solvers.exact.newton_steps import form_of
from reshuffle.solvers.newton_model import FEW
from reshuffle.solvers.slope_table import SlopeTable, is_linear_model

VISIT = 20.0
"""Nanoseconds of a shuffled step, without its stored values."""
STORED = 1.9
"""Nanoseconds of a stored value and output in a shuffled step on sparse rows."""
DENSE_STORED = (4e6, 0.35), (3.2e7, 0.7), (np.inf, 1.0)
"""Pairs of a size of dense data, in bytes, and the nanoseconds of a value in a shuffled step on data up to this size."""
OUTPUT = 0.45
"""Nanoseconds of a stored value and output in a shuffled step on dense rows with several outputs."""
PROX = 1.5
"""Nanoseconds of a coordinate in a prox of the core."""
ROW = 12.0, 1.0
"""Nanoseconds of a row in a pass in storage order, without its stored values, for sparse and for dense rows."""
READ = 0.7, 0.24
"""Nanoseconds of a stored value and output in a pass in storage order, for sparse and for dense rows."""
SEVERAL = 0.75
"""With several outputs, a dense value takes this share of ``READ`` in passes for f and its gradient."""
LOSS = 5.0
"""Nanoseconds of the loss of a row and output, with its slope."""
TRIALS = 17.0
"""Nanoseconds of a row and output in a line search, which tries about two points."""
PASSES = 5
"""Passes in a Newton step: f and its slopes before and after it, the margins of the step, and the check of the other columns."""
SPARSE = 1.0
"""Nanoseconds of a product of two stored values of a row, in the Hessian."""
DENSE = 0.055
"""Nanoseconds of a product of two entries of rows laid out as dense ones."""
COLUMN = 2.5
"""Nanoseconds of a stored value in a sweep of coordinate descent, which visits it twice; it took as large a share of that as other work does of its count."""
SOLVE = 6.0
"""Nanoseconds of an entry of the Hessian in the solver of the model: about ten sweeps over it."""
WIDE = 1000.0
"""Beyond this many coordinates the solver takes more sweeps over the Hessian, about as the square of their number."""
FACTOR = 0.02
"""Nanoseconds for each unit of the cube of the Hessian's width: three factorisations."""
SINGULAR = 10.0
"""The solver takes this many times as long if more features are not zero than rows have curvature, and no ridge adds to it: the Hessian is
singular, and each round leaves the face of the last one. Measured on a squared hinge with 1,400 features."""
STEP_CALLS = 3e5
"""Nanoseconds of Python code around a second-order step."""
KERNEL_CALLS = 1e5
"""Nanoseconds of Python code around a Newton step by the kernel of the rows."""
EPOCH_CALLS = 6e4
"""Nanoseconds of Python code around an epoch."""
LARGEST = 3000
"""The most coordinates of a Hessian: 72 MB."""
PRODUCT = 1.85
"""Passes that cost as much as one product with the Hessian, which reads values once and uses them twice."""


def epoch(table: SlopeTable, blocks: int) -> float:
    """Nanoseconds of a shuffled epoch on this table, with ``blocks`` proxes."""
    problem = table.problem
    around = EPOCH_CALLS + PROX * blocks * prod(problem.shape)
    if not is_linear_model(problem):
        return around + table.count * VISIT
    fit = problem.datafit
    outputs = prod(fit.outputs)
    stored = STORED
    if fit.rows.dense:
        size = fit.rows.values.nbytes
        stored = (
            OUTPUT if outputs > 1 else next(each for most, each in DENSE_STORED if size <= most)
        )
    return around + table.count * (VISIT + stored * fit.rows.stored / fit.n * outputs)


def one_pass(fit: Datafit) -> float:
    """Nanoseconds of a pass over all rows in storage order."""
    outputs, dense = prod(fit.outputs), int(fit.rows.dense)
    return fit.n * (ROW[dense] + READ[dense] * fit.rows.stored / fit.n * outputs)


def newton(
    problem: Problem, x: Array, curved: float, expected: int = 0, share: float = 1.0
) -> float:
    """Nanoseconds of a Newton step at x; infinite if the Hessian would be too large.

    The Hessian is summed over the rows with curvature, a share ``curved`` of all, and has the features that are not zero (of these
    a ``share``), or as many as are ``expected``.
    """
    fit = problem.datafit
    n, outputs, dense = fit.n, prod(fit.outputs), fit.rows.dense
    support = max(int(share * np.count_nonzero(rows(x != 0))), expected)
    if not form_of(problem).holds_at_zero:
        support = fit.features
    active = min(fit.features, max(FEW, support)) + fit.bias
    if fit.loss.each is not None:
        return _several_squares(problem, active)
    width = active * outputs
    if dense and outputs > 1:
        width = _coordinates(problem, x, support)
    if width > LARGEST:
        return np.inf
    if dense and outputs > 1:  # one matrix product in the coordinates that matter
        products = DENSE * width**2 / 2
    else:
        pairs = outputs * (outputs - 1) / 2 if outputs > 1 else 1
        products = pairs * _products_of_a_row(fit, active)
    passes = PASSES * one_pass(fit) + n * TRIALS * outputs
    solving = SOLVE * max(1.0, width / WIDE) ** 2 * width**2 + FACTOR * width**3
    if form_of(problem).holds_at_zero and support > curved * n and problem.strong_convexity == 0.0:
        solving *= SINGULAR
    return STEP_CALLS + passes + n * curved * products + solving


def conjugate_gradients(fit: Datafit, products: float) -> float:
    """Nanoseconds of a Newton step by conjugate gradients with ``products`` products, for one output."""
    return STEP_CALLS + (PRODUCT * products + PASSES) * one_pass(fit) + fit.n * TRIALS


def column_step(fit: Datafit, sweeps: int) -> float:
    """Nanoseconds of a Newton step by this many sweeps of coordinate descent over the columns of sparse rows."""
    return STEP_CALLS + sweeps * COLUMN * fit.rows.stored + PASSES * one_pass(fit) + fit.n * TRIALS


def kernel(fit: Datafit) -> float:
    """Nanoseconds of the products of all pairs of dense rows."""
    return DENSE * fit.n**2 * fit.features / 2


def kernel_step(fit: Datafit) -> float:
    """Nanoseconds of a Newton step by a factorisation of the kernel of the rows, which needs no pass for the margins of the step."""
    return KERNEL_CALLS + (PASSES - 1) * one_pass(fit) + fit.n * TRIALS + FACTOR * fit.n**3


def passes(fit: Datafit, number: float) -> float:
    """Nanoseconds of a step that consists of ``number`` passes for f and its gradient."""
    share = SEVERAL if fit.rows.dense and fit.outputs else 1.0
    return STEP_CALLS + number * (2.0 * share * one_pass(fit) + fit.n * LOSS * prod(fit.outputs))


def block(fit: Datafit) -> float:
    """Nanoseconds of one diagonal block of the Hessian of several outputs, and of its inverse."""
    width = fit.features + fit.bias
    return fit.n * _products_of_a_row(fit, width) + FACTOR * width**3


def block_passes(fit: Datafit) -> float:
    """Passes for f and its gradient that cost as much as one diagonal block of the Hessian, by counts of products."""
    width = fit.features + fit.bias
    inside = width if fit.rows.dense else fit.rows.stored / fit.n + fit.bias
    share = 4.0 * fit.rows.stored * prod(fit.outputs)
    return float((fit.n * inside**2 + width**3) / max(share, 1.0))


def _coordinates(problem: Problem, x: Array, support: int) -> int:
    """The number of coordinates (pairs of a feature and an output) that matter at x, on dense rows."""
    fit, form = problem.datafit, form_of(problem)
    outputs, several = prod(fit.outputs), form.holds_at_zero and form.one_by_one is not None
    support = int(np.count_nonzero(x)) if several else support * outputs
    return min(fit.features * outputs, max(FEW, support)) + fit.bias * outputs


def _several_squares(problem: Problem, active: int) -> float:
    """Nanoseconds of a Newton step for squares over several outputs, which share one Hessian of the features.

    If the penalty is separable, the outputs are solved one by one.
    """
    fit = problem.datafit
    outputs = prod(fit.outputs)
    separable = form_of(problem).one_by_one is not None
    width, models = (active, outputs) if separable else (active * outputs, 1)
    if width > LARGEST:
        return np.inf
    passes = PASSES * one_pass(fit) + fit.n * TRIALS * outputs
    solving = models * (SOLVE * width**2 + FACTOR * width**3)
    return STEP_CALLS + passes + fit.n * _products_of_a_row(fit, active) + solving


def _products_of_a_row(fit: Datafit, active: int) -> float:
    """Nanoseconds of a row's products in the Hessian of the active features, in the mean.

    A row with l stored values has l² pairs of them, so rows of different lengths have more pairs than rows of the mean length.
    """
    share = min(active / max(fit.features, 1), 1.0)
    first, second = fit.row_lengths
    inside = share**2 * second + 2.0 * fit.bias * share * first + fit.bias
    return float(min(SPARSE * inside / 2, DENSE * active**2 / 2))
