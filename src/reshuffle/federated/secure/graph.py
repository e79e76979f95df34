"""Chooses the pairs of sites that share masks and secrets: all pairs, or with many sites each site and its k neighbours.

Sites are put on a circle in an order that follows from the public keys of all of them in this attempt, and each has the k/2 to its left
and the k/2 to its right as neighbours (Bell et al. 2020 use such graphs). k is the least with which two events have a probability of at most
2⁻⁴⁰ each, for sites that collude or drop out without regard to the order:

- a quarter of the sites, colluding, have enough shares of some other site's secret;
- a third of the sites, colluding or dropped out, separate the others: there are two runs of k/2 of them on the circle. Masks
  hide the sum of every connected part, and no more than that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from math import comb

FEW = 20
"""Up to this number of sites, all are neighbours of each other."""
CURIOUS = 0.25
"""The share of sites that may collude with the driver if sites have few neighbours."""
GONE = 1.0 / 3.0
"""The share of sites that may collude or drop out if sites have few neighbours."""
CHANCE = 2.0**-40
"""The largest probability of each of the two events."""


def least_of(holders: int) -> int:
    """The number of shares that recover a secret: more than two thirds of those handed out."""
    return 2 * holders // 3 + 1


@cache
def degree_of(count: int) -> int:
    """k for this number of sites."""
    if count <= FEW:
        return count - 1
    fits = (k for k in range(2, count - 1, 2) if max(_exposed(count, k), _cut(count, k)) <= CHANCE)
    return next(fits, count - 1)


def _exposed(count: int, k: int) -> float:
    """A bound on the probability that curious sites have enough shares of some site's secrets."""
    others, curious = count - 1, int(CURIOUS * count)
    ways = sum(
        comb(curious, j) * comb(others - curious, k - j) for j in range(least_of(k + 1), k + 1)
    )
    return count * ways / comb(others, k)


def _cut(count: int, k: int) -> float:
    """A bound on the probability that two runs of k/2 sites are gone: one for each pair of their places."""
    gone = int(GONE * count)
    return comb(count, 2) * comb(count - k, gone - k) / comb(count, gone) if gone >= k else 0.0


def neighbours(sites: Sequence[int], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """The neighbours of each site, in ascending order."""
    if degree >= len(sites) - 1:
        return {site: tuple(sorted(set(sites) - {site})) for site in sites}
    circle = sorted(sites, key=lambda site: hashlib.sha256(seed + site.to_bytes(8, "big")).digest())
    count, half = len(circle), degree // 2
    steps = [step for step in range(-half, half + 1) if step]
    return {
        site: tuple(sorted(circle[(place + step) % count] for step in steps))
        for place, site in enumerate(circle)
    }
