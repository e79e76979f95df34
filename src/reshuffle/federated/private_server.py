"""The driver's side of differential privacy: its noise, checks of settings, and the privacy account of a run."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from reshuffle.errors import InputError
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Local
from reshuffle.federated.private_work import Clipped, NoisyShuffled
from reshuffle.federated.server import Averaging, Prox
from reshuffle.objective import Array
from reshuffle.orders import Order
from reshuffle.privacy import Account, ClientLevel, Level, SampleLevel
from reshuffle.privacy.noise import secret_generator
from reshuffle.privacy.settings import check_private

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


class NoisyAveraging(Averaging):
    """x⁺ = prox_{γ(S/M)R}( (1/M)(Σ_m x̂_m + N(0, z²C²I)) ), with fresh noise in each round."""

    sums_only: ClassVar[bool] = True
    """This server uses only the sum of the replies."""
    may_round: ClassVar[bool] = True

    def __init__(self, prox: Prox, totals: Array, sigma: float) -> None:
        super().__init__(prox, totals)
        self.sigma = sigma

    def combined(self, total: Array) -> Array:
        return total + self.sigma * secret_generator().standard_normal(total.shape)


def turns_of(clients: int, participation: float) -> tuple[int, int]:
    """The number of rounds in which each client has one turn, and the smallest number of clients of a round."""
    few = max(1, round(participation * clients))
    turns = -(-clients // few)
    return turns, clients - (turns - 1) * few


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
    turns, _ = turns_of(federation.count, solver.participation)
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
        _, fewest = turns_of(federation.count, solver.participation)
        share = float(sigma / np.sqrt(fewest)) if level.noise_at == "sites" else 0.0
        return Clipped(plain, float(level.clip), share)
    order: Order = solver.order
    return NoisyShuffled(order, solver.batch_size, solver.seed, float(level.clip), float(sigma))
