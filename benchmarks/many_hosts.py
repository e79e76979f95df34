"""What a server does with the replies of 1,000 hosts: seconds and bytes, simulated with random replies.

    python -m benchmarks.many_hosts

Two kinds of reply: a model of d numbers (a round of ExactFedRR), and a gradient with the Hessian of the active features (a
step of FedNewton). Replies are summed up one at a time, as they come, so that memory does not grow with the hosts.
"""

from __future__ import annotations

import time

import numpy as np

from reshuffle.penalties import ElasticNet

HOSTS = 1000


def main() -> None:
    rng = np.random.default_rng(0)
    for name, numbers in (("models, d = 1,000", 1_000), ("models, d = 1,000,000", 1_000_000),
                          ("Hessians, 100 active", 100 * 100), ("Hessians, 1,000 active", 1_000 * 1_000)):  # fmt: skip
        reply = rng.normal(size=numbers)
        total, clock = np.zeros(numbers), time.process_time()
        for _ in range(HOSTS):
            total += reply
        ElasticNet(1e-3, 1e-3).prox(total / HOSTS, 1.0)
        seconds = time.process_time() - clock
        print(
            f"{name:<24} {8 * numbers:>12,} bytes a reply  {8 * numbers * HOSTS / 1e6:>10,.0f} MB in all  {seconds:7.3f} CPU s"
        )


if __name__ == "__main__":
    main()
