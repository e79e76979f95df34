from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.base import Array, LinearEstimator
from reshuffle.estimators.hooks import with_callbacks
from reshuffle.estimators.loss_names import (
    has_probabilities,
    loss_of_classes,
    mean_of,
    takes_more_classes,
)
from reshuffle.estimators.weights import weigh


def _probabilities(model: RRClassifier) -> bool:
    return has_probabilities(model.loss)


@dataclass(eq=False, repr=False, kw_only=True)
class RRClassifier(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """P(w, b) = (1/Σs) Σ_i s_i·l(a_iᵀw + b, y_i) + ψ(w): a linear classifier, at its minimiser.

    Two classes give one vector w; more give a matrix with one row per class and the multinomial loss. With
    ``penalty="elasticnet"``, ψ(w) = l1·‖w‖₁ + (l2/2)‖w‖². The loss is a weighted *mean*: scikit-learn's ``C``
    and ``alpha`` become ``l1`` and ``l2`` by the functions ``strengths_from_C`` and ``strengths_from_alpha`` of
    ``reshuffle.estimators``.

    Parameters
    ----------
    loss : "logistic" (multinomial for more than two classes), "squared_hinge" (two classes), or a loss of
        ``reshuffle.losses`` or your own.
    penalty : "l1", "l2", "elasticnet", "none" or None, or any object with ``value(x)`` and ``prox(x, step)``,
        such as the penalties of ``reshuffle.penalties``. Parameters of an object are set as ``penalty__l1``.
    l1, l2 : strengths of a penalty that is given by name; 1e-4 where it has one that is not given.
    penalty_factors : one number per feature, by which its strengths are multiplied; 0 leaves it unpenalised.
    positive : whether coefficients must not be negative (for a penalty that is given by name).
    fit_intercept : whether there is a b, which is not penalised.
    solver : "exact" (``ExactProxRR``), "proxrr", "proxsgd" or "fista", or a solver, which keeps its own tol,
        epochs and seed.
    tol : the relative accuracy of P at which to stop, certified where that is possible. An accuracy of 1e-12
        in P is one of about 1e-6 in the coefficients; where the run ends with Newton steps, as it does on all
        but wide data, it takes hardly longer than 1e-6 would.
    max_iter : the most epochs.
    random_state : an integer, so that the same data give the same model; a RandomState or Generator; or None
        for a fresh one.
    warm_start : begin at the last model, where it has the same shape and classes.
    early_stopping : hold out ``validation_fraction`` of the rows, stop when their mean loss has not fallen for
        ``n_iter_no_change`` epochs, and keep the model at which it was lowest.
    callbacks : a function of a ``Result``, or a list of such, called after each epoch; True stops the run.
    verbose : whether to show a progress bar.
    class_weight : None, "balanced", or a dict from class to weight; it multiplies sample weights.

    Attributes
    ----------
    coef_ : of shape (1, features) for two classes, (classes, features) for more.
    intercept_ : one number per row of ``coef_``; for more than two classes they sum to zero.
    classes_, n_features_in_, feature_names_in_ : the labels; the columns and, where X had them, their names.
    n_iter_, converged_, message_ : the epochs made, whether ``tol`` was reached, and why the run ended.
    certificate_, objective_, trace_ : what is proved about P, its value, and the run, epoch by epoch.
    loss_, penalty_ : the objects that were used.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> model = rs.RRClassifier(penalty="elasticnet", l1=0.01, l2=0.01).fit(X, y)
    >>> model.converged_, int((model.coef_ != 0).sum()), round(model.score(X, y), 2)
    (True, 18, 0.98)
    """

    loss: Any = "logistic"
    class_weight: Any = None

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the minimiser for these rows and labels of any kind."""
        X = inputs.design(self, X, reset=True)
        classes, codes = inputs.labels(self, y)
        weights = inputs.weights_of(sample_weight, X.shape[0])
        inputs.check_length(X, codes)
        weights = weigh(weights, self.class_weight, classes, codes)
        X, classes, codes, weights = _without_empty_classes(X, classes, codes, weights)
        if classes.size < 2:
            raise InputError(f"y must hold two classes or more, got one class: {classes.tolist()}")
        loss = loss_of_classes(self.loss, classes.size)
        if not np.array_equal(getattr(self, "classes_", classes), classes):
            del self.coef_  # of another problem: nothing to start from
        self.classes_ = classes
        y, outputs = targets_of(codes, classes.size)
        return self._learn(X, y, loss, weights, outputs, codes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One shuffled pass over these rows and a prox (an epoch of ProxRR), from the model so far.

        The first call names all ``classes``. Steps shrink over the calls as ``Stream`` says.
        """
        first = not hasattr(self, "coef_")
        X = inputs.design(self, X, reset=first)
        if first and classes is None:
            raise InputError("classes must be given in the first call of partial_fit, got None")
        named = self.classes_ if classes is None else inputs.labels(self, classes)[0]
        if named.size < 2:
            raise InputError(f"classes must be two or more, got {named.tolist()}")
        if not first and not np.array_equal(named, self.classes_):
            raise InputError(
                f"classes must stay {self.classes_.tolist()}, got {named.tolist()}: "
                "use a fresh estimator for others"
            )
        self.classes_ = named
        codes = inputs.known_labels(self, y, named)
        inputs.check_length(X, codes)
        given = inputs.weights_of(sample_weight, X.shape[0])
        if self.class_weight == "balanced":
            raise InputError(
                'class_weight="balanced" needs all rows at once: give partial_fit a dict of weights'
            )
        weights = weigh(given, self.class_weight, named, codes)
        y, outputs = targets_of(codes, named.size)
        return self._advance(X, y, loss_of_classes(self.loss, named.size), weights, outputs)

    def _attributes(self, x: Array) -> dict[str, Any]:
        """As rows of a matrix; what is added to all intercepts changes no prediction, so they sum to zero."""
        found = super()._attributes(x)
        if x.ndim == 1:
            found = {name: np.atleast_1d(value) for name, value in found.items()}
            return found | {"coef_": found["coef_"].reshape(1, -1)}
        return found | {"intercept_": found["intercept_"] - found["intercept_"].mean()}

    def _solution(self) -> Array:
        x = super()._solution()
        return x if self.classes_.size > 2 else np.ascontiguousarray(x[:, 0])

    def decision_function(self, X: Any) -> Array:
        """The margins aᵀw + b: one per row for two classes, one per row and class for more."""
        margins = self._margins(X)
        return margins if margins.shape[1] > 1 else margins.ravel()

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest margin."""
        margins = self._margins(X)
        codes = (
            margins.argmax(axis=1) if margins.shape[1] > 1 else np.ravel(margins > 0).astype(int)
        )
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of ``classes_``."""
        margins, mean = self._margins(X), mean_of(self.loss_)
        if mean is None:
            raise InputError(f"{self.loss_!r} has no probabilities")
        if margins.shape[1] > 1:
            return mean(margins)
        return np.column_stack([mean(-margins.ravel()), mean(margins.ravel())])

    @available_if(_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of the probabilities."""
        with np.errstate(divide="ignore"):  # log 0 = -inf
            logarithms: Array = np.log(self.predict_proba(X))
        return logarithms

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = takes_more_classes(self.loss)
        return tags


def targets_of(codes: NDArray[Any], count: int) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Targets as a loss wants them, and the shape of one margin."""
    return (2.0 * codes - 1.0, ()) if count == 2 else (codes, (count,))


def _without_empty_classes(X: Any, classes: Any, codes: Any, weights: Any) -> tuple[Any, ...]:
    """A row of weight zero is as good as none; where a class has no other, it is not there."""
    if weights is None or weights.min() > 0:
        return X, classes, codes, weights
    if np.bincount(codes, weights, minlength=classes.size).min() > 0:
        return X, classes, codes, weights
    kept = weights > 0
    there, codes = np.unique(codes[kept], return_inverse=True)
    return X[kept], classes[there], codes, weights[kept]
