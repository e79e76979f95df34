"""A fitted linear model: margins, and coefficients in the shape that scikit-learn gives them."""

from __future__ import annotations

import os
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from reshuffle.datasets.rows_encoding import Encoding
from reshuffle.estimators import inputs
from reshuffle.estimators.outcome import Certificate
from reshuffle.estimators.summary import dense, summary_of
from reshuffle.losses import Loss
from reshuffle.penalties import Penalty
from reshuffle.trace import Trace

Array = NDArray[np.float64]


class Linear:
    """The attributes of a fitted linear model, and predictions from them."""

    fit_intercept: bool
    coef_: Any
    intercept_: Any
    classes_: NDArray[Any]
    n_features_in_: int
    n_iter_: int
    n_samples_fit_: int
    converged_: bool
    message_: str
    objective_: float
    certificate_: Certificate
    trace_: Trace
    loss_: Loss
    penalty_: Penalty
    validation_losses_: Array
    encoding_: Encoding
    """How features come from the columns of a file, where a command made the model; kept in a model file.

    ``predict`` then takes tables of raw rows. ``encoding_.transform(table)`` gives the features,
    ``encoding_.get_feature_names_out()`` their names.
    """
    shifted_by_: tuple[str, ...]
    """"offset" and "exposure", where a command fitted the model with them; kept in a model file."""

    _origin: float = 0.0
    """A part of the intercept that problems have as an offset."""

    def prepared(
        self, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
    ) -> inputs.Prepared:
        raise NotImplementedError  # a classifier and a regression have their own

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _margins(self, X: Any, offset: Any = None, exposure: Any = None) -> Array:
        """Xw + b and the offsets, one column per row of ``coef_`` where that is a matrix."""
        check_is_fitted(self)
        X = inputs.design(self, X, reset=False)
        margins = np.asarray(dense(X @ self.coef_.T + self.intercept_))
        known = inputs.offsets_of(offset, exposure, X.shape[0], self.loss_)
        return margins if known is None else margins + known.reshape(-1, *[1] * (margins.ndim - 1))

    def attributes_of(self, x: Array) -> dict[str, Any]:
        """``coef_`` and ``intercept_`` of a solution, whose last row is the intercept where there is one."""
        d = self.n_features_in_
        coef = np.ascontiguousarray(x[:d].T) + 0.0  # no minus in front of a zero
        if self.fit_intercept:
            last = x[d] if x.ndim > 1 else np.float64(x[d] + self._origin)
            return {"coef_": coef, "intercept_": last}
        return {
            "coef_": coef,
            "intercept_": np.zeros(x.shape[1]) if x.ndim > 1 else np.float64(0.0),
        }

    def _solution(self) -> Array:
        """x of ``coef_`` and ``intercept_``."""
        coef = dense(self.coef_)
        if not self.fit_intercept:
            return np.array(coef.T, dtype=np.float64, order="C")
        last = np.reshape(self.intercept_, (1, *coef.shape[:-1])) - self._origin
        return np.ascontiguousarray(np.concatenate([coef.T, last]))

    def sparsify(self) -> Self:
        """Keep ``coef_`` as a sparse matrix from now on."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Keep ``coef_`` as an array again."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    def summary(self, largest: int = 10, names: Any = None) -> str:
        """A summary of the fit and its certificate in some lines, with the largest coefficients by name.

        ``names`` are those of the features, where the model does not know them, or a fitted transformer that does:
        of a Pipeline, ``pipeline[-1].summary(names=pipeline[:-1])``, or ``reshuffle.estimators.summary(pipeline)``.
        """
        check_is_fitted(self)
        return summary_of(self, largest, names)

    def to_sklearn(self) -> Any:
        """A fitted model of scikit-learn with the same predictions, for ONNX converters, skops and the like."""
        from reshuffle.estimators.export import to_sklearn

        check_is_fitted(self)
        return to_sklearn(self)

    def save(self, path: str | os.PathLike[str], X: Any = None, y: Any = None) -> None:
        """Write the model to a file without pickle, whole or not at all; ``reshuffle.estimators.load`` reads it.

        With the data X and y the file also holds a digest by which they can be recognised.
        """
        from reshuffle.estimators.model_file import save

        check_is_fitted(self)
        save(self, path, X, y)


def for_encoded_rows(model: Any) -> Any:
    """A copy of a model that takes rows which are encoded already, in place of tables."""
    bare = copy(model)
    for of_table in ("feature_names_in_", "encoding_"):
        if of_table in vars(bare):
            delattr(bare, of_table)
    return bare
