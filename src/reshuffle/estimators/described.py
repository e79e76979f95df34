"""Parameters in a model file: plain values are kept, objects are described."""

from __future__ import annotations

import numpy as np

DESCRIBED, PAIRS = "described", "pairs"


class Described:
    """An object that a file only describes: it can be inspected, but not used to fit again."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain(value: object) -> object:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return value.tolist()
    if isinstance(value, (list, tuple)) and all(_simple(entry) for entry in value):
        return [plain(entry) for entry in value]
    if isinstance(value, dict) and all(map(_simple, [*value, *value.values()])):
        return {PAIRS: [[plain(key), plain(entry)] for key, entry in value.items()]}
    return {DESCRIBED: repr(value)}


def restored(value: object) -> object:
    """The value that was given to ``plain``, or its description."""
    if isinstance(value, dict):
        if PAIRS in value:
            return dict(value[PAIRS])
        return Described(str(value[DESCRIBED]))
    return value


def _simple(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))
