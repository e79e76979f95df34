"""A short run of the attack on the readers; ``python -m tests.long.reader_fuzz`` is the long one."""

from __future__ import annotations

import pytest
from reader_fuzz import CHECKS, SEEN, attack


@pytest.mark.parametrize("name", CHECKS)
def test_nothing_is_misread_in_silence(name: str) -> None:
    SEEN.clear()
    attack(name, 200)
    for outcome in ("read", "refused"):
        assert sum(count for kind, count in SEEN.items() if kind.endswith(outcome)) > 20
