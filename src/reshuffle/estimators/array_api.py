"""Accepts arrays of other libraries (PyTorch, CuPy, all that follow the array API) as inputs, and answers in arrays of their kind.

With ``sklearn.set_config(array_api_dispatch=True)`` a prediction is an array of the library and on the device of X. Without it, as in
scikit-learn, arrays of the processor are converted to numpy arrays, and those of a graphics card are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from reshuffle.arrays import AnyArray, Array
from reshuffle.errors import InputError
from reshuffle.gpu.cuda import DLPACK_CUDA

BLOCK = 1 << 24
"""Entries of X that are converted to float64 at a time, 128 MB, for a product on a graphics card."""
Method = TypeVar("Method", bound=Callable[..., AnyArray])


def is_foreign(X: object) -> bool:
    """Whether X is an array of another library than numpy."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    return hasattr(X, "__array_namespace__") or _is_tensor(X) or _is_of_cupy(X)


def is_on_card(X: Any) -> bool:
    """Whether X lies in the memory of a graphics card; a sparse matrix of CuPy does too."""
    if type(X).__module__.startswith("cupyx.scipy.sparse"):
        return True
    return is_foreign(X) and int(X.__dlpack_device__()[0]) == DLPACK_CUDA


def check_card(name: str, X: object) -> None:
    """Refuse an array of a graphics card unless scikit-learn's ``array_api_dispatch`` is on."""
    if is_on_card(X) and not get_config()["array_api_dispatch"]:
        raise InputError(
            f"{name} lies on a graphics card: sklearn.set_config(array_api_dispatch=True) lets estimators take it from there"
        )


def here(X: Any) -> Any:
    """An array of another library as a numpy array, without a copy if it is in the processor's memory; other objects unchanged."""
    if not is_foreign(X):
        return X
    if _is_tensor(X):
        return X.detach().cpu().numpy()
    if is_on_card(X) and hasattr(X, "get"):
        return X.get()
    try:
        return np.from_dlpack(X)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return np.asarray(X)


def answers_in_kind(method: Method) -> Method:
    """Decorate a method of X: if scikit-learn dispatches, its answer is an array of the library and on the device of X."""

    @functools.wraps(method)
    def answer(self: object, X: object, *others: object, **named: object) -> object:
        check_card("X", X)
        found = method(self, X, *others, **named)
        return there(found, X) if is_foreign(X) and get_config()["array_api_dispatch"] else found

    return answer  # type: ignore[return-value]


def there(found: AnyArray, X: Any) -> Any:
    """Numbers of the processor as an array like X; texts, which other libraries lack, are unchanged."""
    if found.dtype.kind not in "biuf":
        return found
    if _is_of_cupy(X):  # its asarray takes no device
        with X.device:
            return _namespace(X).asarray(found)
    return _namespace(X).asarray(found, device=X.device)


def product(X: Any, coef: Array) -> Array:
    """X·coef in float64, computed on the device of X; the result is in the processor's memory."""
    if not is_on_card(X):
        found: Array = here(X) @ coef
        return found
    if not is_foreign(X):  # a sparse matrix
        xp: Any = _namespace(X.data)
        return np.asarray((X @ xp.asarray(coef)).get())
    xp, weights = _namespace(X), there(coef, X)
    rows = max(1, BLOCK // max(X.shape[1], 1))
    parts = [
        here(xp.asarray(X[begin : begin + rows], dtype=xp.float64) @ weights)
        for begin in range(0, X.shape[0], rows)
    ]
    return np.concatenate(parts)


def _is_tensor(X: object) -> bool:
    """Whether X is a tensor of PyTorch, which has no ``__array_namespace__``."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(X).__mro__)


def _is_of_cupy(X: object) -> bool:
    """Whether X is an array of CuPy, which has no ``__array_namespace__`` before version 14."""
    return type(X).__module__.split(".")[0] == "cupy"


def _namespace(X: Any) -> Any:
    if _is_tensor(X):
        import torch

        return torch
    if _is_of_cupy(X):
        import cupy

        return cupy
    return X.__array_namespace__()
