"""The pooled problem, seen as the sum of its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from reshuffle.arrays import AnyArray
from reshuffle.cached import cached_property
from reshuffle.digests import digest
from reshuffle.engines import Engine, Failure, Record, Reply, Session, Task, open_session
from reshuffle.errors import InputError, shown
from reshuffle.federated.host import ClientHost, answers
from reshuffle.federated.local import Load, Local
from reshuffle.losses import Loss
from reshuffle.objective import Array, FiniteSum, Objective, check_penalty
from reshuffle.penalties import Penalty
from reshuffle.smoothness import Smoothness

if TYPE_CHECKING:
    from reshuffle.federated.plan import Plan
    from reshuffle.federated.replies import Gatherer, Gathering, Letter, Said


Totals = Mapping[str, Array]
"""Means over the samples of all clients that were added up as answers came, by name."""
NONE: Totals = {}


def _check_alike(clients: Sequence[FiniteSum], penalty: bool) -> None:
    """Refuse clients that disagree, with a message that names both and their values."""
    asked: dict[str, Callable[[FiniteSum], object]] = {
        "features": lambda client: client.features,
        "shape of the unknown": lambda client: client.shape,
        "intercept": lambda client: bool(client.shape[0] - client.features),
        "loss": lambda client: getattr(client, "loss", None),
        "ridge": lambda client: client.ridge,
    }
    if penalty:
        asked["penalty"] = lambda client: client.penalty
    for number, client in enumerate(clients):
        for name, setting in asked.items():
            one, two = setting(clients[0]), setting(client)
            plain = isinstance(one, (str, float, int, tuple)) and one == two
            if not (one is two or plain or digest(one) == digest(two)):
                raise InputError(
                    f"clients must agree: {name} of client {number} is {shown(two)}, of client 0 {shown(one)}"
                )


def _weighted(clients: Sequence[FiniteSum]) -> tuple[FiniteSum, ...]:
    """The clients with their sample weights normalised over the federation to w_i·N/Σ w."""
    means = np.array([client.weight for client in clients])
    if np.all(means == means[0]):
        return tuple(clients)
    whole = means @ [client.n for client in clients] / sum(client.n for client in clients)
    return tuple(
        client.weighted(mean / whole) for client, mean in zip(clients, means.tolist(), strict=True)
    )


class Federation(Objective):
    """P(x) = (1/N) Σ_m F_m(x) + R(x), with F_m the sum of client m's N_m functions.

    Made by ``split``, or from one problem per client. Its objective, gradient and solution are those of
    the pooled data, against which the methods are measured. The methods themselves see one client at
    a time.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> north, south = rs.Problem(X[:200], y[:200]), rs.Problem(X[200:], y[200:])
    >>> sites = rs.federated.Federation([north, south], penalty=rs.penalties.L2(0.01))
    >>> sites.n, sites.sizes.tolist()
    (569, [200, 369])
    """

    sizes: AnyArray
    """N_m of each client."""
    remote: ClassVar[bool] = False
    """Whether P(x) is known only from the clients' answers, a round later."""

    watch: Callable[[Task, Reply | Failure, str], None] | None = None
    """A function that is called with every answer of a run, for display."""
    tested: bool = False
    """Whether a client has held-out data."""
    tells: bool = True
    """Whether clients report the value of their losses."""
    masked: bool = False
    """Whether clients reveal only sums."""
    blur: float = 0.0
    """A bound on the error of f(x) and of the entries of ∇f(x) beyond that of floating point: the rounding of secure sums."""

    def __init__(self, clients: Sequence[FiniteSum], penalty: Penalty | None = None) -> None:
        if isinstance(clients, (str, Mapping)) or not isinstance(clients, Sequence):
            kind = type(clients).__name__
            raise InputError(f"clients must be a list with one problem per client, got a {kind}")
        if not clients:
            raise InputError("clients must not be empty")
        first = clients[0]
        for number, client in enumerate(clients):
            if not isinstance(client, FiniteSum):
                raise InputError(f"client {number} must be a problem, got {type(client).__name__}")
        _check_alike(clients, penalty is None)
        self.clients = _weighted(clients)
        self.penalty = first.penalty if penalty is None else check_penalty(penalty)
        self.shape, self.ridge = first.shape, first.ridge
        self.sizes = np.array([client.n for client in clients])
        self.n = int(self.sizes.sum())

    @property
    def features(self) -> int:
        return self.clients[0].features

    @property
    def count(self) -> int:
        """M."""
        return len(self.sizes)

    @property
    def described(self) -> str:
        """A description of the clients and their samples for people."""
        sizes = self.sizes
        return f"{self.count} clients with {sizes.min()} to {sizes.max()} samples, {self.n} in all"

    @property
    def losses(self) -> dict[str, Loss | None]:
        """The losses of the clients, by their names; None for a client that is no generalised linear model."""
        return {
            self.called(c): None if client.datafit is None else client.datafit.loss
            for c, client in enumerate(self.clients)
        }

    def called(self, client: int) -> str:
        """The words by which messages name a client."""
        return f"client {client}"

    def __repr__(self) -> str:
        loss = getattr(self.clients[0], "loss", None)
        about = "" if loss is None else f"loss={loss!r}, "
        return (
            f"<Federation: {self.described}, unknown of shape {self.shape}, "
            f"{about}penalty={self.penalty!r}>"
        )

    def value(self, x: Array) -> float:
        values = [client.value(x) for client in self.clients]
        return float(self.sizes @ np.array(values) / self.n)

    def gradient(self, x: Array) -> Array:
        total = np.zeros(self.shape)
        for client in self.clients:
            total += client.n / self.n * client.gradient(x)
        return total

    @cached_property
    def smoothness(self) -> Smoothness:
        return self._joined([client.smoothness for client in self.clients])

    def smoothness_for(self, local: Local) -> Smoothness:
        """The smoothness of the functions that this local work uses."""
        views = [local.view(client) for client in self.clients]
        same = all(view is client for view, client in zip(views, self.clients, strict=True))
        return self.smoothness if same else self._joined([view.smoothness for view in views])

    def _joined(self, parts: Sequence[Smoothness]) -> Smoothness:
        products = [p for p in (part.curvature_product for part in parts) if p is not None]
        shares = self.sizes / self.n

        def product(v: Array) -> Array:
            total = np.zeros(len(v))
            for share, curvature in zip(shares, products, strict=True):
                total += share * curvature(v)
            return total

        def measure() -> Array:
            return np.concatenate([part.individual for part in parts])

        known = len(products) == len(parts)
        return Smoothness(measure, product if known else None, self.shape[0])

    @cached_property
    def typical_curvature(self) -> float:
        return float(self.sizes @ [client.typical_curvature for client in self.clients] / self.n)

    # --- what a run asks of it -----------------------------------------------------------------

    def loads(self, local: Local) -> list[Load]:
        """The load of this local work, for each client."""
        return [local.load(client) for client in self.clients]

    def open(self, engine: Engine, plan: Plan) -> Session:
        """The hosts of a run."""

        session = open_session(engine, self.sizes.tolist(), partial(self.make_host, plan=plan))
        for c, size in enumerate(self.sizes):
            found = session.sizes.get(c)
            if found != size:
                session.close()
                raise InputError(f"client {c} reports {found} samples, not {size}")
        return session

    def make_host(self, clients: Sequence[int], plan: Plan) -> ClientHost:
        return ClientHost(
            tuple(clients),
            [self.clients[c] for c in clients],
            plan.local,
            [plan.positions[c] for c in clients],
            [plan.factors[c] for c in clients],
        )

    def say(self, x: Array, wanted: str) -> Said:
        """The answers of all clients about f_m at x; see ``answers``."""
        return {c: answers(client, wanted, x) for c, client in enumerate(self.clients)}

    def columns(self) -> Said | None:
        """The moments of the clients' columns (see ``moments``); None if a client has no rows."""
        from reshuffle.federated.scales import moments

        if any(loss is None for loss in self.losses.values()):
            return None
        return {c: moments(client) for c, client in enumerate(self.clients)}

    def ask(self, kind: str, x: Array, more: Record | None = None) -> dict[int, Record]:
        """Ask all clients a question that only they can answer."""
        raise NotImplementedError

    def value_of(self, found: Said) -> float:
        """f(x), from the clients' values f_m(x)."""
        values = np.array([found[c]["value"] for c in range(self.count)], dtype=np.float64)
        return float(self.sizes @ values / self.n)

    def mean_of(self, found: Said, name: str, totals: Totals = NONE) -> Array:
        """(1/N) Σ_m N_m·(the entry of client m with this name), added in the order of the clients, or as it is in ``totals``."""
        if name in totals:
            return totals[name]
        total = np.zeros(np.shape(found[0][name]))
        for c in range(self.count):
            total += self.sizes[c] / self.n * np.asarray(found[c][name])
        return total

    def letter(self, plan: Plan) -> Letter:
        """The record that goes along with every task to all clients, and the one for each client."""
        return {}, {}

    def gatherer(self, plain: Gathering) -> Gatherer:
        """The gatherer of a round's replies: single replies, unless clients reveal only sums."""
        return plain

    def prepare(self) -> None:
        self.clients[0].prepare()  # A user's own loss is compiled once for all clients.

    def contents(self) -> Mapping[str, str]:
        """One digest of all clients in their order: another split is another problem."""
        clients = digest(*(dict(client.fingerprint) for client in self.clients))
        return {"clients": clients, "penalty": digest(self.penalty)}
