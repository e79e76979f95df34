"""The clients' side of a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reshuffle.engines import Failure, Reply, Task, digest
from reshuffle.federated.local import Local, LocalEpoch
from reshuffle.finite_sum import FiniteSum
from reshuffle.randomness import Stream


@dataclass(eq=False)
class ClientHost:
    """Some clients with their data. It keeps nothing between rounds that a model depends on."""

    clients: tuple[int, ...]
    problems: Sequence[FiniteSum]
    local: Local
    positions: Sequence[int]
    factors: Sequence[float]
    _epochs: dict[int, LocalEpoch] | None = field(default=None, init=False, repr=False)

    def sizes(self) -> dict[int, int]:
        return {c: problem.n for c, problem in zip(self.clients, self.problems, strict=True)}

    def work(self, task: Task) -> list[Reply | Failure]:
        if self._epochs is None:
            bound = zip(self.clients, self.problems, self.positions, self.factors, strict=True)
            self._epochs = {c: self.local.bind(p, k, f) for c, p, k, f in bound}
        x = task.x
        if digest(x) != task.digest:
            return [Failure(c, "the model arrived damaged") for c in task.clients]
        stream = Stream(self.local.seed, task.round)
        answers: list[Reply | Failure] = []
        for c in task.clients:
            try:
                epoch = self._epochs[c]
                model = epoch(x, task.step, task.round, stream, task.controls.get(c))
                answers.append(Reply(task.run, task.round, c, task.digest, model))
            except Exception as error:  # what ails one client is the driver's to decide upon
                answers.append(Failure(c, f"{type(error).__name__}: {error}"))
        return answers

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_epochs": None}
