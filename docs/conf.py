"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

import sys
from pathlib import Path

from reshuffle import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "reshuffle"
author = "The reshuffle developers"
copyright = author
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_templates", "_extensions"]
templates_path = ["_templates"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "reshuffle"
html_math_renderer = "mathml"  # no page fetches anything from elsewhere
html_copy_source = False
autosummary_ignore_module_all = False
autodoc_typehints = "description"
autodoc_mock_imports = ["torch"]  # an extra that the pages can be built without
autodoc_member_order = "bysource"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list like that of the parameters
suppress_warnings = [
    "myst.header",
    "ref.python",  # attributes that subclasses share
    "config.cache",  # the gallery's settings hold functions
]

# The examples are run, in the order of their names, and end the build where one fails.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery", "../examples/penalties"],
    "gallery_dirs": ["gallery", "gallery_of_penalties"],
    "filename_pattern": ".*",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "backreferences_dir": "gallery/used",
    "doc_module": ("reshuffle",),
    "inspect_global_variables": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "min_reported_time": 1e9,  # a time would differ from build to build
    "remove_config_comments": True,
    "thumbnail_size": (640, 448),
}
