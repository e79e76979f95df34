"""The pooled problem of sites, which the driver knows only from their answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.cached import cached_property, keep
from reshuffle.digests import digest
from reshuffle.engines import Engine, Plain, Record, Session, Task
from reshuffle.federated.agreement import Agreement
from reshuffle.federated.curvature import Curved
from reshuffle.federated.federation import Federation
from reshuffle.federated.local import Load, Local, Sampled, described
from reshuffle.federated.replies import Gatherer, Gathering, Letter, Said, Tally
from reshuffle.losses import Loss
from reshuffle.objective import Array
from reshuffle.penalties import Penalty
from reshuffle.smoothness import Smoothness

if TYPE_CHECKING:
    from reshuffle.federated.plan import Plan
    from reshuffle.federated.secure.gathering import SecureSums
    from reshuffle.federated.sites import Sites

NOTHING = np.empty(0)


class KnownConstants(Smoothness):
    """Constants that the sites reported."""

    def __init__(self, L_max: float, L_mean: float, L_f: float) -> None:
        super().__init__(lambda: np.array([L_max]))
        keep(self, _summary=(L_max, L_mean), _largest_eigenvalue=(L_f, 0.0), rough_L_f=L_f)


class RemoteFederation(Federation):
    """P(x) = (1/N) Σ_m F_m(x) + R(x), where each F_m is known to its site alone.

    Values, gradients and constants are sums, means or maxima of the sites' answers.
    """

    remote = True
    features = 0

    def __init__(
        self,
        sites: Sites,
        collect: Gathering,
        tally: Tally,
        agreed: Agreement,
        penalty: Penalty,
        secure: SecureSums | None,
    ) -> None:
        self.collect, self.tally, self.watch, self.agreed = collect, tally, tally, agreed
        self.penalty, self.model = penalty, sites.model
        self.loss, self.ridge = self.model.loss, self.model.ridge
        self.power_rounds, self.tells = sites.power_rounds, sites.objective
        self.tested = any(site.test is not None for site in sites.sites)
        self.features = int(agreed.record["features"])
        self.shape = (self.features + self.model.intercept, *agreed.outputs)
        self.sizes = agreed.sizes
        self.n = int(self.sizes.sum())
        self.secure, self.masked = secure, secure is not None
        if secure is not None:
            secure.sizes = self.sizes
        self._constants: list[Record] = []
        self._work: dict[str, Plain] = {}

    def __repr__(self) -> str:
        return f"<Sites: {self.described}, unknown of shape {self.shape}, penalty={self.penalty!r}>"

    def called(self, client: int) -> str:
        return self.collect.called(client)

    @property
    def losses(self) -> dict[str, Loss | None]:
        return {"sites": self.loss}

    # --- what is asked -------------------------------------------------------------------------

    def ask(self, kind: str, x: Array, more: Record | None = None) -> dict[int, Record]:
        """A message to all sites."""
        everyone = tuple(range(self.count))
        told: dict[str, Plain] = {**self.agreed.record, **(more or {})}
        own = {c: self._told(c) for c in everyone}
        task = Task(uuid.uuid4().hex, 0, 0.0, x, digest(x), everyone, kind=kind, more=told, own=own)
        summed = kind in ("value", "curvature")
        replies = (self.gatherer(self.collect) if summed else self.collect)(task).replies
        return {c: replies[c].more for c in everyone}

    @property
    def blur(self) -> float:  # type: ignore[override]
        return 0.0 if self.secure is None else self.secure.error

    def gatherer(self, plain: Gathering) -> Gatherer:
        return plain if self.secure is None else self.secure.gatherer(plain)

    def loads(self, local: Local) -> list[Load]:
        self._work = described(local)
        self._constants = list(self.ask("load", NOTHING, self._work).values())
        found: Any = self._constants
        return [Load(r["visits"], r["steps"], r["smoothness"]) for r in found]

    def say(self, x: Array, wanted: str) -> Said:
        return self.ask("value", x, {"wants": wanted})

    def columns(self) -> Said | None:
        # The answers are moments of single sites, which secure sums must not reveal.
        return None if self.masked else self.ask("columns", NOTHING)

    def smoothness_for(self, local: Local) -> Smoothness:
        # This belongs to the work that the sites were last asked about.
        known: Smoothness = self.smoothness
        return known

    def value(self, x: Array) -> float:
        return self.value_of(self.ask("value", x, {"wants": "value"}))

    def gradient(self, x: Array) -> Array:
        gradient = self.mean_of(self.say(x, "gradient"), "gradient")
        gradient[: self.features] += self.ridge * x[: self.features]
        return gradient

    @cached_property
    def smoothness(self) -> Smoothness:
        """L_max and L̄ of all functions, and L_f ≤ Σ (N_m/N) L_f,m, or closer by the power method."""
        if not self._constants:
            bounded = self.loss.curvature < np.inf
            self.loads(Sampled(1, 1, 0) if bounded else Curved(self.shape, self.features, 0))
        told: Any = self._constants
        mean, bound = (
            float(self.sizes @ [r[name] for r in told] / self.n) for name in ("L_mean", "L_f")
        )
        return KnownConstants(max(r["L_max"] for r in told), mean, self._closer(bound))

    @cached_property
    def typical_curvature(self) -> float:
        return self.smoothness.L_mean

    def _closer(self, bound: float) -> float:
        """1.1 times the estimate of a few rounds of the power method, which approaches L_f from below; at most ``bound``."""
        v = np.random.default_rng(0).standard_normal(self.shape[0])
        found = np.inf
        for _ in range(self.power_rounds):
            replies = self.ask("curvature", v / np.linalg.norm(v), self._work)
            v = sum(self.sizes[c] / self.n * np.asarray(r["product"]) for c, r in replies.items())
            found = 1.1 * float(np.linalg.norm(v))
        return min(bound, found)

    # --- the run's business --------------------------------------------------------------------

    def open(self, engine: Engine, plan: Plan) -> Session:
        return self.collect.session

    def letter(self, plan: Plan) -> Letter:
        work = described(plan.local)
        more: dict[str, Plain] = {**self.agreed.record, **work}
        own: dict[int, dict[str, Plain]] = {
            c: {**self._told(c), "position": plan.positions[c], "factor": plan.factors[c]}
            for c in range(self.count)
        }
        return more | {"setup": digest(more, own)}, own

    def _told(self, client: int) -> dict[str, Plain]:
        """The part of each message that is specific to a client: the factor of its weights, and the digest of the data that it announced."""
        return {"weight": self.agreed.weights[client], "data": self.agreed.data[client]}

    def prepare(self) -> None:
        """Do nothing, because sites prepare themselves."""

    def contents(self) -> Mapping[str, str]:
        return {
            "clients": digest(self.agreed.data, self.agreed.weights),
            "agreement": digest(dict(self.agreed.record), self.ridge, self.shape),
            "penalty": digest(self.penalty),
        }
