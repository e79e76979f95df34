"""Checks of a penalty, a loss or a method of one's own, as scikit-learn's ``check_estimator`` is one of an estimator.

Each tries properties on random inputs, and names the mistake where one does not hold.
"""

from reshuffle.testing.failure import CheckFailed as CheckFailed
from reshuffle.testing.losses import check_loss as check_loss
from reshuffle.testing.methods import check_method as check_method
from reshuffle.testing.penalties import check_penalty as check_penalty
