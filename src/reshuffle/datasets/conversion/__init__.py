"""Streams files of every known format into a folder of shards."""

from reshuffle.datasets.conversion.source import Conversion
from reshuffle.datasets.conversion.streaming import convert

__all__ = ["Conversion", "convert"]
