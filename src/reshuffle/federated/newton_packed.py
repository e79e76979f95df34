"""The server of FedNewton whose clients send compressed changes of their derivatives."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh

from reshuffle.core import native
from reshuffle.engines import Reply, Task
from reshuffle.errors import InputError
from reshuffle.federated.curvature import HEAD, Answer, triangle
from reshuffle.federated.newton_learned import SLOPES, VALUES, WHOLE, carried
from reshuffle.federated.newton_server import NewtonServer, Search
from reshuffle.federated.replies import Letter, Said, Unusable
from reshuffle.federated.server import unpacked
from reshuffle.federated.transport import Digits, Transport
from reshuffle.objective import Array
from reshuffle.solvers.method import State

HIGHEST = 1e300
"""A number above every P at which a run can end."""


class LearningServer(NewtonServer):
    """Proximal Newton steps with the derivatives that the server has learned.

    The state also has ``learned``, the sums of gradients and Hessians for the features ``known``; the key of the run, under which
    clients keep what they have told; ``since``, the round after which they told it; ``keeps``, whether that answer was about a point
    that was taken; and ``ended``, the P that no step lowered further when everything was last learned anew.

    A sum of compressed Hessians may have a negative eigenvalue -λ, which no true one has: then 2λI is added.
    """

    sums_only = False
    may_round = True

    def start(self, x0: Array) -> State:
        state = super().start(x0)
        return state | {
            "learned": np.empty(0),
            "known": state["active"],
            "since": np.zeros(1, dtype=np.int64),
            "keeps": np.ones(1, dtype=np.int64),
            "ended": np.array([HIGHEST]),
            "key": np.frombuffer(uuid.uuid4().bytes, dtype=np.uint8),
        }

    def restarted(self, state: State) -> State:
        return self.start(state["base"])

    def check_state(self, state: State) -> None:
        since, size = int(state["since"][0]), state["learned"].size
        wanted = self.local.size + triangle(self.local.width(state["known"] != 0.0)) if since else 0
        if size != wanted:
            raise InputError(
                f"resume: the saved state has learned {size} numbers, where {wanted} are wanted"
            )

    def letter(self, state: State) -> Letter:
        more, own = super().letter(state)
        return more | {
            "learns": state["key"].tobytes().hex(),
            "since": int(state["since"][0]),
            "keeps": int(state["keeps"][0]),
        }, own

    def read(self, task: Task, transport: Transport, reply: Reply) -> Reply:
        (length,) = self.local.reply_shape(task.x)
        return answer_of(reply, transport, self.local.size, length - HEAD - self.local.size)

    def add_up(self, state: State, total: Array, said: Said, step: float, number: int) -> State:
        now = state["active"] != 0.0
        before = np.zeros(total.size - HEAD)
        if state["since"][0]:
            before = carried(self.local, state["learned"], state["known"] != 0.0, now)
        found = before + total[HEAD:]
        numbers = np.concatenate([total[:HEAD], found])
        _lift(numbers, Answer.of(numbers, self.shape, self.local.width(now)).hessian)
        new = super().add_up(state, numbers, said, step, number)
        search, ended = Search.of(new), float(state["ended"][0])
        if search.done and search.objective < ended - native.ROUNDING * abs(ended):
            # An error in what was learned may be the reason: everything is asked for once more before the run ends.
            return self.start(new["base"]) | {"ended": np.array([search.objective])}
        kept = np.array_equal(new["base"], state["x"])
        return new | {
            "learned": found if kept else before, "known": state["active"], "key": state["key"],
            "since": np.array([number + 1]), "keeps": np.array([int(kept)]), "ended": state["ended"],
        }  # fmt: skip


def _lift(numbers: Array, hessian: Array) -> None:
    """Add 2λ to the diagonal of the Hessian in these numbers if its least eigenvalue -λ is negative."""
    width = len(hessian)
    try:
        cholesky(hessian, lower=True, check_finite=False)
    except LinAlgError:
        least = float(eigvalsh(hessian, subset_by_index=(0, 0))[0])
        diagonal = np.cumsum(np.arange(1, width + 1)) - 1
        numbers[numbers.size - triangle(width) + diagonal] += max(0.0, -2.0 * least)


def answer_of(reply: Reply, transport: Transport, size: int, rest: int) -> Reply:
    """The reply with its first numbers and the changes of the ``size`` and ``rest`` numbers of its derivatives as the model."""
    more: Any = reply.more
    head, slopes = more.get(VALUES), more.get(SLOPES)
    for name, part, kind, length in (
        (VALUES, head, np.float64, HEAD), (SLOPES, slopes, np.float32, size),
    ):  # fmt: skip
        if not isinstance(part, np.ndarray) or part.dtype != kind or part.shape != (length,):
            raise Unusable(f"its part {name!r} must be {np.dtype(kind)} of length {length}")
    whole = Digits(transport.digits) if more.get(WHOLE) == 1 else transport
    found = unpacked(whole, reply, (rest,))
    left = {name: part for name, part in found.more.items() if name not in (VALUES, SLOPES, WHOLE)}
    model = np.concatenate([head, slopes.astype(np.float64), found.model])
    return replace(found, model=model, more=left)
