"""The page that sets tasks beside other tools: its code runs, and its lines are as many as it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "beside.md").read_text()
BLOCK = re.compile(r"```(python|console|\{code-block\} python)\n(.*?)```", re.DOTALL)
ROW = re.compile(r"^\| \[[^]]+\]\(#([\w-]+)\) \|(.*)\|$", re.MULTILINE)
LONGEST = 100
"""Characters of a line, as the page says."""


def lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def sections() -> dict[str, list[str]]:
    """The blocks of each section, by the section's anchor."""
    parts = [part.partition("\n") for part in PAGE.split("\n## ")[1:]]
    return {
        title.lower().replace(" ", "-"): [text for _, text in BLOCK.findall(body)]
        for title, _, body in parts
    }


def test_the_table_counts_the_lines_of_the_page() -> None:
    found = sections()
    said = {name: [int(n) for n in re.findall(r"\d+", row)] for name, row in ROW.findall(PAGE)}
    assert set(said) == set(found)
    settings = re.search(r'file\.write\("""\n(.*?)"""', (DOCS / "sites.md").read_text(), re.DOTALL)
    assert settings is not None
    toml = lines(settings.group(1)) + 2  # impute and drop, which the page about sites adds
    assert f"{toml} lines of `sites.toml`" in PAGE
    for name, blocks in found.items():
        counts = [lines(text) for text in blocks]
        assert said[name] == ([toml + 1, *counts] if name == "three-sites" else counts), name
        assert max(len(line) for text in blocks for line in text.splitlines()) <= LONGEST


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skl2onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for kind, text in BLOCK.findall(PAGE):
        if kind == "python":
            exec(compile(text, "beside.md", "exec"), names)
        for line in text.splitlines() if kind == "console" else []:
            run(*shlex.split(line.removeprefix("$ reshuffle ")))
    written = {
        "patients.onnx",
        "patients-sklearn.onnx",
        "predictions.csv",
        "predictions-sklearn.csv",
    }
    assert written <= {path.name for path in tmp_path.iterdir()}
    ours, theirs = (
        [float(line.split(",")[-1]) for line in (tmp_path / name).read_text().split()[1:]]
        for name in ("predictions.csv", "predictions-sklearn.csv")
    )
    assert len(ours) == len(theirs) == 40
    assert (
        max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 30
    )  # other rows were held out
