from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.engines.crew import Crew, answers
from reshuffle.validation import check_positive


@dataclass(frozen=True)
class Threads:
    """Clients in threads of this process; the kernels run without the interpreter's lock.

    Parameters
    ----------
    workers : the number of threads; by default one per core. The model does not depend on it.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_positive("workers", self.workers, integer=True)

    def open(
        self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
    ) -> ThreadSession:
        groups = balanced(sizes, self.workers or cores())
        return ThreadSession([make_host(group) for group in groups])


class ThreadSession:
    """As many threads as there are hosts."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self.sizes = {c: size for host in hosts for c, size in host.sizes().items()}
        self.crew: Crew | None = Crew(len(hosts))

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        return list(answers(self._open(), self.hosts, task, timeout, timeout is not None))

    def stream(self, task: Task, timeout: float | None) -> Iterator[Reply | Failure]:
        """The answers of ``run_round``, one client at a time, in the order in which they come."""
        return answers(self._open(), self.hosts, task, timeout, True)

    def _open(self) -> Crew:
        if self.crew is None:
            raise RuntimeError("the session is closed")
        return self.crew

    def close(self) -> None:
        if self.crew is not None:
            self.crew.close()
        self.crew = None


def cores() -> int:
    """The number of cores that this process may use; all cores on systems that do not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
