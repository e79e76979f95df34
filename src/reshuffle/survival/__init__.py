"""Times until an event: Cox's partial likelihood, and quantities that follow from its model."""

from reshuffle.survival.baseline import Baseline as Baseline
from reshuffle.survival.concordance import concordance as concordance
from reshuffle.survival.cox import CoxProblem as CoxProblem
from reshuffle.survival.outcomes import outcome as outcome
