"""Targets from labels of any kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import AnyArray
from reshuffle.errors import InputError
from reshuffle.validation import as_array


def encode_labels(labels: object) -> tuple[AnyArray, AnyArray]:
    """Targets from any labels: -1/+1 for two classes, 0 … K-1 for more, and the sorted classes.

    Examples
    --------
    >>> y, classes = encode_labels(["edible", "poisonous", "edible"])
    >>> y, classes.tolist()
    (array([-1.,  1., -1.]), ['edible', 'poisonous'])
    """
    given = as_array("labels", labels)
    if given.ndim != 1:
        raise InputError(
            f"labels must be a list with one label per sample, got shape {given.shape}"
        )
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise InputError("labels must not be missing, got NaN")
    check_apart(given)
    classes, codes = classes_of(given)
    if classes.size < 2:
        raise InputError(f"labels hold one class only ({classes.tolist()}); two are needed")
    return (2.0 * codes - 1.0 if classes.size == 2 else codes.astype(np.int32)), classes


def classes_of(labels: AnyArray) -> tuple[AnyArray, NDArray[np.int64]]:
    """The sorted classes, and for each label the number of its class; two classes of numbers need no sorting."""
    if labels.dtype.kind in "fiub" and labels.size:
        low, high = labels.min(), labels.max()
        upper = labels == high
        if low < high and np.all(upper | (labels == low)):
            return np.array([low, high], dtype=labels.dtype), upper.astype(np.int64)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def check_apart(labels: AnyArray) -> None:
    """Refuse floating-point labels so large that different whole numbers have the same representation."""
    if labels.dtype.kind != "f" or not labels.size:
        return
    most = 2.0 / np.finfo(labels.dtype).eps  # This is 2^53 in double precision.
    largest = labels[np.argmax(np.abs(labels))]
    if abs(largest) >= most:
        raise InputError(
            f"labels must be below {most:.0f}, got {largest:.17g}: from there on different whole numbers are the same "
            "floating-point number; number the classes anew, or give them as text"
        )


def as_written(labels: AnyArray) -> AnyArray:
    """Labels as they were written: whole numbers without a decimal point."""
    check_apart(labels)
    if labels.dtype.kind == "f" and np.all(labels == np.rint(labels)):
        return labels.astype(np.int64)
    return labels
