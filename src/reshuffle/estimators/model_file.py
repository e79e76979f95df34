"""Models in files: arrays and JSON, no pickle. A file holds the model and what is known of it, not the run."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from reshuffle import losses
from reshuffle.content import digest
from reshuffle.errors import InputError, shown
from reshuffle.estimators.described import Described, plain, restored
from reshuffle.estimators.outcome import Certificate
from reshuffle.estimators.summary import dense
from reshuffle.files import write_atomically
from reshuffle.losses import Loss
from reshuffle.losses.squared import SquaredOutputs

FORMAT = "reshuffle model"
VERSION = 1
NUMBERS = ("lambda_", "lambda_min_", "lambda_1se_", "objective_", "n_iter_", "n_samples_fit_")
"""Fitted attributes that are single numbers, kept where a model has them."""
DAMAGE: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError, OverflowError,
    zipfile.BadZipFile, NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip
"""What reading a file that is not as it should be may raise."""


def save(model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None) -> None:
    """Write a fitted model; with X and y, also a digest by which the data can be recognised."""
    from reshuffle import __version__

    if hasattr(model.loss_, "mean"):
        raise InputError(
            f"loss {model.loss_!r} has a mean(z) of its own, which is code and not kept in a file"
        )
    arrays: dict[str, Any] = {
        "coef": dense(model.coef_),
        "intercept": np.asarray(model.intercept_),
        "scalar": np.array(np.ndim(model.intercept_) == 0),
    }
    for name, attribute in (("classes", "classes_"), ("names", "feature_names_in_")):
        if hasattr(model, attribute):
            arrays[name] = _text_or_numbers(attribute, getattr(model, attribute))
    about = {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "estimator": type(model).__name__,
        "parameters": {k: plain(v) for k, v in model.get_params(deep=False).items()},
        "loss": {"name": type(model.loss_).__name__, "parameters": list(model.loss_.params)},
        "penalty": repr(model.penalty_),
        "features": model.n_features_in_,
        "numbers": {n: float(getattr(model, n)) for n in NUMBERS if hasattr(model, n)},
        "converged": bool(model.converged_),
        "message": model.message_,
        "certificate": asdict(model.certificate_),
        "objects": [n for n in ("classes_",) if getattr(model, n, np.empty(0)).dtype == object],
        "data": None if X is None else fingerprint(X, y),
        "digest": digest(*(arrays[name] for name in sorted(arrays))),
    }
    buffer = io.BytesIO()
    np.savez(buffer, about=np.array(json.dumps(about)), **arrays)
    write_atomically(path, buffer.getvalue())


def load(path: str | os.PathLike[str]) -> Any:
    """The model of a file that ``save`` wrote, ready to predict.

    Files that are something else, or damaged, are refused with an ``InputError``. Nothing in a file is run.

    Examples
    --------
    >>> import tempfile, os, reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> model = rs.RRClassifier(penalty="l1", l1=0.01).fit(X, y)
    >>> file = os.path.join(tempfile.mkdtemp(), "model.npz")
    >>> model.save(file)
    >>> again = rs.estimators.load(file)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    about, arrays = read(path)
    try:
        return _model(about, arrays)
    except DAMAGE as error:
        raise InputError(f"{path} is a damaged model file: {error}") from None


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a model file says about the model, and its arrays, checked against their digest."""
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {path}")
    if not Path(path).is_file():
        raise InputError(f"{path} is not a file")
    try:
        with zipfile.ZipFile(path) as stored:
            members = stored.infolist()
            if any(m.compress_type or m.file_size != m.compress_size for m in members):
                raise ValueError(
                    "its parts are compressed"
                )  # ours are not: what is read is what lies there
            arrays = {m.filename.removesuffix(".npy"): _array(stored.read(m)) for m in members}
        about = json.loads(str(arrays.pop("about")))
        if about["format"] != FORMAT:
            raise ValueError("it says that it is something else")
    except DAMAGE as error:
        raise InputError(
            f"{path} is not a model file of reshuffle, or is damaged: {error}"
        ) from None
    if about.get("version") != VERSION:
        raise InputError(
            f"{path} has version {shown(about.get('version'))} of the model file; this is {VERSION}"
        )
    if about.get("digest") != digest(*(arrays[name] for name in sorted(arrays))):
        raise InputError(
            f"{path} is a damaged model file: its arrays are not those that were saved"
        )
    return about, arrays


def fingerprint(X: Any, y: Any) -> dict[str, str]:
    """Digests of data: equal for equal numbers in equal layout."""
    parts = (X.data, X.indices, X.indptr, X.shape) if hasattr(X, "indptr") else (np.asarray(X),)
    return {"X": digest(*parts)} | ({} if y is None else {"y": digest(np.asarray(y))})


def _array(content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    found: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    if file.read(1):
        raise ValueError("an array is followed by something else")
    return found


def _model(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    from reshuffle import estimators

    kinds = ("RRClassifier", "RRRegressor", "RRClassifierCV", "RRRegressorCV")
    if about["estimator"] not in kinds:
        raise ValueError(f"it has an unknown estimator, {shown(about['estimator'])}")
    model = getattr(estimators, about["estimator"])()
    model.set_params(**{k: restored(v) for k, v in about["parameters"].items()})
    model.coef_ = arrays["coef"]
    model.intercept_ = np.float64(arrays["intercept"]) if arrays["scalar"] else arrays["intercept"]
    model.n_features_in_ = int(about["features"])
    if model.coef_.shape[-1] != model.n_features_in_ or model.coef_.dtype != np.float64:
        raise ValueError("its coefficients do not fit its features")
    if "classes" in arrays:
        kind = object if about["objects"] else arrays["classes"].dtype
        model.classes_ = arrays["classes"].astype(kind)
    if "names" in arrays:
        model.feature_names_in_ = arrays["names"].astype(object)
    model.loss_ = _loss(about["loss"])
    if isinstance(model.loss, Described):
        model.loss = model.loss_
    model.penalty_ = Described(str(about["penalty"]))
    model.converged_, model.message_ = bool(about["converged"]), str(about["message"])
    model.certificate_ = Certificate(**about["certificate"])
    for name, value in about["numbers"].items():
        if name in NUMBERS:
            setattr(model, name, int(value) if name.startswith("n_") else float(value))
    return model


def _loss(about: dict[str, Any]) -> Loss | Described:
    """A loss of the package by its name; one of a user's own can only be described."""
    known = {kind.__name__: kind for kind in (*losses.LOSSES, SquaredOutputs)}
    name, parameters = about["name"], [float(value) for value in about["parameters"]]
    return known[name](*parameters) if name in known else Described(f"{name}({parameters})")


def _text_or_numbers(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind in "iufbSU":
        return values
    kinds = {type(value) for value in values.tolist()}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(values.tolist())
    raise InputError(f"{name} must be numbers or text to be kept in a file, got {shown(values)}")
