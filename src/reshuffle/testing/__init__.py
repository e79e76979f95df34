"""Checks for your own penalty, loss or method, as scikit-learn's ``check_estimator`` is for an estimator.

Each tries properties on random inputs and, if one does not hold, names the likely mistake.
"""

from reshuffle.testing.failure import CheckFailed as CheckFailed
from reshuffle.testing.losses import check_loss as check_loss
from reshuffle.testing.methods import check_method as check_method
from reshuffle.testing.penalties import check_penalty as check_penalty
