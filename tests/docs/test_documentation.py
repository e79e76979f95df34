"""What the documentation promises: a page for every public name, and the README's own commands."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import reshuffle as rs

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
MODULES: list[ModuleType] = [
    rs, rs.losses, rs.penalties, rs.federated, rs.theory, rs.estimators, rs.engines,
]  # fmt: skip
TOOLS = {"balanced", "check_engine", "digest", "open_session"}
"""Of engines, for engines: ``docs/extending.md`` shows what one of your own needs."""


def public(module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names if name not in TOOLS}
    return [
        name
        for name, part in found.items()
        if (inspect.isclass(part) or inspect.isroutine(part))
        and str(part.__module__).startswith("reshuffle")
    ]


def listed() -> set[str]:
    """The names that have a page, with their modules."""
    found, module = set(), ""
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            found.add(f"{module}.{line.strip()}")
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_has_a_page(module: ModuleType) -> None:
    pages = {name.rpartition(".")[2] for name in listed()}
    assert [name for name in public(module) if name not in pages] == []


def test_every_page_is_of_something_that_is_there() -> None:
    for name in listed():
        if name.startswith("reshuffle.torch") and find_spec("torch") is None:
            continue  # PyTorch is not among the needs of these tests; .ci/run has it.
        part: object = rs
        for piece in name.removeprefix("reshuffle.").split("."):
            part = getattr(part, piece) if hasattr(part, piece) else __import__(
                f"{part.__name__}.{piece}", fromlist=[piece]  # type: ignore[attr-defined]
            )  # fmt: skip
        assert inspect.getdoc(part), name


@pytest.mark.parametrize("kind", [*rs.losses.LOSSES, *rs.penalties.PENALTIES])
def test_every_loss_and_penalty_shows_an_example(kind: type) -> None:
    assert ">>>" in (kind.__doc__ or "")


def commands(page: str) -> list[str]:
    return re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_first_page_has_the_commands_of_the_readme() -> None:
    assert commands("docs/index.md") == commands("README.md")


def test_the_gallery_is_what_it_says() -> None:
    assert len(EXAMPLES) >= 8
    for path in EXAMPLES:
        text = path.read_text()
        title, line = text.splitlines()[1:3]
        assert line == "=" * len(title), path
        assert "plt." in text or "plotting.plot_" in text, f"{path} draws nothing"
        assert "fetch_" not in text, f"{path} would download"


def test_the_glossary_has_at_most_twelve_words_and_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| (?!word|---)([^|]+) \|.*\| ([^|]+) \|$", text, re.MULTILINE)
    assert 0 < len(rows) <= 12
    for word, where in rows:
        paths = re.findall(r"`([\w/.]+)`", where)
        assert paths, word
        assert all((ROOT / "src" / "reshuffle" / path).exists() for path in paths), word
