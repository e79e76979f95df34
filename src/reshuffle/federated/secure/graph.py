"""Who shares masks and secrets with whom: everybody with everybody, or, of many sites, each with k neighbours.

Sites are put on a circle in an order that follows from the public keys of all of them in this attempt, and each has the k/2 to its left
and the k/2 to its right as neighbours (Bell et al. 2020 use such graphs). k is the least with which a quarter of the sites, chosen before the
order was drawn, have enough shares of any other site's secrets with a probability of at most 2⁻⁴⁰.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

FEW = 20
"""Up to so many sites all are neighbours of all."""
CURIOUS = 0.25
"""The share of sites that may collude with the driver where sites have few neighbours."""
CHANCE = 2.0**-40
"""The probability that colluding sites have enough shares of some site's secrets."""


def least_of(holders: int) -> int:
    """The shares that give a secret back: more than two thirds of those that are handed out."""
    return 2 * holders // 3 + 1


@cache
def degree_of(count: int) -> int:
    """k for so many sites."""
    if count <= FEW:
        return count - 1
    from scipy.stats import hypergeom

    curious = int(CURIOUS * count)
    for k in range(2, count - 1, 2):
        # a site's holders are itself and k of the others, of whom some are curious
        if count * float(hypergeom.sf(least_of(k + 1) - 1, count - 1, curious, k)) <= CHANCE:
            return k
    return count - 1


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
