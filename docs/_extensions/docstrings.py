"""The pages of classes and functions: what this package wrote, in the form in which its docstrings have it."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

ENTRY = re.compile(r"^([A-Za-z_][\w, *]*) : (.+)$")
"""'name : what it is', which numpy's style would take for a name and a type."""


def described(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Entries of the sections: the name, and below it what is said of it; attributes as a list."""
    found: list[str] = []
    title, listing = "", False
    for line in lines:
        if set(line) == {"-"}:
            title = found.pop()
            listing = title == "Attributes"
            found += [f".. rubric:: {title}", ""] if listing else [title, line]
            continue
        entry = ENTRY.match(line) if title else None
        if entry and listing:
            names = ", ".join(f"``{each}``" for each in entry[1].split(", "))
            found.append(f"- {names}: {entry[2]}")
        elif entry:
            found += [entry[1], f"    {entry[2]}"]
        else:
            found.append(line.removeprefix("  ") if listing else line)
    lines[:] = found


def foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """What is inherited from other libraries is left out."""
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    home = getattr(function, "__module__", None)
    return True if home and home.split(".")[0] not in ("reshuffle", "builtins") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", described, priority=400)  # before napoleon, at 500
    app.connect("autodoc-skip-member", foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
