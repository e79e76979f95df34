"""Shards are tested on a9a; without its file these tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _has_rows(data_folder: Path | None) -> None:
    if data_folder is None or not (data_folder / "a9a").is_file():
        pytest.skip("no file a9a: name a folder that has it in RESHUFFLE_DATA")
