"""Data to try things on: a bundled set, the LIBSVM files by name, synthetic problems."""

from reshuffle.datasets.bundled import breast_cancer, synthetic
from reshuffle.datasets.catalogue import CATALOGUE, Entry
from reshuffle.datasets.libsvm import VARIABLE, cache_folder, fetch, find, load_libsvm

__all__ = [
    "CATALOGUE",
    "VARIABLE",
    "Entry",
    "breast_cancer",
    "cache_folder",
    "fetch",
    "find",
    "load_libsvm",
    "synthetic",
]
