"""Models in files: arrays and JSON, no pickle. A file holds the model and its certificate, not the run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from reshuffle import losses
from reshuffle.arrays import AnyArray
from reshuffle.datasets.rows_encoding import encoding_of
from reshuffle.digests import digest
from reshuffle.errors import InputError, shown
from reshuffle.estimators.outcome import Certificate
from reshuffle.estimators.summary import dense
from reshuffle.files import Location
from reshuffle.losses import Loss
from reshuffle.losses.squared import SquaredOutputs
from reshuffle.npz_archive import read_archive, write_archive
from reshuffle.privacy import Guarantee
from reshuffle.shards import Shards

KIND, VERSION = "model file", 2
DESCRIBED, PAIRS = "described", "pairs"
NUMBERS = ("lambda_", "lambda_min_", "lambda_1se_", "objective_", "n_iter_", "n_samples_fit_")
"""Fitted attributes that are single numbers; a file holds those that the model has."""


class Described:
    """An object that a file only describes: it can be inspected, but not used to fit again."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def save(model: Any, path: Location, X: object = None, y: object = None) -> None:
    """Write a fitted model; with X and y, also a digest by which the data can be recognised."""
    from reshuffle import __version__

    if hasattr(model.loss_, "mean"):
        raise InputError(
            f"loss {model.loss_!r} has its own mean(z), which is code and cannot be kept in a file"
        )
    arrays = {
        "coef": dense(model.coef_),
        "intercept": np.asarray(model.intercept_),
        "scalar": np.array(np.ndim(model.intercept_) == 0),
    }
    for name, attribute in (("classes", "classes_"), ("names", "feature_names_in_")):
        if hasattr(model, attribute):
            arrays[name] = _text_or_numbers(attribute, getattr(model, attribute))
    if hasattr(model, "encoding_"):
        arrays["encoding"] = np.array(json.dumps(model.encoding_.to_json()))
    about = {
        "package": __version__,
        "estimator": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in model.get_params(deep=False).items()},
        "loss": {"name": type(model.loss_).__name__, "parameters": list(model.loss_.params)},
        "penalty": repr(model.penalty_),
        "features": model.n_features_in_,
        "numbers": {n: float(getattr(model, n)) for n in NUMBERS if hasattr(model, n)},
        "converged": bool(model.converged_),
        "message": model.message_,
        "certificate": asdict(model.certificate_),
        "objects": [n for n in ("classes_",) if getattr(model, n, np.empty(0)).dtype == object],
        "log_target": bool(getattr(model, "log_target_", False)),
        "shifted_by": list(getattr(model, "shifted_by_", ())),
        "data": None if X is None else fingerprint(X, y),
    }
    private = getattr(model, "privacy_", None)
    if private is not None:  # A digest would tell who is in the data.
        about |= {"privacy": asdict(private), "data": None}
    write_archive(path, KIND, VERSION, about, arrays)


def load(path: Location) -> Any:
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
    with read_archive(path, KIND, VERSION) as stored:
        return _model(stored.about, stored.arrays())


def fingerprint(X: Any, y: object) -> dict[str, str]:
    """Digests of data: equal for equal numbers in equal layout."""
    if isinstance(X, Shards):
        parts: tuple[object, ...] = X.identity
    else:
        parts = (X.data, X.indices, X.indptr, X.shape) if hasattr(X, "indptr") else (np.asarray(X),)
    return {"X": digest(*parts)} | ({} if y is None else {"y": digest(np.asarray(y))})


def _model(about: dict[str, Any], arrays: dict[str, AnyArray]) -> Any:
    from reshuffle import estimators

    kinds = ("RRClassifier", "RRRegressor", "RRClassifierCV", "RRRegressorCV")
    if about["estimator"] not in kinds:
        raise ValueError(f"it has an unknown estimator, {shown(about['estimator'])}")
    model = getattr(estimators, about["estimator"])()
    model.set_params(**{k: _restored(v) for k, v in about["parameters"].items()})
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
    if "encoding" in arrays:
        model.encoding_ = encoding_of(json.loads(str(arrays["encoding"])))
        if len(model.encoding_.feature_names) != model.n_features_in_:
            raise ValueError("its columns do not fit its features")
    if about.get("log_target"):
        model.log_target_ = True
    if about.get("shifted_by"):
        model.shifted_by_ = tuple(str(name) for name in about["shifted_by"])
    model.loss_ = _loss(about["loss"])
    if isinstance(model.loss, Described):
        model.loss = model.loss_
    model.penalty_ = Described(str(about["penalty"]))
    model.converged_, model.message_ = bool(about["converged"]), str(about["message"])
    model.certificate_ = Certificate(**about["certificate"])
    spent = about.get("privacy")
    model.privacy_ = None if spent is None else Guarantee.from_record(spent)
    for name, value in about["numbers"].items():
        if name in NUMBERS:
            setattr(model, name, int(value) if name.startswith("n_") else float(value))
    return model


def _loss(about: dict[str, Any]) -> Loss | Described:
    """A loss of this package, by its name; a user's own loss can only be described."""
    known = {kind.__name__: kind for kind in (*losses.LOSSES, SquaredOutputs)}
    name, parameters = about["name"], [float(value) for value in about["parameters"]]
    return known[name](*parameters) if name in known else Described(f"{name}({parameters})")


def _text_or_numbers(name: str, values: AnyArray) -> AnyArray:
    if values.dtype.kind in "iufbSU":
        return values
    kinds = {type(value) for value in values.tolist()}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(values.tolist())
    raise InputError(f"{name} must be numbers or text to be kept in a file, got {shown(values)}")


def _plain(value: object) -> object:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return value.tolist()
    if isinstance(value, (list, tuple)) and all(_simple(entry) for entry in value):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict) and all(map(_simple, [*value, *value.values()])):
        return {PAIRS: [[_plain(key), _plain(entry)] for key, entry in value.items()]}
    return {DESCRIBED: repr(value)}


def _restored(value: object) -> object:
    """The value that was given to ``_plain``, or its description."""
    if isinstance(value, dict):
        if PAIRS in value:
            return dict(value[PAIRS])
        return Described(str(value[DESCRIBED]))
    return value


def _simple(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))
