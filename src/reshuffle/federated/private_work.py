"""Local work with differential privacy: clipped changes of the model, or passes with clipped gradients and noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from reshuffle.federated.local import (
    ClientGroup,
    GroupEpoch,
    Load,
    Local,
    LocalEpoch,
    travels,
    travels_around,
)
from reshuffle.objective import Array, FiniteSum, clipped
from reshuffle.orders import Order
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.randomness import Stream
from reshuffle.solvers.private import NoisyPass


class Noised(Local):
    """Local work with noise, which is a function of the question and of a key of the client."""

    tells_constants: ClassVar[bool] = False

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        return self.bind_noisy(client, position, factor, RepeatedNoise())


@travels_around
@dataclass(frozen=True)
class Clipped(Noised):
    """x + clip_C(x̂_m - x) + N(0, σ²I): the reply of a client whose change of the model is bounded (``ClientLevel``).

    ``sigma`` is a client's share of the noise; 0 where the driver adds it. The change is that of the local work inside.
    """

    inner: Local
    clip: float
    sigma: float
    seed: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", self.inner.seed)

    def load(self, client: FiniteSum) -> Load:
        return self.inner.load(client)._replace(smoothness=0.0)

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return self.inner.gradients(visits, samples, number)

    def rehearse(self, client: FiniteSum) -> None:
        self.inner.rehearse(client)

    def bind_noisy(
        self, client: FiniteSum, position: int, factor: float, noise: RepeatedNoise
    ) -> LocalEpoch:
        passes = self.inner.bind(client, position, factor)

        def epoch(
            x: Array, step: float, number: int, stream: Stream, control: Array | None
        ) -> Array:
            model = passes(x, step, number, stream, control)
            return self._private(model, x, step, number, noise)

        return epoch

    def bind_group(self, group: ClientGroup) -> GroupEpoch | None:
        """None: noise depends on the number of the round, which the call of a group is not given."""
        return None

    def _private(
        self, model: Array, x: Array, step: float, number: int, noise: RepeatedNoise
    ) -> Array:
        # A change that is not finite counts as none, because a failure would reveal something about the data.
        change = np.nan_to_num(model - x, nan=0.0)
        found = x + clipped(change, self.clip)
        if self.sigma > 0.0:
            asked = x.tobytes(), repr((step, number)).encode(), model.tobytes()
            found += self.sigma * noise.generator(*asked).standard_normal(x.shape)
        return found


@travels
@dataclass(frozen=True)
class NoisyShuffled(Noised):
    """A pass with clipped gradients and noise in each step (FedRR with ``SampleLevel``)."""

    order: Order
    batch: int
    seed: int
    clip: float
    sigma: float

    def load(self, client: FiniteSum) -> Load:
        return Load(client.n, float(-(-client.n // self.batch)), 0.0)  # L_max must not be revealed.

    def bind_noisy(
        self, client: FiniteSum, position: int, factor: float, noise: RepeatedNoise
    ) -> LocalEpoch:
        first = Stream(self.seed, 0).at(position)
        noisy = NoisyPass.of(client, self.order, self.batch, first, self.clip, self.sigma)

        def epoch(
            x: Array, step: float, number: int, stream: Stream, control: Array | None
        ) -> Array:
            model = x.copy()
            secret = noise.generator(x.tobytes(), repr((step, number)).encode())
            noisy(model, stream.at(position), number, step, secret, factor=factor)
            return model

        return epoch
