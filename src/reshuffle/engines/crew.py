"""Runs jobs in threads, each job with its own deadline, and does not wait for a thread that hangs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Condition, Thread

from reshuffle.engines.base import Failure, Host, Reply, Task

Answers = list[Reply | Failure]


@dataclass(eq=False)
class Job:
    """Some clients' part of a round."""

    clients: tuple[int, ...]
    work: Callable[[], Answers]
    asked: float = field(default_factory=time.monotonic)
    began: float | None = None
    answers: Answers | None = None
    late: bool = False

    @property
    def ended(self) -> bool:
        return self.late or self.answers is not None

    def run(self) -> None:
        """The answers; if a host raises an error, all clients of the job have failed."""
        try:
            self.answers = self.work()
        except BaseException as error:  # SystemExit too: the driver decides what to do about it.
            reason = f"{type(error).__name__}: {error}"
            self.answers = [Failure(c, reason) for c in self.clients]


class Crew:
    """Workers, as daemon threads: the process does not wait for them when it ends.

    A job's time counts from when it begins. A worker that is late is written off and another takes its
    place, so that a client that hangs loses its own answer and no other one. Its late answer is discarded,
    and until it comes the client gets no other job.
    """

    def __init__(self, workers: int) -> None:
        self._change = Condition()
        self._waiting: deque[Job] = deque()
        self._busy: dict[int, Job] = {}
        self._closed = False
        for _ in range(workers):
            self._hire()

    def run(self, jobs: Sequence[Job], timeout: float | None) -> Iterator[Job]:
        """The jobs in the order in which they end, with their answers or marked as late."""
        left = list(jobs)
        try:
            with self._change:
                self._waiting.extend(jobs)
                self._change.notify_all()
            while left:
                with self._change:
                    while not (done := [job for job in left if job.ended]):
                        self._change.wait(self._write_off(left, timeout))
                left = [job for job in left if job not in done]
                yield from done
        finally:  # This happens also if the driver was interrupted.
            with self._change:
                for job in left:
                    self._drop(job)

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._waiting.clear()
            self._change.notify_all()

    # --- inside --------------------------------------------------------------------------------

    def _hire(self) -> None:
        Thread(target=self._serve, name="reshuffle", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._change:
                while (job := self._next()) is None and not self._closed:
                    self._change.wait()
                if job is None:
                    return
                job.began = time.monotonic()
                self._busy.update(dict.fromkeys(job.clients, job))
                self._change.notify_all()
            job.run()
            with self._change:
                for client in job.clients:
                    self._busy.pop(client)
                self._change.notify_all()
                if job.late:
                    return

    def _next(self) -> Job | None:
        """The first waiting job of which no client is at work."""
        for job in self._waiting:
            if not self._busy.keys() & set(job.clients):
                self._waiting.remove(job)
                return job
        return None

    def _write_off(self, jobs: Sequence[Job], timeout: float | None) -> float | None:
        """Write off the jobs whose time is up; returns the seconds until the next job can be late."""
        if timeout is None:
            return None
        now, next_one = time.monotonic(), timeout
        for job in jobs:
            held = any(self._busy[c].late for c in job.clients if c in self._busy)
            since = job.asked if held and job.began is None else job.began
            if job.ended or since is None:
                continue
            if now - since >= timeout:
                self._drop(job)
            next_one = min(next_one, max(since + timeout - now, 0.0))
        return next_one

    def _drop(self, job: Job) -> None:
        job.late = True
        if job.began is None:
            self._waiting.remove(job)
        else:
            self._hire()


def answers(
    crew: Crew, hosts: Sequence[Host], task: Task, timeout: float | None, apart: bool
) -> Iterator[Reply | Failure]:
    """The answers of the hosts' clients, in the order in which they come.

    A host works for all its clients in one job or, if they are kept ``apart``, in one job for each client, with its
    own time limit.
    """
    jobs = [
        Job(part.clients, partial(host.work, part))
        for host in hosts
        for part in task.parts(host.clients, apart)
    ]
    for job in crew.run(jobs, timeout):
        if job.answers is not None:
            yield from job.answers
        elif timeout is not None:
            yield from (Failure(c, f"no answer within {timeout:g} s") for c in job.clients)
