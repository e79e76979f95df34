"""The page about the command says what the command says."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import runner

from reshuffle.cli import main

PAGES = ("command.md", "sites.md")
BLOCKS = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


def commands(page: str) -> list[tuple[str, str]]:
    """Each command of a page, in order, and what it prints."""
    text_of_page = (Path(__file__).parents[2] / "docs" / page).read_text()
    found = []
    for kind, text in BLOCKS.findall(text_of_page):
        if kind == "python":
            found.append((f"{sys.executable} - <<'PYTHON'\n{text}\nPYTHON", ""))
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:] if kind == "console" else []:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def said(command: str) -> str:
    """What a command prints, first on standard output."""
    ours, code, _ = command.partition("; echo $?")
    if not ours.startswith("reshuffle "):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr
    ran = runner().invoke(main, shlex.split(ours)[1:])
    told = re.sub(r"^reshuffle: compiling.*\n", "", ran.stderr, flags=re.MULTILINE)
    return ran.stdout + told + (f"{ran.exit_code}\n" if code else "")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_prints_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    for command, wanted in commands(page):
        found = said(command)
        if not same(wanted, found, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            pytest.fail(f"$ {command}\n{found}\ninstead of\n{wanted}")
