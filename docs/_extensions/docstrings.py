"""The pages of classes and functions: what this package wrote, in the form in which its docstrings have it."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from formulas import display, formal, sentence
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
ENTRY = re.compile(r"^([A-Za-z_][\w, *]*) :(?: (.+))?$")
"""'name : what it is', which numpy's style would take for a name and a type."""
LISTS = {"Parameters", "Attributes"}
STRAY = re.compile(r"``|\.\. ?[a-z]+:|:[a-z]+:`|\*\*\w|\(\.\.\)|`_")
"""Markup that a reader must not see: it was meant for the builder, and the builder did not understand it."""
NAME = re.compile(r"\*{0,2}[A-Za-z_][\w.]*(?:(?:, | and )\*{0,2}[A-Za-z_][\w.]*)*")
"""The name of an argument or attribute, or several."""


def marked(lines: list[str]) -> list[str]:
    """Paragraphs with their formulas as mathematics; lists, examples and what is indented stay as they are."""
    found: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        begins = [line[:1] for line in paragraph.splitlines()]
        flat = begins and all(begin.strip() and begin not in "-*>." for begin in begins)
        found += (
            [sentence(paragraph.replace("\n", " "))]
            if flat and formal(paragraph)
            else paragraph.split("\n")
        )
        found.append("")
    return found


def set_out(lines: list[str]) -> list[str]:
    """Indented blocks of formulas, as mathematics."""
    found: list[str] = []
    place = 0
    while place < len(lines):
        end = place
        while end < len(lines) and lines[end].startswith("    "):
            end += 1
        before = next((line for line in reversed(found) if line), "")
        block = lines[place:end]
        if (
            block
            and found
            and not found[-1]
            and not before.startswith((" ", "-", ">>>"))
            and formal(" ".join(block))
        ):
            found += display(block)
            if before.endswith("::"):  # a block of text for the terminal, of formulas for the page
                found[found.index(before)] = before[:-1]
        else:
            end = max(end, place + 1)
            found += lines[place:end]
        place = end
    return found


def described(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Formulas as mathematics; entries of the sections as the name, and below it what is said of it."""
    underlined = [place for place, line in enumerate(lines) if line and set(line) == {"-"}]
    body = underlined[0] - 1 if underlined else len(lines)
    found = set_out(marked(lines[:body]))
    title = ""
    for place, line in enumerate(lines[body:], body):
        if place + 1 in underlined:
            title = line
        entry = ENTRY.match(line) if title in LISTS else None
        if entry:
            found += [entry[1], *([f"    {entry[2]}"] if entry[2] else [])]
        elif title in LISTS and line[:1].strip() and place not in underlined and line != title:
            found += [
                "",
                "",
                line,
            ]  # two empty lines end a section: a paragraph comes after the list
            title = ""
        else:
            found.append(line)
    lines[:] = found


def clean(app: Any, tree: nodes.document, page: str) -> None:
    """Warns, and so ends a build with -W, where markup is left in the text or a list of arguments is none."""
    if not page.startswith("reference/"):
        return
    for text in tree.findall(nodes.Text):
        above = text.parent
        if isinstance(
            above, nodes.literal | nodes.literal_block | nodes.math | nodes.math_block | nodes.raw
        ):
            continue
        if isinstance(above, addnodes.literal_strong) and not NAME.fullmatch(text.astext()):
            logger.warning(
                "%r is not the name of an argument or attribute", text.astext(), location=above
            )
        elif found := STRAY.search(text.astext()):
            logger.warning("stray markup %r in %r", found[0], text.astext()[:80], location=above)


def foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """What is inherited from other libraries is left out."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    home = getattr(function, "__module__", None)
    return True if home and home.split(".")[0] not in ("reshuffle", "builtins") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", described, priority=400)  # before napoleon, at 500
    app.connect("autodoc-skip-member", foreign)
    app.connect("doctree-resolved", clean)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
