"""Losses l(z, y), one small file each.

A new loss is one file and one line here: the conformance tests find it in ``LOSSES``.
"""

from reshuffle.losses.base import Loss as Loss
from reshuffle.losses.base import check_loss as check_loss
from reshuffle.losses.complementary_log_log import ComplementaryLogLog as ComplementaryLogLog
from reshuffle.losses.gamma import Gamma as Gamma
from reshuffle.losses.huber import Huber as Huber
from reshuffle.losses.inverse_gaussian import InverseGaussian as InverseGaussian
from reshuffle.losses.logistic import Logistic as Logistic
from reshuffle.losses.multinomial import Multinomial as Multinomial
from reshuffle.losses.negative_binomial import NegativeBinomial as NegativeBinomial
from reshuffle.losses.poisson import Poisson as Poisson
from reshuffle.losses.probit import Probit as Probit
from reshuffle.losses.quantile import Quantile as Quantile
from reshuffle.losses.squared import Squared as Squared
from reshuffle.losses.squared_hinge import SquaredHinge as SquaredHinge
from reshuffle.losses.tweedie import Tweedie as Tweedie

LOSSES: tuple[type[Loss], ...] = tuple(
    part
    for part in list(globals().values())
    if isinstance(part, type) and issubclass(part, Loss) and part is not Loss
)
"""Every loss of the package."""
