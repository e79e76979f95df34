"""Losses l(z, y), one small file each."""

from reshuffle.losses.base import Loss
from reshuffle.losses.huber import Huber
from reshuffle.losses.logistic import Logistic
from reshuffle.losses.multinomial import Multinomial
from reshuffle.losses.squared import Squared
from reshuffle.losses.squared_hinge import SquaredHinge

__all__ = ["Huber", "Logistic", "Loss", "Multinomial", "Squared", "SquaredHinge"]
