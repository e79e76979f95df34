"""Data sets to experiment with: a bundled one, the LIBSVM files by name, and synthetic problems."""

from reshuffle.datasets.bundled import breast_cancer, synthetic
from reshuffle.datasets.catalogue import CATALOGUE, Entry, Identity, identity
from reshuffle.datasets.conversion import Conversion, convert
from reshuffle.datasets.libsvm import VARIABLE, cache_folder, fetch, find, load_libsvm
from reshuffle.datasets.opening import open_shards
from reshuffle.datasets.reading import load_data, stream, stream_parts
from reshuffle.datasets.table import Data, Reading

__all__ = [
    "CATALOGUE",
    "VARIABLE",
    "Conversion",
    "Data",
    "Entry",
    "Identity",
    "Reading",
    "breast_cancer",
    "cache_folder",
    "convert",
    "fetch",
    "find",
    "identity",
    "load_data",
    "load_libsvm",
    "open_shards",
    "stream",
    "stream_parts",
    "synthetic",
]
