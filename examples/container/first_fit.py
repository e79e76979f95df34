"""Seconds of the first fit of a process, after the import, and how many kernels were found compiled."""

from __future__ import annotations

import time
import warnings

import reshuffle as rs
from reshuffle.errors import CacheWarning

X, y = rs.datasets.breast_cancer()
clock = time.perf_counter()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always", CacheWarning)
    rs.RRClassifier(penalty="l1").fit(X, y)
seconds = time.perf_counter() - clock
print(f"{seconds:.2f} s", *(warning.message for warning in said), sep="\n")
