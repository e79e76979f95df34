from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.validation import check_positive


@dataclass(frozen=True)
class Threads:
    """Clients in threads of this process; the kernels run without the interpreter's lock.

    Parameters
    ----------
    workers : threads, one per core where not given. The model does not depend on it.
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
    """A thread for each host."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self.sizes = {c: size for host in hosts for c, size in host.sizes().items()}
        self.pool: ThreadPoolExecutor | None = ThreadPoolExecutor(
            len(hosts), thread_name_prefix="reshuffle"
        )

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        if self.pool is None:
            raise RuntimeError("the session is closed")
        parts = [(host, task.part(host.clients)) for host in self.hosts]
        futures: dict[Future[list[Reply | Failure]], Task] = {
            self.pool.submit(host.work, part): part for host, part in parts if part.clients
        }
        done, late = wait(futures, timeout)
        answers = [answer for future in done for answer in future.result()]
        for future in late:
            missing = futures[future].clients
            answers += [Failure(c, f"no answer within {timeout:g} s") for c in missing]
        return answers

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
        self.pool = None


def cores() -> int:
    """The cores that this process may use; on systems that do not say, all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
