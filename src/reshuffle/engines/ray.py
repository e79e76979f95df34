from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.errors import InputError
from reshuffle.validation import check_positive

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, it makes a local cluster listen on loopback only, on every system."""
USAGE = "RAY_USAGE_STATS_ENABLED"


@dataclass(frozen=True)
class Ray:
    """Clients on a Ray cluster: a few host actors, each holding the data of many clients.

    Parameters
    ----------
    hosts : actors, one per CPU of the cluster where not given. The model does not depend on it.
    address : of a running cluster ("auto" to find one). Without it, a local cluster is started that
        listens on loopback only, and is shut down when the last run that uses it ends.
    restarts : how often a host that died is started again; its task is then repeated.
    """

    hosts: int | None = None
    address: str | None = None
    restarts: int = 3

    def __post_init__(self) -> None:
        if self.hosts is not None:
            check_positive("hosts", self.hosts, integer=True)

    def open(self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]) -> RaySession:
        ray = CLUSTER.enter(self.address)
        try:
            count = self.hosts or max(int(ray.cluster_resources().get("CPU", 1)), 1)
            hosts = [make_host(group) for group in balanced(sizes, count)]
            return RaySession(ray, hosts, self.restarts)
        except BaseException:
            CLUSTER.leave()
            raise


class RaySession:
    """An actor for each host."""

    def __init__(self, ray: Any, hosts: Sequence[Host], restarts: int) -> None:
        self.ray = ray
        actor = ray.remote(_HostActor).options(
            max_restarts=restarts, max_task_retries=restarts, num_cpus=0
        )
        # put once: later rounds send the model only; and held, so that a restarted actor finds it
        self.data = [[ray.put(host)] for host in hosts]
        self.actors = [(actor.remote(), tuple(host.clients)) for host in hosts]
        reports = ray.get(
            [a.sizes.remote(data) for (a, _), data in zip(self.actors, self.data, strict=True)]
        )
        self.sizes = {client: size for report in reports for client, size in report.items()}

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        ray = self.ray
        parts = [
            (handle, data, task.part(clients))
            for (handle, clients), data in zip(self.actors, self.data, strict=True)
        ]
        asked = {h.work.remote(data, part): part for h, data, part in parts if part.clients}
        done, late = ray.wait(list(asked), num_returns=len(asked), timeout=timeout)
        answers: list[Reply | Failure] = []
        for reference in done:
            try:
                answers += ray.get(reference)
            except ray.exceptions.RayError as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                answers += [Failure(c, reason) for c in asked[reference].clients]
        for reference in late:
            ray.cancel(reference)
            missing = asked[reference].clients
            answers += [Failure(c, f"no answer within {timeout:g} s") for c in missing]
        return answers

    def close(self) -> None:
        if not self.actors:
            return
        for handle, _ in self.actors:
            self.ray.kill(handle)
        self.actors, self.data = [], []
        CLUSTER.leave()


class Cluster:
    """The process's connection to Ray, which all its sessions share.

    Whichever session started it, it is shut down when the last one ends, and not at all where the
    user had connected before.
    """

    def __init__(self) -> None:
        self.lock, self.sessions, self.ours, self.bound = Lock(), 0, False, False

    def enter(self, address: str | None) -> Any:
        """Ray, connected; one more session uses it."""
        with self.lock, self._variables(address is None):
            ray, started = _connect(address, self.bound)
            self.ours = self.ours or started
            self.sessions += 1
            return ray

    @contextmanager
    def _variables(self, local: bool) -> Iterator[None]:
        """Those of the environment that a local cluster is started with, as they were afterwards."""
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
        """One session less."""
        with self.lock:
            self.sessions -= 1
            if self.sessions == 0 and self.ours:
                import ray

                ray.shutdown()
                self.ours = False


CLUSTER = Cluster()


def _connect(address: str | None, bound: bool) -> tuple[Any, bool]:
    """Ray, and whether it was connected only now; ``bound``: it was imported with ``LOOPBACK`` set."""
    try:
        import ray
    except ImportError:
        raise InputError('engine "ray" needs Ray: pip install "reshuffle[ray]"') from None
    if ray.is_initialized():
        return ray, False
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is not None:
        ray.init(address=address, **common)
    elif not bound:
        raise InputError(
            "Ray was imported before it could be bound to loopback: set the environment variable "
            f"{LOOPBACK}=0 before importing it, call ray.init yourself, or give an address"
        )
    else:
        ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", **common)
    return ray, True


class _HostActor:
    """A host, fetched by the first call: each has the reference to it, in a list that Ray leaves alone.

    (As an argument of the constructor Ray would warn of it, in red, whenever actors may be restarted.)
    """

    host: Host | None = None

    def sizes(self, data: list[Any]) -> dict[int, int]:
        return self._fetched(data).sizes()

    def work(self, data: list[Any], task: Task) -> list[Reply | Failure]:
        return self._fetched(data).work(task)

    def _fetched(self, data: list[Any]) -> Host:
        if self.host is None:
            import ray

            self.host = ray.get(data[0])
        return self.host
