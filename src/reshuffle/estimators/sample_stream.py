"""Learning from one part of the data after another, with an epoch of ProxRR per call."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from reshuffle.arrays import AnyArray
from reshuffle.design import check_rows
from reshuffle.disk_datafit import datafit_on
from reshuffle.estimators.inputs import Prepared
from reshuffle.losses.offsets import check_offsets
from reshuffle.penalties import Penalty
from reshuffle.problem import Problem
from reshuffle.solvers import ProxRR
from reshuffle.trace import Result
from reshuffle.validation import check_weights, read_only


@dataclass(frozen=True)
class SampleStream:
    """The state that ``partial_fit`` keeps between calls.

    A call makes one shuffled pass with the step

        γ = 1/(L + μ·s/2)  where μ > 0,    γ = 1/(L·√(1 + c))  elsewhere,

    with L the largest L_i of all rows so far, s their number, c the calls so far, and μ the strong convexity
    of the penalty: 1/L at first, the largest that the theory of ProxRR allows, and then as 2/(μs) or 1/√c.
    """

    seed: int
    calls: int = 0
    samples: int = 0
    largest: float = 0.0

    @classmethod
    def after(cls, problem: Problem, seed: int) -> SampleStream:
        """The stream after a whole fit, which counts as one call."""
        # Later calls are refused if the curvature of the loss has no bound.
        bounded = problem.loss.curvature < np.inf
        return cls(seed, 1, problem.n, problem.smoothness.L_max if bounded else 0.0)

    def advance(self, part: Problem, x0: AnyArray | None) -> tuple[Result, SampleStream]:
        """The model after a pass over this part, and the stream to remember."""
        largest = max(self.largest, part.smoothness.L_max)
        after = replace(self, calls=self.calls + 1, samples=self.samples + part.n, largest=largest)
        if not largest > 0:  # All rows are zero: nothing can be learned from them.
            return ProxRR(step=1.0, epochs=1, seed=self.seed).solve(part, x0), after
        mu = part.strong_convexity
        slower = np.sqrt(1.0 + self.calls)
        step = 1.0 / (largest + mu * self.samples / 2.0 if mu > 0 else largest * slower)
        solver = ProxRR(step=float(step), epochs=1, seed=self.seed + self.calls)
        return solver.solve(part, x0), after


def chunk(data: Prepared, penalty: Penalty) -> Problem:
    """The problem of a part of the rows, in which some classes may be absent."""
    if data.codes is None:
        return data.problem(penalty)
    outputs, loss = data.outputs, data.loss
    every = np.arange(outputs[0]) if outputs else np.array([-1.0, 1.0])
    empty = sp.csr_matrix((every.size, data.X.shape[1]))
    intercept = bool(data.fit_intercept)
    whole = Problem(empty, every, loss, penalty, fit_intercept=intercept)
    rows, n, features = check_rows(data.X)
    targets = read_only(data.y.astype(whole.targets.dtype))
    weights = check_weights(data.weights, n)
    offsets = check_offsets(data.offsets, None, n, loss)
    fit = datafit_on(rows, targets, weights, loss, intercept, features, outputs, offsets)
    return whole.with_datafit(fit)
