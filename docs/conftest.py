"""Pages whose examples need an optional package are not run where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("dp_accounting") else ["privacy.md"]
