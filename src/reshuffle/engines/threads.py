from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from reshuffle.engines.base import Failure, Host, Reply, Task, balanced
from reshuffle.validation import check_positive


@dataclass
class Threads:
    """Clients in threads of this process; the kernels run without the interpreter's lock.

    Parameters
    ----------
    workers : threads, one per core where not given. The model does not depend on it.
    """

    workers: int | None = None
    _hosts: list[Host] = field(init=False, repr=False, default_factory=list)
    _pool: ThreadPoolExecutor | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_positive("workers", self.workers, integer=True)

    def open(
        self, sizes: Sequence[int], make_host: Callable[[Sequence[int]], Host]
    ) -> dict[int, int]:
        workers = self.workers or len(os.sched_getaffinity(0))
        self._hosts = [make_host(group) for group in balanced(sizes, workers)]
        self._pool = ThreadPoolExecutor(len(self._hosts), thread_name_prefix="reshuffle")
        return {c: size for host in self._hosts for c, size in host.sizes().items()}

    def run_round(self, task: Task, timeout: float | None) -> list[Reply | Failure]:
        assert self._pool is not None
        parts = [(host, task.part(host.clients)) for host in self._hosts]
        futures: dict[Future[list[Reply | Failure]], Task] = {
            self._pool.submit(host.work, part): part for host, part in parts if part.clients
        }
        done, late = wait(futures, timeout)
        answers = [answer for future in done for answer in future.result()]
        for future in late:
            missing = futures[future].clients
            answers += [Failure(c, f"no answer within {timeout:g} s") for c in missing]
        return answers

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._hosts, self._pool = [], None
