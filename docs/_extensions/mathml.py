"""Formulas as MathML, made when the site is built: a reader's browser draws them and fetches nothing."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
UNKNOWN = re.compile(r"\\[a-zA-Z]+")
"""What the converter does not know it passes on as it stands."""


def mathml(node: Any, display: str) -> str:
    """The formula of a node; a command that was not understood is a warning."""
    found: str = convert(node.astext().strip(), display=display)
    for command in UNKNOWN.findall(found):
        logger.warning("%s is not known in MathML: write it otherwise", command, location=node)
    return found


def inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: Any) -> None:
    # focusable, so that a formula wider than the page can be scrolled by keys too
    writer.body.append(f'<div class="math" tabindex="0">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
