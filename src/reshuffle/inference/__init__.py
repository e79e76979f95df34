"""Standard errors, tests and intervals of coefficients, where they are valid."""

from reshuffle.inference.table import Inference as Inference
