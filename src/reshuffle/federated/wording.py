"""Rewrites advice about a table for sites: it names settings of ``sites.toml`` and ``Sites`` instead of options of ``fit``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from reshuffle.errors import InputError

NAME = r"('[^']*'|\"[^\"]*\"|[\w.-]*\w)"
"""A name in the form for a shell."""
WORDS = (
    (rf"--drop {NAME}", "drop"),
    (rf"--categorical {NAME}", "categories"),
    (rf"--missing {NAME}", "missing"),
)
PLAIN = {
    "give --drop-missing-target to leave such rows out": "leave such rows out of the table",
    "fit with --impute": "give impute = true",
    "with --impute": "and impute = true",
    "--impute": "impute = true",
    "--drop": "drop",
    "--categorical": "categories",
    "--missing": "missing",
    "--target": "target",
}


def retold(text: str) -> str:
    """A message with the settings of sites in place of options of the command ``fit``.

    >>> retold("leave it out with --drop 'marital status', or give --impute")
    "leave it out with drop = ['marital status'], or give impute = true"
    >>> retold("the target 'y' has no value; give --drop-missing-target to leave such rows out")
    "the target 'y' has no value; leave such rows out of the table"
    """
    for pattern, setting in WORDS:
        text = re.sub(pattern, lambda m, s=setting: f"{s} = [{_quoted(m[1])}]", text)  # type: ignore[misc]
    for option, setting in PLAIN.items():
        text = text.replace(option, setting)
    return text


def _quoted(name: str) -> str:
    return name if name[0] in "'\"" else f"'{name}'"


@contextmanager
def in_words_of_sites() -> Iterator[None]:
    """Reword an ``InputError`` about a table for sites."""
    try:
        yield
    except InputError as error:
        raise InputError(retold(str(error))) from None
