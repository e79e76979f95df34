"""The command as tests run it, a table to run it on, and the pages that it writes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from reshuffle.cli import main

COLOURS = ("red", "green", "<b>blue</b>")


def write_people(folder: Path) -> Path:
    """A table with categories, numbers on two scales, a text target and a numeric one."""
    rng = np.random.default_rng(0)
    n = 300
    colour, age = rng.choice(COLOURS, n), rng.integers(18, 90, n)
    income = np.round(rng.lognormal(10, 0.5, n), 2)
    z = 2.0 * (colour == "red") + 0.05 * (age - 50) + rng.standard_normal(n)
    lines = ["colour,age,income,spend,buys"]
    lines += [
        f"{c},{a},{i},{100 + 20 * s:.2f},{'yes' if s > 0 else 'no'}"
        for c, a, i, s in zip(colour, age, income, z, strict=True)
    ]
    path = folder / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def runner() -> CliRunner:
    """With standard error kept apart, which click before 8.2 does only when asked."""
    try:
        return CliRunner(**{"mix_stderr": False})  # type: ignore[arg-type]
    except TypeError:
        return CliRunner()


def run(*arguments: Any, code: int = 0, **options: Any) -> Any:
    done = runner().invoke(main, [str(a) for a in arguments], **options)
    assert done.exit_code == code, (done.output, done.exception)
    return done


def fit(file: Any, out: Path, *options: str, code: int = 0) -> dict[str, Any]:
    done = run("fit", file, "--out", out, "--json", *options, code=code)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Page(HTMLParser):
    """What a page holds: whether its elements close, what it loads, its text."""

    EMPTY = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.loads.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words += data


def check_page(path: Path) -> str:
    text = path.read_text()
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert not page.tags & {"script", "link", "img", "iframe", "b2"}
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return page.words
