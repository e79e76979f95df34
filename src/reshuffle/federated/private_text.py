"""Error texts as sites tell them: without cells of the table and without folders of the machine, in the words of sites.

A reader of tables quotes the cell or line that it could not read. That helps the owner of the file, but must not leave the site.
The full text is written to the log of the site. The driver gets it without quotations, except names of columns; of errors that are
not this package's own it gets only the type. Advice about a table names settings of ``sites.toml`` and ``Sites`` instead of options of
``fit``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reshuffle.errors import InputError

logger = logging.getLogger("reshuffle")

QUOTED = re.compile(r"(?<![\w'\"])('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?!\w)", re.DOTALL)
"""A word in quotation marks; an apostrophe inside a word opens none."""
NAMES = re.compile(
    r"(?:columns?|columns are|features?|target|settings?|kind|loss|got|configuration:|(?:drop|categories|columns|target) = \[?)\s*$"
)
"""The text before names that all sites know anyway; a list of them continues after a comma, 'and' or 'or'."""
BETWEEN = re.compile(r"\s*(?:,|and|or|, and|, or)\s*")
FOLDERS = re.compile(r"(?<![\w.…])(?:/[^/\s'\":,;]+)+/")
"""The folders of an absolute path, without the name of the file."""
HIDDEN = "'…'"
NAME_IN_SHELL = r"('[^']*'|\"[^\"]*\"|[\w.-]*\w)"
"""A name in the form for a shell."""
OPTIONS = {"--drop": "drop", "--categorical": "categories", "--missing": "missing"}
"""Options of ``fit`` that take a name, and the lists of sites."""
WORDS_OF_SITES = {
    "give --drop-missing-target to leave such rows out": "leave such rows out of the table",
    "fit with --impute": "give impute = true",
    "with --impute": "and impute = true",
    "--impute": "impute = true",
    "--target": "target",
    **OPTIONS,
}


def without_cells(text: str) -> str:
    """The text with '…' in place of everything quoted except names of columns, and without folders.

    >>> without_cells("/srv/north/a.csv, line 3: column 'age' holds 'Jo Smith', which is no number")
    "…/a.csv, line 3: column 'age' holds '…', which is no number"
    """
    parts, end, named = [], 0, False
    for found in QUOTED.finditer(text):
        between = text[end : found.start()]
        named = bool(NAMES.search(between)) or (named and bool(BETWEEN.fullmatch(between)))
        parts += [FOLDERS.sub("…/", between), found[0] if named else HIDDEN]
        end = found.end()
    return "".join([*parts, FOLDERS.sub("…/", text[end:])])


def told(error: Exception, *paths: object) -> str:
    """The reason of a failure for the driver; the whole of it stays in the log of the site.

    The folders of ``paths``, which are those of the site's files, are left out whatever characters their names have.

    Our own errors put what they cite in quotation marks. Nothing is known about any other exception, and only its type leaves the site:
    the text of a library, or of a function of one's own, may hold a row of the table.
    """
    kind = type(error).__name__
    ours = isinstance(error, InputError)
    text = str(error) if ours else f"{kind}: {error}"
    public = f"{kind}; its text is in the log of the site"
    if ours:
        public = without_cells(_without_folders(text, paths))
    if public != text:
        logger.error("the whole of an error, of which the driver gets a part: %s", text)
    return public


def _without_folders(text: str, paths: Iterable[object]) -> str:
    """The text with … in place of the folder of each absolute path, and of the path itself if it is a folder.

    >>> _without_folders("there is no file /srv/Smith, Jo/a.csv", ["/srv/Smith, Jo/a.csv", None])
    'there is no file …/a.csv'
    """
    given = [Path(path) for path in paths if isinstance(path, (str, os.PathLike))]
    folders = {
        str(folder) for path in given if path.is_absolute() for folder in (path, path.parent)
    }
    for folder in sorted(folders - {os.sep}, key=len, reverse=True):
        text = text.replace(f"{folder}{os.sep}", f"…{os.sep}")
    return text


def retold(text: str) -> str:
    """A message with the settings of sites in place of options of the command ``fit``.

    >>> retold("leave it out with --drop 'marital status', or give --impute")
    "leave it out with drop = ['marital status'], or give impute = true"
    >>> retold("the target 'y' has no value; give --drop-missing-target to leave such rows out")
    "the target 'y' has no value; leave such rows out of the table"
    """
    for option, setting in OPTIONS.items():
        given = re.compile(rf"{option} {NAME_IN_SHELL}")
        text = given.sub(lambda m, s=setting: f"{s} = [{_quoted(m[1])}]", text)  # type: ignore[misc]
    for option, setting in WORDS_OF_SITES.items():
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
