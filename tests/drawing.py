"""How many examples a random test draws: few as a rule, and more where a longer run asks for them."""

from __future__ import annotations

import os

from hypothesis import settings

MORE = "RESHUFFLE_EXAMPLES"
FACTOR = float(os.environ.get(MORE, "1"))


def examples(number: int) -> settings:
    """This many, times what ``RESHUFFLE_EXAMPLES`` says."""
    return settings(max_examples=max(1, round(number * FACTOR)))
