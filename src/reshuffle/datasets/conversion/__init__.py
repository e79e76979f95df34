"""Files of any form that is known, streamed into a folder of shards."""

from reshuffle.datasets.conversion.streaming import Conversion, convert

__all__ = ["Conversion", "convert"]
