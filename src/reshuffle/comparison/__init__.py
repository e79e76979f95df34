"""Several methods on one problem: the runs, their results, and a table of them."""

from reshuffle.comparison.result import Comparison
from reshuffle.comparison.run import compare

__all__ = ["Comparison", "compare"]
