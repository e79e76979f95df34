"""Shuffled passes with differential privacy for samples: clipped gradients, noise, and then the prox.

    x ← x - γ·a·( Σ_{i in batch} clip_C(∇f_i(x)) + N(0, z²C²I) ),   a = ⌈n/b⌉/n,
    x_{t+1} = prox_{γ_t n ψ}(x)

Each sample takes part in one noised sum of an epoch, whatever the order. All later computations, such as the prox, depend on
the data through the noised sums alone and cost no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reshuffle.arrays import Array, Ends, Visits
from reshuffle.objective import FiniteSum
from reshuffle.orders import Order, Reshuffle
from reshuffle.privacy import Account
from reshuffle.privacy.noise import secret_generator
from reshuffle.randomness import generator
from reshuffle.solvers.incremental import Incremental
from reshuffle.solvers.method import State
from reshuffle.solvers.sampling import Sampling, permuted
from reshuffle.steps import Schedule


@dataclass(frozen=True, eq=False)
class NoisyPass:
    """A pass over some functions with clipped gradients and noise of standard deviation ``sigma`` on each batch's sum."""

    sampling: Sampling
    allocate: Any
    """The order's random batches, drawn in secret; None if the visits are cut into batches in turn."""
    clip: float
    sigma: float

    @classmethod
    def of(
        cls, problem: FiniteSum, order: Order, batch: int, first: np.random.Generator, clip: float, sigma: float
    ) -> NoisyPass:  # fmt: skip
        """``first`` is the generator of the first epoch, from which a fixed order is drawn."""
        allocate: Any = getattr(order, "allocate", None)
        sampling = permuted(problem, Reshuffle() if allocate else order, batch, False, first)
        return cls(sampling, allocate, clip, sigma)

    def __call__(
        self,
        x: Array,
        rng: np.random.Generator,
        epoch: int,
        step: float,
        secret: np.random.Generator,
        *,
        factor: float = 1.0,
        prox_step: float = 0.0,
    ) -> None:
        """Make the pass, which changes x in place. ``rng`` gives the run's random numbers, ``secret`` those that must stay secret.

        ``factor`` is that of a client (see ``federated.plan``).
        """
        visits, ends = self._batches(rng, epoch, secret)
        average = factor * self.sampling.average
        share = self.sampling.problem.n / self.sampling.steps

        def noise(count: int) -> Array:
            return self.sigma * secret.standard_normal((count, *x.shape))

        self.sampling.problem.clipped_sweep(
            x, visits, ends, step,
            average=average, clip=self.clip, noise=noise, share=share, prox_step=prox_step,
        )  # fmt: skip

    def _batches(
        self, rng: np.random.Generator, epoch: int, secret: np.random.Generator
    ) -> tuple[Visits, Ends]:
        """The visits, and the ends of batches among them."""
        n, length = self.sampling.problem.n, self.sampling.batch
        if self.allocate is not None:
            found: tuple[Visits, Ends] = self.allocate(
                np.arange(n, dtype=np.uint32), self.sampling.steps, secret
            )
            return found
        visits = self.sampling.visits(rng, epoch)
        return visits, np.minimum(np.arange(length, n + length, length), n).astype(np.int64)


class PrivateEpochs(Incremental):
    """The epochs of ProxRR with privacy. P(x) is not evaluated: it is known from the data without noise."""

    evaluates = False
    instead: ClassVar[str] = ""

    def __init__(
        self,
        problem: FiniteSum,
        noisy: NoisyPass,
        schedule: Schedule,
        seed: int,
        prox_each_step: bool,
        account: Account,
    ) -> None:
        super().__init__(problem, noisy.sampling, schedule, seed, prox_each_step)
        self.noisy, self.account, self.safe_step = noisy, account, np.inf

    def objective(self, state: State) -> float:
        return np.nan

    def sweep(self, x: Array, epoch: int, step: float) -> int:
        prox = step if self.prox_each_step else 0.0
        rng = generator(self.seed, epoch)
        self.noisy(x, rng, epoch, step, secret_generator(), prox_step=prox)
        return self.sampling.problem.n
