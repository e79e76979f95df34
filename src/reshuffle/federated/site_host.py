"""The host of sites: it loads their data on the spot and answers the driver's questions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.engines import Failure, Plain, Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.audit import note
from reshuffle.federated.client_state import ClientStates
from reshuffle.federated.columns import Cells
from reshuffle.federated.held_out import metrics
from reshuffle.federated.host import ClientHost, seen
from reshuffle.federated.local import local_of
from reshuffle.federated.private_text import told
from reshuffle.federated.scales import moments
from reshuffle.federated.site import Model, Site
from reshuffle.federated.site_data import SiteTable
from reshuffle.privacy.noise import RepeatedNoise
from reshuffle.problem import Problem
from reshuffle.smoothness import Smoothness
from reshuffle.solvers.exact.sample_start import sample_of

if TYPE_CHECKING:
    from reshuffle.federated.secure.guard import Guard


@dataclass(eq=False)
class SiteHost:
    """Some sites, each described by where its data lies.

    Every message says all that is needed to answer it (what was agreed on, the local work), so that the
    process may be a new one each time; what was loaded is kept while it lives.
    """

    clients: tuple[int, ...]
    sites: Sequence[Site]
    model: Model
    version: str
    known: dict[str, str] = field(default_factory=dict)
    """The sha256 of mapped folders by their stamps, from an earlier process, so that the folders need not be read again."""
    guard: Guard | None = None
    """Masks all answers, if only sums may leave the site."""
    noise: RepeatedNoise = field(default_factory=RepeatedNoise)
    """The noise of private work: a question that is repeated gets the same answer, however many clients it is asked of."""
    _memory: ClientStates = field(init=False, repr=False)
    _tables: dict[int, Loaded] = field(default_factory=dict, init=False, repr=False)
    _ready: dict[tuple[str, tuple[int, ...]], Any] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        folders = {c: s.state for c, s in zip(self.clients, self.sites, strict=True)}
        self._memory = ClientStates(folders)

    def sizes(self) -> dict[int, int]:
        """Do nothing, because sites report their data in the handshake."""
        return {}

    def work(self, task: Task) -> list[Reply | Failure]:
        refused = [one for c in task.clients for one in self._noted(task, c)]
        heard = task.part([c for c in task.clients if c not in {one.client for one in refused}])
        if self.guard is None:
            answers = self._answers(heard)
        else:
            answers = self.guard.answers(heard, self._answers, self._samples)
        for answer in answers:
            refused += self._noted(task, answer.client, answer) or [answer]
        return refused

    def _answers(self, task: Task) -> list[Reply | Failure]:
        """The answers of clients, each by itself; a round of all clients of this host is one call, unless one of them fails."""
        if task.kind == "train" and set(task.clients) == set(self.clients):
            with suppress(Exception):
                return self._host(self.clients, task).work(task)
        found: list[Reply | Failure] = []
        for c in task.clients:
            try:
                found += self._answer(c, task)
            except Exception as error:  # The driver decides what to do about a client that fails.
                found.append(Failure(c, self._told(error)))
        return found

    def _answer(self, client: int, task: Task) -> list[Reply | Failure]:
        if task.kind == "train":
            return self._host((client,), task).work(task.part([client]))
        answer: Callable[[int, Task], dict[str, Plain]] | None = {
            "hello": self._hello, "load": self._load, "curvature": self._curvature,
            "columns": lambda c, task: moments(self._problem(c, task)),
            "value": lambda c, task: seen(self._problem(c, task), task, task.x),
            "metrics": self._metrics, "below": self._below,
        }.get(task.kind)  # fmt: skip
        if answer is None:
            raise InputError(f"a message of kind {task.kind!r} is not known here")
        return [task.reply(client, more=answer(client, task))]

    def _samples(self, client: int, task: Task) -> int:
        return int(self._loaded(client, task).table.y.shape[0])

    def _told(self, error: Exception) -> str:
        """The reason of a failure, without the folders of the files of sites."""
        return told(error, *(path for site in self.sites for path in site.paths))

    def _noted(
        self, task: Task, client: int, answer: Reply | Failure | None = None
    ) -> list[Reply | Failure]:
        """Write a message, or the answer to it, to the audit file of its client; if that fails, the message is not heard, and the
        answer does not leave."""
        path = self._site(client).audit
        try:
            if path is not None:
                note(path, task, client, answer)
        except InputError as error:
            return [Failure(client, self._told(error))]
        return []

    # --- answers -------------------------------------------------------------------------------

    def _hello(self, client: int, task: Task) -> dict[str, Plain]:
        moments = bool(task.more.get("moments"))
        loaded = self._loaded(client, task)
        record = self.model.report(loaded.table, self.version, moments)
        loaded.data = str(record["data"])
        if loaded.stamp:
            self.known[repr(loaded.stamp)] = loaded.data
        return record

    def _load(self, client: int, task: Task) -> dict[str, Plain]:
        """The load of the local work, and the constants that steps are chosen by."""
        problem, local = self._problem(client, task), local_of(task.more)
        local.rehearse(problem)
        load = local.load(problem)
        record: dict[str, Plain] = {"visits": load.visits, "steps": float(load.steps)}
        if not local.tells_constants:
            return record | dict.fromkeys(("smoothness", "L_max", "L_mean", "L_f"), 0.0)
        constants, typical = local.view(problem).smoothness, problem.typical_curvature
        bounded = problem.loss.curvature < np.inf
        largest = constants.L_max if bounded else typical
        curvature = _steepest(problem, constants) if bounded and largest != 0.0 else typical
        return record | {
            "smoothness": float(load.smoothness), "L_max": largest, "L_mean": typical, "L_f": curvature,
        }  # fmt: skip

    def _curvature(self, client: int, task: Task) -> dict[str, Plain]:
        """H_m·v, with H_m a bound on the Hessian of f_m: a step of the power method."""
        problem: Any = local_of(task.more).view(self._problem(client, task))
        product = problem.datafit.curvature_product(task.x, problem.loss.curvature / problem.n)
        product[: problem.features] += problem.ridge * task.x[: problem.features]
        return {"product": product}

    def _below(self, client: int, task: Task) -> dict[str, Plain]:
        """How many values of columns of numbers are below thresholds: a step of the search for medians."""
        columns = self._loaded(client, task).table.columns
        if columns is None:
            raise InputError("it was asked for the columns of a table, and has a matrix")
        return columns.below(json.loads(str(task.more["names"])), task.x)

    def _metrics(self, client: int, task: Task) -> dict[str, Plain]:
        table = self._loaded(client, task).test
        if table is None:
            return {}
        problem: Problem = self._made(
            f"test {task.more['agreed']}", (client,), lambda: self.model.problem(table, task.more)
        )
        return metrics(problem, task.x)

    # --- what is kept --------------------------------------------------------------------------

    def _site(self, client: int) -> Site:
        return self.sites[self.clients.index(client)]

    def _loaded(self, client: int, task: Task) -> Loaded:
        """The client's table, checked for every task."""
        if client not in self._tables:
            self._tables[client] = Loaded.of(self._site(client), self.model.cells)
        loaded = self._tables[client]
        if loaded.stamp and not loaded.data:
            loaded.data = self.known.get(repr(loaded.stamp), "")
        loaded.check(str(task.own.get(client, {}).get("data", "")), self.model)
        if loaded.stamp and loaded.data:
            self.known[repr(loaded.stamp)] = loaded.data  # This was found by ``check``.
        return loaded

    def _made(self, name: str, clients: tuple[int, ...], make: Callable[[], Any]) -> Any:
        """What ``make`` makes for these clients, made once in this process."""
        if (name, clients) not in self._ready:
            self._ready[name, clients] = make()
        return self._ready[name, clients]

    def _problem(self, client: int, task: Task) -> Problem:
        table = self._loaded(client, task).table
        found: Problem = self._made(
            f"problem {task.more['agreed']}", (client,),
            lambda: self.model.problem(table, task.more, float(task.own[client]["weight"])),
        )  # fmt: skip
        return found

    def _host(self, clients: tuple[int, ...], task: Task) -> ClientHost:
        problems = [self._problem(c, task) for c in clients]
        key = (f"host {task.more['setup']}", clients)
        if key not in self._ready:
            own = [task.own[c] for c in clients]
            self._ready[key] = ClientHost(
                clients,
                problems,
                local_of(task.more),
                [int(o["position"]) for o in own],
                [float(o["factor"]) for o in own],
                self._memory,
                self._told,
                self.noise,
            )
        found: ClientHost = self._ready[key]
        return found

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_tables": {}, "_ready": {}}


def _steepest(problem: Problem, constants: Smoothness) -> float:
    """L_f. On disk it is estimated on a window of random pieces: the power method would take tens of passes over the files."""
    fit: Any = problem.datafit
    if not fit.on_disk:
        return constants.L_f
    sample = problem.with_datafit(sample_of(fit, 0))
    return min(sample.smoothness.L_f, constants.L_mean)


Stamp = dict[str, tuple[int, ...]]
"""For each mapped file: its device and inode, its size, its modification time and its change time.

A program that copies a file may set the first time; the second also changes with permissions and links."""


@dataclass(eq=False)
class Loaded:
    """A table, with the stamp of the folder that it is mapped from."""

    site: Site
    table: SiteTable
    stamp: Stamp
    test: SiteTable | None = None
    """Held-out data, if the site has any."""
    data: str = ""
    """Its sha256 as in ``Model.report``, once it is known."""

    @classmethod
    def of(cls, site: Site, cells: Cells) -> Loaded:
        stamp = _stamp(site)  # The stamp is taken before anything is read.
        table = site.table(cells)
        if table.columns is not None:
            table.columns.check_filled()
        return cls(site, table, stamp, site.test_table(cells, table))

    def check(self, agreed: str, model: Model) -> None:
        """Refuse a folder that was written to since it was mapped, and data other than what was ``agreed`` on.

        Rows of a mapped file are read when they are used. If the file were shorter by then, the system would end the process.
        """
        now = _stamp(self.site)
        for name in dict.fromkeys([*self.stamp, *now]):
            if self.stamp.get(name, ())[:-1] != now.get(name, ())[:-1]:
                what = "is no longer there" if name not in now else "was written to"
                raise InputError(f"its data changed during the run: {name} {what}; start anew")
        if now != self.stamp:  # Perhaps only its permissions have changed.
            self.stamp, self.data = now, ""
        if agreed and not self.data:  # The data was loaded by a new process.
            self.data = str(model.report(self.table, "", moments=False)["data"])
        if agreed and agreed != self.data:
            raise InputError(
                f"its data changed during the run: sha256 {self.data[:12]}…, agreed on was {agreed[:12]}…; "
                "start anew"
            )


def _stamp(site: Site) -> Stamp:
    """The stamp of a folder's files. A single file is read whole, and may change afterwards."""
    if not isinstance(site.data, (str, os.PathLike)) or not Path(site.data).is_dir():
        return {}
    found: Stamp = {}
    for entry in sorted(Path(site.data).iterdir()):
        if entry.suffix == ".npy":
            about = entry.stat()
            found[str(entry)] = (
                about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns,
            )  # fmt: skip
    return found
