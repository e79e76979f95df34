"""What a server does with the replies of 1,000 hosts: seconds and bytes, simulated with random replies.

    python -m benchmarks.many_hosts

Two kinds of reply: a model of d numbers (a round of ExactFedRR), and a gradient with half of the Hessian of the active features (a
step of FedNewton). Replies are summed up one at a time, as they come and in twice the precision, as the server does it: memory
does not grow with the hosts, and the sum does not depend on their order. Then comes the server's own work: the prox of a model,
or the minimiser of the quadratic model.
"""

from __future__ import annotations

import time
from typing import cast

import numpy as np

from reshuffle.core import native
from reshuffle.federated.client_state_server import Total
from reshuffle.penalties import ElasticNet
from reshuffle.penalties.abilities import compiled_form
from reshuffle.penalties.forms import Form
from reshuffle.solvers.newton_model import descend

HOSTS = 1000


def summed(numbers: int, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """CPU seconds for the sum of 1,000 replies of this length."""
    reply, total = rng.normal(size=numbers), Total((numbers,))
    clock = time.process_time()
    for _ in range(HOSTS):
        total.add(reply)
    found = total.value()
    return time.process_time() - clock, found


def solved(active: int, rng: np.random.Generator) -> float:
    """CPU seconds for the minimiser of a quadratic model with an elastic net in so many coordinates."""
    A = rng.normal(size=(2 * active, active))
    H, g = A.T @ A / (2 * active), rng.normal(size=active)
    form = cast(Form, compiled_form(ElasticNet(1e-3, 1e-3), (active,)))
    clock = time.process_time()
    descend(form, H, g, np.zeros(active), np.zeros(active), native.FINE, 0.0)
    return time.process_time() - clock


def main() -> None:
    rng = np.random.default_rng(0)
    for name, numbers, active in (
        ("models, d = 1,000", 1_000, 0), ("models, d = 1,000,000", 1_000_000, 0),
        ("Hessians, 100 active", 1_000 + 100 * 101 // 2, 100), ("Hessians, 1,000 active", 1_000 + 1_000 * 1_001 // 2, 1_000),
    ):  # fmt: skip
        seconds, total = summed(numbers, rng)
        clock = time.process_time()
        ElasticNet(1e-3, 1e-3).prox(total / HOSTS, 1.0)
        after = solved(active, rng) if active else time.process_time() - clock
        print(
            f"{name:<24} {8 * numbers:>12,} bytes a reply  {8 * numbers * HOSTS / 1e6:>10,.1f} MB in all  "
            f"sum {seconds:7.3f} CPU s  then {after:7.3f} CPU s"
        )


if __name__ == "__main__":
    main()
