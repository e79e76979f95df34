"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

from reshuffle import __version__

project = "reshuffle"
author = "The reshuffle developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "reshuffle"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
suppress_warnings = ["myst.header", "ref.python"]  # attributes that subclasses share
