"""The random tests of penalties, with ten times the examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from drawing import MORE

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_penalties_on_many_examples() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "tests/penalties"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {MORE: "10"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
