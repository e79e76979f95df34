from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import Any

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.engines.crew import Crew, answers
from reshuffle.errors import InputError, extra
from reshuffle.validation import check_positive

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, it makes a local cluster listen on loopback only, on every system."""
USAGE = "RAY_USAGE_STATS_ENABLED"


@dataclass(frozen=True)
class Ray:
    """Clients on a Ray cluster: a few host actors, each holding the data of many clients.

    Parameters
    ----------
    hosts : the number of actors; by default one per CPU of the cluster. The model does not depend on it.
    address : the address of a running cluster ("auto" to find one). Without it, a local cluster is started that
        listens on loopback only, and is shut down when the last run that uses it ends.
    restarts : how often a host that died is started again; its task is then repeated.
    places : for each client the name of a custom resource of the node where its data lies, such as "north"
        for one started by ``ray start --resources '{"north": 1}'``. There is a host for each place, which
        runs nowhere else. By default hosts are spread over the nodes.
    """

    hosts: int | None = None
    address: str | None = None
    restarts: int = 3
    places: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.hosts is not None:
            check_positive("hosts", self.hosts, integer=True)
        if self.places is not None:
            object.__setattr__(self, "places", tuple(map(str, self.places)))

    def open(self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]) -> RaySession:
        ray = CLUSTER.enter(self.address)
        try:
            groups = self._groups(ray, sizes)
            return RaySession(ray, [(where, make_host(g)) for where, g in groups], self.restarts)
        except BaseException:
            CLUSTER.leave()
            raise

    def _groups(
        self, ray: ModuleType, sizes: Sequence[int]
    ) -> list[tuple[dict[str, object], list[int]]]:
        """Groups of clients that share a host, and the place where each host must run."""
        if self.places is None:
            count = self.hosts or max(int(ray.cluster_resources().get("CPU", 1)), 1)
            spread: dict[str, object] = {"scheduling_strategy": "SPREAD"}
            return [(spread, group) for group in balanced(sizes, count)]
        if len(self.places) != len(sizes):
            raise InputError(
                f"places must name one for each of {len(sizes)} clients, got {len(self.places)}"
            )
        there = ray.cluster_resources()
        missing = sorted({place for place in self.places if place not in there})
        if missing:
            raise InputError(
                f"places: no node of the cluster has the resource {', '.join(missing)}"
            )
        return [
            ({"resources": {place: 1e-3}}, [c for c, p in enumerate(self.places) if p == place])
            for place in dict.fromkeys(self.places)
        ]


class RaySession:
    """An actor for each host."""

    def __init__(
        self, ray: ModuleType, hosts: Sequence[tuple[dict[str, object], Host]], restarts: int
    ) -> None:
        self.ray = ray
        common = {"max_restarts": restarts, "max_task_retries": restarts, "num_cpus": 0}
        actor = ray.remote(_HostActor)
        # The data is put once, so that later rounds send the model only; it is held, so that a restarted actor finds it.
        self.actors = [
            (actor.options(**common, **where).remote(), [ray.put(host)], host.clients)
            for where, host in hosts
        ]
        reports = ray.get([handle.sizes.remote(data) for handle, data, _ in self.actors])
        self.sizes = {client: size for report in reports for client, size in report.items()}

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        return list(self._answers(task, timeout, apart=False))

    def stream(self, task: Task, timeout: float | None) -> Iterator[Reply | Failure]:
        """The answers of ``run_round``, one client at a time, in the order in which they come: this process holds one answer at a time."""
        return self._answers(task, timeout, apart=True)

    def _answers(self, task: Task, timeout: float | None, apart: bool) -> Iterator[Reply | Failure]:
        ray, wanted, patience = self.ray, set(task.clients), None
        if timeout is not None:  # Once for each client of a host, and once for the host itself.
            most = max(len(wanted.intersection(clients)) for *_, clients in self.actors)
            patience = timeout * (1 + most)
        asked = {
            handle.work.remote(data, part, timeout): part
            for handle, data, clients in self.actors
            for part in task.parts(clients, apart)
        }
        while asked:
            done, _ = ray.wait(list(asked), timeout=patience)
            for reference in done:
                part = asked.pop(reference)
                try:
                    yield from ray.get(reference)
                except ray.exceptions.RayError as error:
                    reason = f"{type(error).__name__}: {error}".splitlines()[0]
                    yield from (Failure(c, reason) for c in part.clients)
            if not done:
                for reference, part in asked.items():
                    ray.cancel(reference)
                    yield from (Failure(c, "its host did not answer") for c in part.clients)
                return

    def close(self) -> None:
        if not self.actors:
            return
        for handle, *_ in self.actors:
            self.ray.kill(handle)
        self.actors = []
        CLUSTER.leave()


class Cluster:
    """The process's connection to Ray, which all its sessions share.

    It is shut down when the last session ends, whichever session started it; a connection that the user made before
    is left alone.
    """

    def __init__(self) -> None:
        self.lock, self.sessions = Lock(), 0
        self.ours = False
        """Whether this process has connected to Ray, and not the user."""
        self.bound = False
        """Whether Ray was imported with ``LOOPBACK`` set."""

    def enter(self, address: str | None) -> ModuleType:
        with self.lock, self._variables(address is None):
            with extra("ray", "ray", 'engine "ray"'):
                import ray
            if not ray.is_initialized():
                self._connect(ray, address)
            elif address not in (None, "auto", connected := ray.get_runtime_context().gcs_address):
                raise InputError(
                    f"address {address!r}: this process is connected to the Ray cluster at {connected}; "
                    "leave it with ray.shutdown() first, or give that address"
                )
            self.sessions += 1
            return ray

    def _connect(self, ray: ModuleType, address: str | None) -> None:
        common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if address is not None:
            ray.init(address=address, **common)
        elif not self.bound:
            raise InputError(
                "Ray was imported before it could be bound to loopback: set the environment variable "
                f"{LOOPBACK}=0 before importing it, call ray.init yourself, or give an address"
            )
        else:
            # "local" starts a new cluster even if the machine runs another one.
            ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **common)
        self.ours = True

    @contextmanager
    def _variables(self, local: bool) -> Iterator[None]:
        """Set the environment variables that a local cluster is started with, and restore them afterwards."""
        asked = os.environ.get(LOOPBACK) == "0"  # Ray reads it when it is imported
        self.bound = self.bound or asked or (local and "ray" not in sys.modules)
        wanted = {LOOPBACK: "0", USAGE: os.environ.get(USAGE, "0")} if local else {}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def leave(self) -> None:
        with self.lock:
            self.sessions -= 1
            if self.sessions == 0 and self.ours:
                import ray

                ray.shutdown()
                self.ours = False


CLUSTER = Cluster()


class _HostActor:
    """A host, fetched by the first call: every call gets the reference to it, in a list, which Ray does not resolve.

    (Given as an argument of the constructor, it would cause a warning of Ray, in red, whenever actors may be restarted.)
    """

    def __init__(self) -> None:
        self.host: Host | None = None
        self.crew = Crew(1)

    def sizes(self, data: list[object]) -> dict[int, int]:
        return self._fetched(data).sizes()

    def work(self, data: list[object], task: Task, timeout: float | None) -> list[Reply | Failure]:
        return list(answers(self.crew, [self._fetched(data)], task, timeout, timeout is not None))

    def _fetched(self, data: list[Any]) -> Host:
        if self.host is None:
            import ray

            self.host = ray.get(data[0])
        return self.host
