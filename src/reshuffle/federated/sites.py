"""Sites: a federation whose data stays at home."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.engines import Engine, Record, Task, digest, open_session
from reshuffle.errors import InputError, shown
from reshuffle.federated.agreement import agree
from reshuffle.federated.columns import Cells
from reshuffle.federated.quality import ALL
from reshuffle.federated.remote_federation import NOTHING, RemoteFederation
from reshuffle.federated.replies import Gathering, Policy, Tally, Watch
from reshuffle.federated.secure.settings import Secure, check_secure, guard_of, sums_of
from reshuffle.federated.site import Model, Site
from reshuffle.federated.site_data import Source
from reshuffle.federated.site_host import SiteHost
from reshuffle.losses import Logistic, Loss, check_loss
from reshuffle.objective import Array, check_penalty
from reshuffle.penalties import Penalty, strong_convexity

logger = logging.getLogger("reshuffle")

if TYPE_CHECKING:
    from reshuffle.federated.secure.gathering import SecureSums


class Sites:
    """Clients that are given by the places of their data; each host loads its own.

    Before the first round the sites describe their data (see ``docs/federated.md`` for the exact list), and
    a site that disagrees with the others is refused by name. From then on only models and sums travel.

    Parameters
    ----------
    sites : one entry per client: a ``Site``, or its data: a path to a file in LIBSVM format, ``.npz`` or
        ``.csv``, or to a folder with X.npy and y.npy; a function that returns (X, y); or (X, y) itself.
        A dict gives names. Paths and functions are opened where the client's host runs.
    loss, penalty, ridge, fit_intercept : as for ``Problem``; the same at all sites. A site may hold one
        class only, and the labels are those that occur anywhere.
    standardise : scale features to mean 0 and variance 1 over the federation, from sums that the sites send; in tables only the
        columns of numbers, as ``reshuffle fit`` does; sparse data is only scaled. The resulting model takes rows
        in their original units.
    impute : fill in missing values of tables: the federation's median, or its most frequent category, here and when the
        model predicts.
    drop : columns of tables that are left out, at the sites that have them.
    columns : columns of tables that are used; by default all but the target.
    categories : columns of tables whose every value is a category, numbers too.
    missing : texts that stand for no value in tables, besides an empty cell, NA, N/A, NaN, null and ?.
    offset, exposure : columns of tables that hold the offset and the exposure of each row (see ``Problem``), and are no
        features. Sites whose data is a matrix have them as arrays ``offset`` and ``exposure`` beside X and y.
    objective : whether sites send the value of their losses at x with each reply. If not, the trace has no P(x).
    secure : whether sites reveal only sums, by masks that cancel: True, or ``federated.Secure(…)`` with a threshold or the folder of
        their keys (docs/secure.md).
    watch : a function that is called with every answer, for display (the command's live table).
    power_rounds : messages by which L_f is found; with 0 it is the bound Σ (N_m/N) L_f,m.
    choose_penalty : a function that makes the penalty of the federation after its handshake, in place of ``penalty``:
        ``lambda f: L2(f.smoothness.L_f / f.n)``.

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
        penalty: object = None,
        ridge: float = 0.0,
        fit_intercept: bool = False,
        *,
        standardise: bool = False,
        impute: bool = False,
        drop: Sequence[str] = (),
        columns: Sequence[str] = (),
        categories: Sequence[str] = (),
        missing: Sequence[str] = (),
        offset: str | None = None,
        exposure: str | None = None,
        objective: bool = True,
        power_rounds: int = 0,
        secure: bool | Secure = False,
        watch: Watch | None = None,
        choose_penalty: Callable[[RemoteFederation], Penalty] | None = None,
    ) -> None:
        if isinstance(sites, Mapping):
            sites = [Site(data, name=str(name)) for name, data in sites.items()]
        if isinstance(sites, str) or not isinstance(sites, Sequence) or not sites:
            raise InputError(f"sites must be a list with one entry per client, got {shown(sites)}")
        self.sites = [one if isinstance(one, Site) else Site(one) for one in sites]
        for number, site in enumerate(self.sites):
            known = (str, os.PathLike, tuple, Mapping)
            if not (callable(site.data) or isinstance(site.data, known)):
                raise InputError(
                    f"site {number} must be a path, a function or (X, y), got {shown(site.data)}"
                )
        if not (isinstance(ridge, (int, float)) and 0 <= ridge < float("inf")):
            raise InputError(f"ridge must be finite and not negative, got {shown(ridge)}")
        if not isinstance(power_rounds, int) or power_rounds < 0:
            raise InputError(
                f"power_rounds must be a number of messages, got {shown(power_rounds)}"
            )
        checked = check_loss(Logistic() if loss is None else loss)
        cells = Cells(impute, drop, columns, categories, missing, offset, exposure)  # type: ignore[arg-type]
        self.model = Model(checked, float(ridge), bool(fit_intercept), cells)
        if penalty is not None and choose_penalty is not None:
            raise InputError("give penalty or choose_penalty, not both")
        self.penalty, self.choose_penalty = check_penalty(penalty), choose_penalty
        self.watch = watch
        self.secure = check_secure(secure)
        if self.secure is not None:
            self._check_secure(self.secure, standardise, impute)
        self.standardise, self.objective, self.power_rounds = standardise, objective, power_rounds

    @property
    def names(self) -> list[str]:
        """The unique names of the sites for tables: their names, files or numbers."""
        found: list[str] = []
        for number, site in enumerate(self.sites):
            name = site.name or (f"client {number}" if site.path is None else site.path.stem)
            found.append(f"{name} ({number})" if name in found or name == ALL else name)
        return found

    @property
    def first_index(self) -> int:
        """The index of the first feature in files like those of the sites: 1 in LIBSVM format, else 0."""
        return int(all(site.first_index for site in self.sites))

    def __repr__(self) -> str:
        penalty = "chosen by the handshake" if self.choose_penalty else repr(self.penalty)
        return f"<Sites: {len(self.sites)} clients, loss={self.model.loss!r}, penalty={penalty}>"

    def make_host(self, clients: Sequence[int]) -> SiteHost:
        """A host for these clients; it loads nothing until it is asked."""
        from reshuffle import __version__

        sites = [self.sites[c] for c in clients]
        secure = self.secure
        named = dict(zip(clients, sites, strict=True))
        guard = None if secure is None else guard_of(secure, named)
        return SiteHost(tuple(clients), sites, self.model, __version__, guard=guard)

    def _check_secure(self, secure: Secure, standardise: bool, impute: bool) -> None:
        """Refuse settings that would reveal more about a single site than secure sums should; give sites without keys the common folder."""
        for name, given in (("standardise", standardise), ("impute", impute)):
            if given:
                raise InputError(
                    f"{name} must be False with secure sums: it needs moments or counts of every single site. Prepare the "
                    "columns at the sites, in units on which they agree"
                )
        secure.check_names([site.name for site in self.sites])
        self.sites = [
            replace(site, keys=secure.keys) if site.keys is None else site for site in self.sites
        ]
        for number, site in enumerate(self.sites):
            if site.keys is None:
                raise InputError(
                    f"secure sums need signing keys, and {self.called(number)} has none: `reshuffle federate keys FOLDER --site "
                    f"{site.name}` makes one; give Secure(keys=FOLDER), or Site(keys=FOLDER)"
                )

    def called(self, client: int) -> str:
        return self.sites[client].called(client)

    @contextmanager
    def gather(self, engine: Engine, policy: Policy | None = None) -> Iterator[RemoteFederation]:
        """The sites on an engine, after their handshake."""
        session = open_session(engine, [1] * len(self.sites), self.make_host)
        tally = Tally(self.names, self.watch)
        try:
            collect = Gathering(
                session,
                type(engine).__name__,
                policy or Policy(),
                average=False,
                called=self.called,
                watch=tally,
            )
            sums = self._met(collect)
            said = self._hello(collect)
            mu = strong_convexity(self.penalty)
            below = partial(self._below, collect)
            agreed = agree(said, self.called, self.model, mu, self.standardise, below)
            gathered = RemoteFederation(self, collect, tally, agreed, self.penalty, sums)
            if self.choose_penalty is not None:  # Nothing computed with another penalty is kept.
                chosen = check_penalty(self.choose_penalty(gathered))
                logger.info("penalty by what the sites said: %r", chosen)
                agreed = agreed.with_convexity(strong_convexity(chosen))
                gathered = RemoteFederation(self, collect, tally, agreed, chosen, sums)
            yield gathered
        finally:
            session.close()

    def _met(self, collect: Gathering) -> SecureSums | None:
        """The secure sums of a run, after all sites have said that they can take part."""
        if self.secure is None:
            return None
        sums = sums_of(self.secure, [str(site.name) for site in self.sites])
        sums.meet(collect, uuid.uuid4().hex)
        return sums

    def _hello(self, collect: Gathering) -> dict[int, Record]:
        return self._ask(collect, "hello", NOTHING, {"moments": int(self.standardise)})

    def _below(self, collect: Gathering, names: list[str], at: Array) -> Array:
        """The number of values of these columns below these thresholds, over all sites."""
        said = self._ask(collect, "below", at, {"names": json.dumps(names)})
        total: Array = np.sum([np.asarray(r["below"]) for r in said.values()], axis=0, dtype=float)
        return total

    def _ask(self, collect: Gathering, kind: str, x: Array, more: Record) -> dict[int, Record]:
        everyone = tuple(range(len(self.sites)))
        task = Task(uuid.uuid4().hex, 0, 0.0, x, digest(x), everyone, kind=kind, more=more)
        replies = collect(task).replies
        return {c: replies[c].more for c in everyone}
