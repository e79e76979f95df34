"""The cost of a secure sum: seconds of the processor at a site and at the driver, and bytes, by d and M.

``python -m benchmarks.secure_sums``. All sites are in this process, without a network; times are of the processor, for a site the median over all sites. A tenth of the sites,
rounded down, drop out between their shares and their input in the last rows, so that the driver has to rebuild their secrets. ``--largest 100000``
leaves out the longest vectors.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from benchmarks.report import Finding, show, write_csv
from benchmarks.timing import environment
from reshuffle.engines import Failure, Reply, Task, digest
from reshuffle.federated import Secure
from reshuffle.federated.replies import Found
from reshuffle.federated.secure.attempt import Attempt
from reshuffle.federated.secure.gathering import SecureSums
from reshuffle.federated.secure.guard import Guard
from reshuffle.federated.secure.keys import make_keys
from reshuffle.objective import Array

LENGTHS = (1_000, 100_000, 1_000_000)
SITES = (3, 10, 100)
NOTHING = np.empty(0)
EXACT = 2.0**-60
"""An error below this share of the range is shown as this: the sum is exact in floating point."""


@dataclass(eq=False)
class Federation:
    """Sites that each answer with a random vector, and what they cost."""

    folder: Path
    count: int
    length: int
    drops: int = 0
    seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    down: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    up: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    drawing: float = 0.0
    """Seconds for the sites' values, which are nobody's cost."""

    def __post_init__(self) -> None:
        self.names = [f"site{number}" for number in range(self.count)]
        self.secure = Secure(keys=self.folder)
        self.guards = {
            c: Guard(self.secure, {c: name}, {c: self.folder}) for c, name in enumerate(self.names)
        }

    def values(self, client: int) -> Array:
        return np.random.default_rng(client).uniform(-1.0, 1.0, self.length)

    def ask(self, task: Task, take: Any = None) -> Found:
        found = Found()
        for client in task.clients:
            if task.kind == "secure-input" and client < self.drops:
                continue
            clock = time.process_time()
            values = self.values(client) if task.kind == "secure-input" else NOTHING
            self.drawing += time.process_time() - clock
            asked = task.part([client])

            def plain(inner: Task, values: Array = values) -> list[Reply | Failure]:
                return [Reply(inner.run, inner.round, inner.clients[0], inner.digest, values)]

            clock = time.process_time()
            (answer,) = self.guards[client].answers(asked, plain, lambda c, t: 1)
            self.seconds[client] += time.process_time() - clock
            if isinstance(answer, Failure):
                raise RuntimeError(answer.reason)
            self.down[client] += asked.nbytes([client])
            self.up[client] += answer.nbytes
            found.replies[client] = answer if take is None else take(answer)
        return found

    def round(self) -> tuple[float, float]:
        """The seconds of the driver, and the error of the sum over the range."""
        sums = SecureSums(self.secure, self.names)
        task = Task("run", 0, 1.0, NOTHING, digest(NOTHING), tuple(range(self.count)))
        clock = time.process_time()
        attempt = Attempt(self.ask, task, sums.header(task), True)
        found = attempt.run()["model"]
        spent = time.process_time() - clock - sum(self.seconds.values()) - self.drawing
        true = np.zeros(self.length)
        for client in attempt.survivors:
            true += self.values(client)
        return spent, float(np.abs(found - true).max()) / self.secure.range


def measure(length: int, count: int, drops: int) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        make_keys(keys, [f"site{number}" for number in range(count)])
        Federation(keys, min(count, 3), 10).round()  # libraries are loaded
        one = Federation(keys, count, length, drops)
        driver, error = one.round()
    about = f"d = {length:,}, M = {count}" + (f", {drops} drop out" if drops else "")
    typical, worst = float(np.median([*one.seconds.values()])), max(one.seconds.values())
    last = count - 1
    extra = one.up[last] - 8 * length
    return [
        Finding(
            f"{about}: a site",
            1e3 * typical,
            "ms",
            detail=f"median; slowest {1e3 * worst:.3g}; {one.secure.degree_of(count)} neighbours",
        ),
        Finding(f"{about}: the driver", 1e3 * driver, "ms"),
        Finding(
            f"{about}: sent by a site",
            1e-3 * one.up[last],
            "kB",
            detail=f"{extra:,} bytes more than plain",
        ),
        Finding(
            f"{about}: sent to a site", 1e-3 * one.down[last], "kB", detail="without the model"
        ),
        Finding(
            f"{about}: error",
            float(np.log2(max(error, EXACT))),
            "log2",
            "at most",
            -40.0,
            "of the range",
        ),
    ]


@click.command()
@click.option("--largest", type=int, default=LENGTHS[-1], show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("benchmarks/results/secure_sums.csv")
)
def main(largest: int, out: Path) -> None:
    console, findings = Console(width=140), list[Finding]()
    for count in SITES:
        for length in LENGTHS:
            if length <= largest:
                findings += measure(length, count, 0)
                console.print(findings[-5].what, f"{findings[-5].measured:.3g} ms")
        findings += measure(100_000, count, count // 10) if count >= 10 else []
    show(console, "a secure sum", findings)
    write_csv(out, findings, environment())


if __name__ == "__main__":
    main()
