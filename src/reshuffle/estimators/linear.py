"""A fitted linear model: margins, and coefficients in the shape that scikit-learn gives them."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from reshuffle.arrays import AnyArray, Array
from reshuffle.datasets.rows_encoding import Encoding
from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.array_api import is_on_card, product
from reshuffle.estimators.outcome import Fitted
from reshuffle.estimators.summary import dense, summary_of
from reshuffle.inference import Inference
from reshuffle.losses import Loss

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class Linear(Fitted):
    """The attributes of a fitted linear model, and predictions from them."""

    solver: object
    random_state: object
    fit_intercept: bool
    intercept_: Any
    classes_: AnyArray
    n_samples_fit_: int
    data_: inputs.Prepared | None
    """The data of the fit, for ``inference``; neither pickled nor saved."""
    log_target_: bool
    """True if the command fitted the logarithm of the target."""
    loss_: Loss
    validation_losses_: Array
    encoding_: Encoding
    """How features come from the columns of a file, if the command made the model; kept in a model file.

    ``predict`` then takes tables of raw rows. ``encoding_.transform(table)`` gives the features,
    ``encoding_.get_feature_names_out()`` their names.
    """
    shifted_by_: tuple[str, ...]
    """"offset" and "exposure", if the command fitted the model with them; kept in a model file."""

    _origin: float = 0.0
    """A part of the intercept that problems have as an offset."""

    prepared: Callable[..., inputs.Prepared]
    """The data for a problem, from X, y, sample_weight, offset and exposure: a classifier and a regression have their own."""
    predict: Callable[..., AnyArray]
    """A prediction for each row: a classifier and a regression have their own."""

    def _margins(self, X: object, offset: object, exposure: object = None) -> Array:
        """Xw + b plus the offsets; one column per row of ``coef_`` if that is a matrix."""
        check_is_fitted(self)
        rows, margins = inputs.design(self, X, reset=False), np.empty(0)
        if is_on_card(rows):
            margins = product(rows, dense(self.coef_).T) + self.intercept_
            if not np.isfinite(margins).all():
                raise InputError("X must be finite, got NaN, infinity or numbers that overflow")
        else:
            margins = np.asarray(dense(rows @ self.coef_.T + self.intercept_))
        known = inputs.offsets_of(offset, exposure, rows.shape[0], self.loss_)
        return margins if known is None else margins + known.reshape(-1, *[1] * (margins.ndim - 1))

    def attributes_of(self, x: Array) -> dict[str, Any]:
        """``coef_`` and ``intercept_`` of a solution; if there is an intercept, it is the last row of x."""
        d = self.n_features_in_
        coef = np.ascontiguousarray(x[:d].T) + 0.0  # Adding 0 turns -0 into 0.
        last = x[d] + self._origin if self.fit_intercept else np.zeros(x.shape[1:])[()]
        return {"coef_": coef, "intercept_": last}

    def set_solution(self, x: Array) -> None:
        """Set ``coef_`` and ``intercept_``."""
        self.__dict__.update(self.attributes_of(x))

    def solution(self) -> Array:
        """The point x that ``coef_`` and ``intercept_`` come from."""
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
        """Turn ``coef_`` back into an array, after ``sparsify``."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    def summary(self, largest: int = 10, names: object = None) -> str:
        """A short summary of the fit and its certificate, with the largest coefficients by name.

        ``names`` are the features' names, if the model does not know them, or a fitted transformer that does:
        for a Pipeline, ``pipeline[-1].summary(names=pipeline[:-1])``, or ``reshuffle.estimators.summary(pipeline)``.
        """
        check_is_fitted(self)
        return summary_of(self, largest, names)

    def inference(
        self, *, covariance: str | None = None, method: str | None = None, level: float = 0.95
    ) -> Inference:
        """Standard errors, z, p and intervals of the coefficients; if they would not be valid, an error says why.

        Parameters
        ----------
        covariance : "model" (the inverse information, for a loss that stands for a distribution and no penalty) or "robust" (the
            sandwich, HC0, which assumes only independent rows). By default "model" if it is valid.
        method : for a fit with an ℓ1 penalty: "split" (half of the rows choose features, the other half gives intervals) or
            "debiased" (the debiased lasso).
        level : of the intervals.

        With a ridge the intervals are about the coefficients that it would give for the whole population. The data of the
        fit are needed, and a model keeps a reference to them until it is pickled.
        """
        from reshuffle.estimators.inferring import inference_of

        check_is_fitted(self)
        return inference_of(self, covariance, method, level)

    def to_sklearn(self) -> BaseEstimator:
        """A fitted model of scikit-learn with the same predictions, for ONNX converters, skops and the like."""
        from reshuffle.estimators.export import to_sklearn

        check_is_fitted(self)
        return to_sklearn(self)

    def save(self, path: str | os.PathLike[str], X: object = None, y: object = None) -> None:
        """Write the model to a file, without pickle; ``reshuffle.estimators.load`` reads it. The file is complete or absent.

        With the data X and y the file also holds a digest by which they can be recognised.
        """
        from reshuffle.estimators.model_file import save

        check_is_fitted(self)
        save(self, path, X, y)


def for_encoded_rows(model: object) -> Any:
    """A copy of a model that takes encoded rows in place of tables."""
    bare = copy(model)
    inputs.forget(bare, "feature_names_in_", "encoding_")
    return bare
