"""Sites: a federation whose data stays at home."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from reshuffle.engines import Engine, Record, Task, digest, open_session
from reshuffle.errors import InputError, shown
from reshuffle.federated.agreement import agree
from reshuffle.federated.collect import Collect, Policy, Watch
from reshuffle.federated.gathered import NOTHING, Gathered
from reshuffle.federated.site import Model, Site
from reshuffle.federated.site_host import SiteHost
from reshuffle.federated.tables import Source
from reshuffle.losses import Logistic, Loss, check_loss
from reshuffle.objective import check_penalty
from reshuffle.penalties import strong_convexity


class Sites:
    """Clients that are described by where their data lies; each host loads its own.

    Before the first round the sites say what they have (see ``docs/federated.md`` for the exact list), and
    whoever disagrees with the others is refused by name. From then on only models and sums travel.

    Parameters
    ----------
    sites : one entry per client: a ``Site``, or its data: a path to a file in LIBSVM format, ``.npz`` or
        ``.csv``, or to a folder with X.npy and y.npy; a function that returns (X, y); or (X, y) itself.
        A dict gives names. Paths and functions are opened where the client's host runs.
    loss, penalty, ridge, fit_intercept : as for ``Problem``; the same at all sites. A site may hold one
        class only, and the labels are those that occur anywhere.
    standardise : features to mean 0 and variance 1 over the federation, from sums that the sites send;
        sparse data is scaled only.
    objective : whether sites tell the value of their losses at x with each reply. Without, the trace has none.
    watch : a function that is told of every answer, to look on (the command's live table).
    power_rounds : messages by which L_f is found; with 0 it is the bound Σ (N_m/N) L_f,m.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> sick = y > 0
    >>> sites = rs.federated.Sites(
    ...     {"north": lambda: (X[sick], y[sick]), "south": lambda: (X[~sick], y[~sick])},
    ...     penalty=rs.penalties.L2(0.01),
    ... )
    >>> rs.ExactFedRR(rounds=100, tol=1e-6).solve(sites).converged
    True
    """

    def __init__(
        self,
        sites: Sequence[Site | Source] | Mapping[str, Source],
        loss: Loss | None = None,
        penalty: Any = None,
        ridge: float = 0.0,
        fit_intercept: bool = False,
        *,
        standardise: bool = False,
        objective: bool = True,
        power_rounds: int = 0,
        watch: Watch | None = None,
    ) -> None:
        if isinstance(sites, Mapping):
            sites = [Site(data, name=str(name)) for name, data in sites.items()]
        if isinstance(sites, str) or not isinstance(sites, Sequence) or not sites:
            raise InputError(f"sites must be a list with one entry per client, got {shown(sites)}")
        self.sites = [one if isinstance(one, Site) else Site(one) for one in sites]
        for number, site in enumerate(self.sites):
            data = site.data
            if not (
                callable(data)
                or isinstance(data, (str, tuple, Mapping))
                or hasattr(data, "__fspath__")
            ):
                raise InputError(
                    f"site {number} must be a path, a function or (X, y), got {shown(data)}"
                )
        if not (isinstance(ridge, (int, float)) and 0 <= ridge < float("inf")):
            raise InputError(f"ridge must be finite and not negative, got {shown(ridge)}")
        if not isinstance(power_rounds, int) or power_rounds < 0:
            raise InputError(
                f"power_rounds must be a number of messages, got {shown(power_rounds)}"
            )
        checked = check_loss(Logistic() if loss is None else loss)
        self.model = Model(checked, float(ridge), bool(fit_intercept))
        self.penalty = check_penalty(penalty)
        self.watch = watch
        self.standardise, self.objective, self.power_rounds = standardise, objective, power_rounds

    def __repr__(self) -> str:
        return f"<Sites: {len(self.sites)} clients, loss={self.model.loss!r}, penalty={self.penalty!r}>"

    def make_host(self, clients: Sequence[int]) -> SiteHost:
        """A host for these clients, which loads nothing before it is asked."""
        from reshuffle import __version__

        return SiteHost(tuple(clients), [self.sites[c] for c in clients], self.model, __version__)

    def called(self, client: int) -> str:
        """A client in messages."""
        return self.sites[client].called(client)

    @contextmanager
    def gather(self, engine: Engine, policy: Policy | None = None) -> Iterator[Gathered]:
        """The sites on an engine, after their handshake."""
        session = open_session(engine, [1] * len(self.sites), self.make_host)
        try:
            collect = Collect(
                session,
                type(engine).__name__,
                policy or Policy(),
                average=False,
                called=self.called,
                watch=self.watch,
            )
            said = self._hello(collect)
            mu = strong_convexity(self.penalty)
            agreed = agree(said, self.called, self.model, mu, self.standardise)
            gathered = Gathered(
                session,
                collect,
                agreed,
                self.penalty,
                self.model,
                self.power_rounds,
                self.objective,
            )
            gathered.watch = self.watch
            yield gathered
        finally:
            session.close()

    def _hello(self, collect: Collect) -> dict[int, Record]:
        everyone, more = tuple(range(len(self.sites))), {"moments": int(self.standardise)}
        run = uuid.uuid4().hex
        task = Task(run, 0, 0.0, NOTHING, digest(NOTHING), everyone, kind="hello", more=more)
        replies = collect(task).replies
        return {c: replies[c].more for c in everyone}
