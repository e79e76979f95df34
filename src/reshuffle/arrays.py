"""Types for signatures: of arrays, of matrices, and of hash algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Points, gradients, and other float64 numbers."""
Visits = NDArray[np.uint32]
"""Indices of functions or features, in the type of the compiled core."""
Ends = NDArray[np.int64]
"""For each batch, the number of visits up to its end."""
Noise = Callable[[int], Array]
"""A function that returns the next ``count`` rows of noise, each of the shape of x; it is called for as many as fit into memory."""
Labels = NDArray[np.int64]
"""One integer per row or feature, such as the number of its group."""
Mask = NDArray[np.bool_]
"""True for the selected entries."""
AnyArray = NDArray[Any]
"""An array whose type is known only at run time, such as a user's data or the content of a file."""


class DataMatrix(Protocol):
    """Rows of numbers: an array with two axes, or a sparse matrix of scipy."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    def __getitem__(self, rows: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...


class Hasher(Protocol):
    """An algorithm of hashlib."""

    def update(self, data: bytes | memoryview, /) -> None: ...
