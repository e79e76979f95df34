"""Numbers of README and docs name the command that made them, and the cheap ones are still true."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "docs" / "check_numbers.py"
SPEC = importlib.util.spec_from_file_location("check_numbers", PATH)
assert SPEC is not None
assert SPEC.loader is not None
numbers: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(numbers)


@pytest.mark.parametrize("page", numbers.PAGES, ids=lambda page: page.name)
def test_every_section_with_numbers_names_a_command_that_exists(page: Path) -> None:
    assert numbers.problems_of(page) == []


@pytest.mark.parametrize("name", numbers.CHEAP)
def test_cheap_numbers_are_still_true(name: str, a1a: Any) -> None:
    assert numbers.check(name) == []


def test_a_number_without_a_source_or_with_one_that_is_gone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One\n\nIt took 3.5 s.\n\n# Two\n\n2 ms (`python -m benchmarks.gone`).\n")
    assert numbers.problems_of(page) == [
        "page.md, 'One': no command for 3.5 s",
        "page.md, 'Two': no python -m benchmarks.gone",
    ]
    page.write_text(
        "# One\n\n<!-- numbers: python -m timeit x -->\n\n3.5 s, `5 ms`\n\n```\n9 s\n```\n"
    )
    assert numbers.problems_of(page) == []
    monkeypatch.setitem(numbers.CHEAP, "mine", ("page.md", lambda: iter(["3.5 s", "3.6 s"])))
    assert numbers.check("mine") == ["page.md: mine finds '3.6 s', which the page does not say"]
