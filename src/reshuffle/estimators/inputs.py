"""The inputs of an estimator, turned into the data of a problem: tables, labels, weights."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from reshuffle.arrays import AnyArray, Array, DataMatrix
from reshuffle.datasets.chunks import listed
from reshuffle.datasets.frames import is_table
from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import InputError, shown, warn_user
from reshuffle.estimators.array_api import check_card, here, is_foreign, is_on_card
from reshuffle.labels import classes_of
from reshuffle.losses import Loss
from reshuffle.losses.offsets import check_offsets
from reshuffle.penalties import Penalty
from reshuffle.problem import Problem
from reshuffle.shards import Shards
from reshuffle.validation import check_finite

if TYPE_CHECKING:
    from reshuffle.gpu import Device

KINDS = (np.float64, np.float32)


class Prepared(NamedTuple):
    """The data in the form that a problem takes."""

    X: DataMatrix
    y: AnyArray
    loss: Loss
    weights: AnyArray | None
    outputs: tuple[int, ...]
    """The shape of one margin."""
    codes: AnyArray | None
    """For each row the number of its class; None for a regression."""
    fit_intercept: bool
    offsets: AnyArray | None = None
    """Known parts of the margins, with the logarithms of exposures."""
    origin: float = 0.0
    """A fixed part of the intercept: it is added to all margins, and to the fitted intercept."""

    def problem(self, penalty: Penalty) -> Problem:
        """The mean loss of these rows plus ψ."""
        return Problem(
            self.X, self.y, self.loss, penalty, 0.0, self.weights,
            fit_intercept=self.fit_intercept, offset=self._known,
        )  # fmt: skip

    def on_card(self, penalty: Penalty, device: Device | str | None) -> DeviceProblem:
        """``problem`` for rows that lie on a graphics card and stay there."""
        return DeviceProblem(
            self.X, np.asarray(self.y, np.float64), self.loss, penalty, 0.0, self.weights,
            self.fit_intercept, self._known, device=None if isinstance(device, str) else device,
        )  # fmt: skip

    @property
    def _known(self) -> AnyArray | None:
        if not self.origin:
            return self.offsets
        return self.origin + (np.zeros(len(self.y)) if self.offsets is None else self.offsets)

    def take(self, rows: AnyArray) -> Prepared:
        each = ((name, getattr(self, name)) for name in ("X", "y", "weights", "codes", "offsets"))
        return self._replace(**{name: value[rows] for name, value in each if value is not None})

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[1], *self.outputs)


def offsets_of(offset: object, exposure: object, n: int, loss: Loss) -> Array | None:
    """offset + log(exposure), one number per row; None if neither is given."""
    found = check_offsets(plain(offset), plain(exposure), n, loss)
    return found if found.size else None


def origin_of(loss: Loss, y: AnyArray, weights: Array | None, offsets: Array | None) -> float:
    """log(mean) - 1 for losses with a log link: near the best constant, whatever the unit of the target.

    Few Newton steps are needed from there. Accuracies are relative to f(0), which is then the loss of a model that is off by a
    factor of e: in any unit of the target it has the size of the final losses.
    """
    if not loss.log_link or np.ndim(y) != 1 or (weights is not None and len(weights) != len(y)):
        return 0.0
    offsets = np.zeros(len(y)) if offsets is None else offsets
    weights = np.ones(len(y)) if weights is None else weights
    far = float(np.max(offsets))
    total, of = float(np.dot(weights, y)), float(np.dot(weights, np.exp(offsets - far)))
    if not (0 < total < np.inf and 0 < of < np.inf):
        return 0.0
    return float(np.log(total) - np.log(of) - far - 1.0)


def plain(column: object) -> Any:
    """A column of a table, or an array of another library, as an array."""
    column = here(column)
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def design(estimator: Any, X: Any, *, reset: bool) -> DataMatrix:
    """X as an array in C order or as CSR; the names and the number of its columns are recorded, or compared.

    A model made by the command knows how its features come from the columns of a table, and takes tables of raw
    rows. An array that has this form already is used directly: scikit-learn's own check would take longer than the solver.
    """
    if reset:  # These attributes belong to the data of an earlier fit.
        forget(estimator, "encoding_", "log_target_", "shifted_by_")
    check_card("X", X)
    if is_on_card(X):
        return _on_card(estimator, X, reset)
    X = here(X)
    if not reset and hasattr(getattr(estimator, "encoding_", None), "transform"):
        return estimator.encoding_.transform(X) if is_table(X) else _encoded(estimator, X)
    if isinstance(X, Shards):
        _count(estimator, X, reset)
        return X
    if _plain(X) and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if X.shape[1] == estimator.n_features_in_:
            if not reset:  # Otherwise the problem checks it.
                check_finite("X", X)
            plain: DataMatrix = X
            return plain
    _refuse_masks("X", X)
    _refuse_columns(X)
    try:
        checked: DataMatrix = validate_data(
            estimator, X, reset=reset, accept_sparse="csr", dtype=list(KINDS), order="C"
        )
        return _in_order(checked) if sp.issparse(checked) else checked
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise InputError(
            f"X must hold numbers, got text in {_texts(X)}; turn it into numbers first, with "
            "sklearn.preprocessing.OneHotEncoder for instance"
        ) from None


def forget(model: object, *names: str) -> None:
    """Delete these attributes of a model, where it has them."""
    for name in names:
        if name in vars(model):
            delattr(model, name)


def _count(estimator: Any, X: Any, reset: bool) -> None:
    """Record the number of columns, which have no names, or compare it."""
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
        forget(estimator, "feature_names_in_")
    if X.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but the model has {estimator.n_features_in_}"
        )


def _on_card(estimator: Any, X: Any, reset: bool) -> DataMatrix:
    """Rows that stay on a graphics card; their numbers are checked there."""
    if reset and not getattr(estimator, "fits_on_card", False):
        raise InputError(
            f"{type(estimator).__name__} takes rows in the processor's memory, and X lies on a graphics card: copy it"
        )
    if len(X.shape) != 2:
        raise InputError(f"X must have two dimensions, got shape {tuple(X.shape)}")
    _count(estimator, X, reset)
    found: DataMatrix = X if is_foreign(X) else X.tocsr()  # a sparse matrix of CuPy of any format
    return found


def _encoded(estimator: Any, X: Any) -> DataMatrix:
    """An array given to a model that reads tables: it is taken as encoded features, with a warning."""
    names, count = estimator.encoding_.names, estimator.n_features_in_
    raw = f"raw rows are a table with the columns {listed(names)} (a data frame, a dict of columns, or a list of dicts)"
    shape, kind = np.shape(X), getattr(X, "dtype", np.asarray(X).dtype)
    if kind.kind not in "fiub" or len(shape) != 2 or shape[1] != count:
        raise InputError(
            f"X must be a table, or {count} encoded features in each row, got an array of shape {shape}, dtype {kind}; {raw}"
        )
    warn_user(
        f"X is an array without feature names, and is taken for the {count} features of the model, encoded already; {raw}",
        UserWarning,
    )
    checked: DataMatrix = check_array(
        X, accept_sparse="csr", dtype=list(KINDS), order="C", input_name="X"
    )
    return checked


def _in_order(X: Any) -> DataMatrix:
    """Sparse rows with sorted, unique indices; a copy if those of X are not, as in bags of words."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    found: DataMatrix = X
    return found


def _columns(X: Any) -> list[tuple[str, object]]:
    """The names and dtypes of the columns of a table; empty for other data."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return []
    return [(repr(name), dtype) for name, dtype in zip(X.columns, X.dtypes, strict=True)]


def _texts(X: object) -> str:
    found = [name for name, dtype in _columns(X) if not _holds(dtype, "is_numeric", "iufb")]
    if not found:
        return "some of its columns"
    return f"the columns {', '.join(found[:5])}{' and others' if len(found) > 5 else ''}"


def _holds(dtype: object, asked: str, letters: str) -> bool:
    """Whether a column of this dtype holds such values: polars is asked by a method, pandas by the kind of the dtype."""
    own = getattr(dtype, asked, None)
    return bool(own()) if callable(own) else getattr(dtype, "kind", "O") in letters


def _example(y: object) -> str:
    """The first entry that is not a number."""
    for value in np.ravel(np.asarray(y, dtype=object)):
        try:
            float(value)
        except (TypeError, ValueError):
            return shown(value)
    return shown(y)


def _refuse_columns(X: object) -> None:
    """Refuse lazy tables, columns with the same name, and dates, whose meaning as numbers is unclear."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise InputError(f"X must be a table in memory, got a {type(X).__name__}: collect it")
    columns = _columns(X)
    counts = Counter(name for name, _ in columns)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f"X must have columns of different names, got {twice[0]} twice or more")
    if dates := [name for name, dtype in columns if _holds(dtype, "is_temporal", "mM")]:
        raise InputError(
            f"X must hold numbers, got dates or times in the column {dates[0]}: "
            "say in which unit, as numbers"
        )


def _refuse_masks(name: str, given: object) -> None:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{name} has masked values: fill them in or leave these rows out")


def _plain(X: Any) -> bool:
    usual = type(X) is np.ndarray and X.ndim == 2 and X.dtype in KINDS
    return usual and X.flags.c_contiguous and min(X.shape) > 0


def numbers(estimator: object, y: Any) -> NDArray[np.float64]:
    """Targets of a regression."""
    y = here(y)
    if not (type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1):
        _require(estimator, y)
        if np.asarray(y).dtype.kind in "mM":
            raise InputError(
                "y must hold numbers, got dates or times: say in which unit, as numbers"
            )
        try:
            y = check_array(
                y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=estimator, order="C"
            )
        except (ValueError, TypeError) as error:
            if not any(said in str(error) for said in ("could not convert", "float() argument")):
                raise
            raise InputError(
                f"y must hold numbers, got {_example(y)}; give the numbers as numbers, or fit labels with "
                "a classifier (RRClassifier, RRClassifierCV)"
            ) from None
        y = column_or_1d(y, warn=True) if y.ndim != 2 or y.shape[1] == 1 else y
    if not np.isfinite(y).all():  # in scikit-learn's words
        check_array(y, ensure_2d=False, input_name="y", estimator=estimator)
    return np.asarray(y)


def labels(estimator: object, y: Any) -> tuple[AnyArray, NDArray[np.int64]]:
    """The sorted classes of any labels, and for each row the number of its class."""
    y = here(y)
    if not (type(y) is np.ndarray and y.ndim == 1):
        _require(estimator, y)
        y = column_or_1d(_array_of(y), warn=True)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():  # in scikit-learn's words
            check_array(y, ensure_2d=False, input_name="y", estimator=estimator)
        if np.any(y != np.rint(y)):
            check_classification_targets(y)
    elif y.dtype.kind not in "iubSUOT":
        check_classification_targets(y)
    try:
        classes, codes = classes_of(y)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise InputError(
            f"y must hold labels of one type and none missing, got {', '.join(kinds)}"
        ) from None
    if classes.dtype == object and any(label != label for label in classes):
        raise InputError("y must hold labels and none missing, got NaN")
    return classes, codes


def _array_of(y: object) -> AnyArray:
    """Labels as an array; numbers beside texts are not turned into text."""
    found = np.asarray(y)
    if found.dtype.kind in "SU" and isinstance(y, (list, tuple)):
        kinds = {type(label) for label in y}
        if not all(issubclass(kind, (str, bytes)) for kind in kinds):
            return np.asarray(y, dtype=object)
    return found


def known_labels(
    estimator: object, y: object, classes: AnyArray
) -> tuple[AnyArray, NDArray[np.int64]]:
    """These classes, and for each row the number of its class among them."""
    here, codes = labels(estimator, y)
    places = np.searchsorted(classes, here)
    places[places == classes.size] = 0
    strange = here[classes[places] != here]
    if strange.size:
        raise InputError(
            f"y must hold the classes given at first, {classes.tolist()}, got {strange.tolist()}"
        )
    return classes, places[codes]


def check_length(X: DataMatrix, y: AnyArray) -> None:
    """One target per row."""
    if y.shape[0] != X.shape[0]:
        raise InputError(
            f"y must have one entry per row of X: X has {X.shape[0]} rows, y has {y.shape[0]}"
        )


def weights_of(sample_weight: object, n: int) -> AnyArray | None:
    """Sample weights as an array; a single number is the weight of every row."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, (int, float, np.number)):
        return np.full(n, float(sample_weight))
    given = np.asarray(here(sample_weight))
    if given.shape != (n,):
        raise InputError(
            f"sample_weight must be {n} numbers, one per row of X, got shape {given.shape}"
        )
    return given


def _require(estimator: object, y: object) -> None:
    """Check that targets are given, and none of them masked."""
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    _refuse_masks("y", y)


def check_choice(name: str, given: object, known: tuple[str | None, ...]) -> None:
    """Check that a parameter is one of these words, or None if that is among them."""
    if given not in known:
        words = ", ".join(repr(word) for word in known if word is not None)
        none = "None or " if None in known else ""
        raise InputError(f"{name} must be {none}one of {words}, got {shown(given)}")


def check_level(name: str, value: object) -> None:
    """True or False, or scikit-learn's levels 0, 1, …"""
    if not (isinstance(value, (bool, np.bool_, int, np.integer)) and value >= 0):
        raise InputError(f"{name} must be True, False or an integer from 0 on, got {shown(value)}")


def check_flags(estimator: object, *names: str) -> None:
    """Check that these parameters are True or False; the text "no", for instance, would count as True."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, got {shown(value)}")
