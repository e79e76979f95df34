"""Differential privacy: clipped and noised sums, and an account of ε that claims what is proved and no more."""

from reshuffle.privacy.epsilon import (
    epsilon_of_allocations,
    epsilon_of_releases,
    noise_for_releases,
)
from reshuffle.privacy.guarantee import Account, Guarantee
from reshuffle.privacy.levels import ClientLevel, Level, SampleLevel, level_of

__all__ = [
    "Account",
    "ClientLevel",
    "Guarantee",
    "Level",
    "SampleLevel",
    "epsilon_of_allocations",
    "epsilon_of_releases",
    "level_of",
    "noise_for_releases",
]
