"""Differential privacy in rounds: local work and a server with noise, checks of settings, and the privacy account of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from reshuffle.errors import InputError
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import (
    ClientGroup,
    Load,
    Local,
    LocalEpoch,
    Turn,
    travels,
)
from reshuffle.federated.server import Averaging, Prox
from reshuffle.objective import Array, FiniteSum, clipped
from reshuffle.orders import Order
from reshuffle.privacy import Account, ClientLevel, Level, SampleLevel
from reshuffle.privacy.noise import RepeatedNoise, secret_generator
from reshuffle.privacy.settings import check_private
from reshuffle.randomness import Stream
from reshuffle.solvers.private import NoisyPass

DRIVER = "the driver is trusted: it sees the changes of single clients and adds the noise"
SITES = (
    "the guarantee holds for whoever sees the models or sums; the driver sees single replies with a share of the noise "
    "unless sums are secure"
)
MASKED = (
    "sums are secure, so that the driver sees no reply without the noise of all sites of its round; whoever shares its own noise "
    "with the driver takes its share of the variance from the sum"
)
ANSWERS = "every client of a round answers; what sites tell before the first round (sizes, digests, constants) is not covered"


@travels
@dataclass(frozen=True)
class Clipped(Local):
    """x + clip_C(x̂_m - x) + N(0, σ²I): the reply of a client whose change of the model is bounded (``ClientLevel``).

    ``sigma`` is a client's share of the noise; 0 where the driver adds it. The change is that of the local work inside.
    """

    inner: Local
    clip: float
    sigma: float
    seed: int = field(init=False)
    tells_constants: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", self.inner.seed)

    def load(self, client: FiniteSum) -> Load:
        return self.inner.load(client)._replace(smoothness=0.0)

    def gradients(self, visits: int, samples: int, number: int) -> int:
        return self.inner.gradients(visits, samples, number)

    def rehearse(self, client: FiniteSum) -> None:
        self.inner.rehearse(client)

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        passes = self.inner.bind(client, position, factor)

        def epoch(turn: Turn) -> Array:
            x, model = turn.x, passes(turn)
            # A change that is not finite counts as none, because a failure would reveal something about the data.
            found = x + clipped(np.nan_to_num(model - x, nan=0.0), self.clip)
            if self.sigma > 0.0:
                found += self.sigma * _secret(turn, model.tobytes()).standard_normal(x.shape)
            return found

        return epoch

    def bind_group(self, group: ClientGroup) -> LocalEpoch | None:
        """None: noise depends on the number of the round, which the call of a group is not given."""
        return None


@travels
@dataclass(frozen=True)
class NoisyShuffled(Local):
    """A pass with clipped gradients and noise in each step (FedRR with ``SampleLevel``)."""

    order: Order
    batch: int
    seed: int
    clip: float
    sigma: float
    tells_constants: ClassVar[bool] = False

    def load(self, client: FiniteSum) -> Load:
        return Load(client.n, float(-(-client.n // self.batch)), 0.0)  # L_max must not be revealed.

    def bind(self, client: FiniteSum, position: int, factor: float) -> LocalEpoch:
        first = Stream(self.seed, 0).at(position)
        noisy = NoisyPass.of(client, self.order, self.batch, first, self.clip, self.sigma)

        def epoch(turn: Turn) -> Array:
            model, rng = turn.x.copy(), turn.stream.at(position)
            noisy(model, rng, turn.number, turn.step, _secret(turn), factor=factor)
            return model

        return epoch


def _secret(turn: Turn, *answer: bytes) -> np.random.Generator:
    """The client's noise, a function of the question, of the ``answer`` that it is added to, and of a key of the client."""
    noise = turn.noise or RepeatedNoise()
    return noise.generator(turn.x.tobytes(), repr((turn.step, turn.number)).encode(), *answer)


class NoisyAveraging(Averaging):
    """x⁺ = prox_{γ(S/M)R}( (1/M)(Σ_m x̂_m + N(0, z²C²I)) ), with fresh noise in each round."""

    sums_only = True
    may_round = True

    def __init__(self, prox: Prox, totals: Array, sigma: float) -> None:
        super().__init__(prox, totals)
        self.sigma = sigma

    def combined(self, total: Array) -> Array:
        return total + self.sigma * secret_generator().standard_normal(total.shape)


def check_private_rounds(solver: Any, *levels: type[Level]) -> None:
    """Refuse settings of a federated solver that would leak, or leave a sum without its noise."""
    if type(solver.privacy) is SampleLevel and SampleLevel not in levels:
        raise InputError(
            f"{type(solver).__name__} draws samples with replacement, of which there is no account here: "
            "use FedRR with privacy.SampleLevel, or privacy.ClientLevel"
        )
    check_private(solver, *levels)
    if solver.privacy is not None and solver.on_missing == "average":
        raise InputError(
            'on_missing must be "raise" with privacy: a round without some of its clients would lack their noise, or '
            "divide by another number"
        )


def check_public_penalty(sites: object) -> None:
    """Refuse a penalty that is chosen from the sites' answers, because its strength would reveal L_f of the data without noise."""
    if getattr(sites, "choose_penalty", None) is not None:
        raise InputError(
            "choose_penalty must be None with privacy: a penalty that is made of what the sites tell, such as L_f, depends on "
            "the data without noise; give penalty=, in numbers"
        )


def check_sites(federation: Federation) -> None:
    """Refuse sites whose common scales or encodings were found from their data."""
    agreed = getattr(federation, "agreed", None)
    if agreed is None:
        return
    record = agreed.record
    if record.get("mean") is not None or record.get("deviation") is not None:
        raise InputError(
            "sites must not be standardised with privacy: means and deviations of the columns leave them without noise; "
            "scale the columns by known ranges beforehand"
        )
    if agreed.encoding is not None:
        raise InputError(
            "sites must hold matrices with privacy: categories, medians and scales of tables leave them without noise; "
            "encode the columns by known rules beforehand"
        )


def account_of_rounds(solver: Any, level: Level, federation: Federation) -> Account:
    """The account of a federated run."""
    check_sites(federation)
    clients = level.unit == "client"
    level.check_units(federation.count if clients else int(federation.n))
    turns = solver.policy.turns(federation.count)
    steps = None
    if not clients and hasattr(solver.order, "allocate"):
        steps = -(-int(np.min(federation.sizes)) // solver.batch_size)
    driver = getattr(level, "noise_at", "") == "driver"
    seen = DRIVER if driver else MASKED if federation.masked else SITES
    assumed = ((seen,) if clients else ()) + (ANSWERS,)
    tested = ("held-out rows of sites are not protected",) if federation.tested else ()
    z = level.multiplier(-(-solver.rounds // turns))
    return Account(level, z, turns, steps, assumed + tested)


def private_work(solver: Any, level: Level, plain: Local, federation: Federation) -> Local:
    """The local work of the level: the solver's own work with a clipped change, or passes with noise in each step."""
    account = account_of_rounds(solver, level, federation)
    sigma = account.multiplier * level.clip
    if isinstance(level, ClientLevel):
        fewest = solver.policy.fewest(federation.count)
        share = float(sigma / np.sqrt(fewest)) if level.noise_at == "sites" else 0.0
        return Clipped(plain, float(level.clip), share)
    order: Order = solver.order
    return NoisyShuffled(order, solver.batch_size, solver.seed, float(level.clip), float(sigma))
