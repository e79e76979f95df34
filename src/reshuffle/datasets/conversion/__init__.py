"""Streams files of every known format into a folder of shards."""

from reshuffle.datasets.conversion.streaming import Conversion, convert

__all__ = ["Conversion", "convert"]
