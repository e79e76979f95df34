"""Standard errors, tests and intervals of coefficients, for fits for which they are valid."""

from reshuffle.inference.table import Inference as Inference
