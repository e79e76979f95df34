"""A few hundred of the hostile inputs of ``tests/long/fuzz.py``; the long run is a command of its own."""

from __future__ import annotations

import pytest
from fuzz import TARGETS, many

MANY = [pytest.param(*one, marks=pytest.mark.slow) for one in (("libsvm", 400), ("saved", 120), ("parts", 120))]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "count"), [("libsvm", 100), ("saved", 30), ("parts", 30), *MANY]
)
def test_hostile_inputs_end_in_an_error_or_the_right_answer(target: str, count: int) -> None:
    ended = many(target, count)
    assert ended["wrong"] == ended["crashed"] == 0
    assert ended["right"] + ended["refused"] == count
    assert min(ended["right"], ended["refused"]) > 0.1 * count
    assert target in TARGETS
