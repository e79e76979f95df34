from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.errors import InputError
from reshuffle.validation import check_positive

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, it makes a local cluster listen on loopback only, on every system."""


@dataclass
class Ray:
    """Clients on a Ray cluster: a few host actors, each holding the data of many clients.

    Parameters
    ----------
    hosts : actors, one per CPU of the cluster where not given. The model does not depend on it.
    address : of a running cluster ("auto" to find one). Without it, a local cluster is started that
        listens on loopback only, and is shut down at the end.
    restarts : how often a host that died is started again; its task is then repeated.
    """

    hosts: int | None = None
    address: str | None = None
    restarts: int = 3
    _actors: list[tuple[Any, tuple[int, ...]]] = field(init=False, repr=False, default_factory=list)
    _data: list[Any] = field(init=False, repr=False, default_factory=list)
    """References to the hosts' data: held, so that a restarted actor finds it."""
    _started: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        if self.hosts is not None:
            check_positive("hosts", self.hosts, integer=True)

    def open(
        self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
    ) -> dict[int, int]:
        ray = self._connect()
        count = self.hosts or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        actor = ray.remote(_HostActor).options(
            max_restarts=self.restarts, max_task_retries=self.restarts, num_cpus=0
        )
        for group in balanced(sizes, count):
            data = ray.put(make_host(group))  # once: later rounds send the model only
            self._data.append(data)
            self._actors.append((actor.remote(data), tuple(group)))
        reports = ray.get([handle.sizes.remote() for handle, _ in self._actors])
        return {client: size for report in reports for client, size in report.items()}

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        import ray

        parts = [(handle, task.part(clients)) for handle, clients in self._actors]
        asked = {handle.work.remote(part): part for handle, part in parts if part.clients}
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
        if not self._actors and not self._started:
            return
        import ray

        for handle, _ in self._actors:
            ray.kill(handle)
        self._actors, self._data = [], []
        if self._started:
            ray.shutdown()
            self._started = False

    def _connect(self) -> Any:
        early = "ray" in sys.modules
        bound = os.environ.get(LOOPBACK) == "0"
        if self.address is None and not early:
            os.environ[LOOPBACK] = "0"  # Ray reads it when it is imported
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise InputError('engine "ray" needs Ray: pip install "reshuffle[ray]"') from None
        if ray.is_initialized():
            return ray
        common: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        if self.address is not None:
            ray.init(address=self.address, **common)
        elif early and not bound:
            raise InputError(
                "Ray was imported before it could be bound to loopback: set the environment variable "
                f"{LOOPBACK}=0 before importing it, call ray.init yourself, or give an address"
            )
        else:
            ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", **common)
        self._started = True
        return ray


class _HostActor:
    def __init__(self, host: Host) -> None:
        self.host = host

    def sizes(self) -> dict[int, int]:
        return self.host.sizes()

    def work(self, task: Task) -> list[Reply | Failure]:
        return self.host.work(task)
