"""Several methods on one problem: the runs, what they found, and the table of it."""

from reshuffle.comparison.result import Comparison
from reshuffle.comparison.run import compare

__all__ = ["Comparison", "compare"]
