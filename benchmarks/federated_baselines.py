"""SCAFFOLD and Scaffnew, which the benchmarks compare with: those of ``examples/methods``."""

from __future__ import annotations

from examples.methods.scaffnew import Descent, Scaffnew
from examples.methods.scaffold import Scaffold

__all__ = ["Descent", "Scaffnew", "Scaffold"]
