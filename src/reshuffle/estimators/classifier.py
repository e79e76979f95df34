from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from reshuffle.errors import InputError
from reshuffle.estimators import inputs
from reshuffle.estimators.base import LinearEstimator
from reshuffle.estimators.classes import LinearClassifier


@dataclass(eq=False, repr=False, kw_only=True)
class RRClassifier(LinearClassifier, LinearEstimator):
    """P(w, b) = (1/Σs) Σ_i s_i·l(a_iᵀw + b, y_i) + ψ(w): a linear classifier, at its minimiser.

    Two classes give one vector w; more give a matrix with one row per class and the multinomial loss. With
    ``penalty="elasticnet"``, ψ(w) = l1·‖w‖₁ + (l2/2)‖w‖². The loss is a weighted *mean*: scikit-learn's ``C``
    and ``alpha`` become ``l1`` and ``l2`` by the functions ``strengths_from_C`` and ``strengths_from_alpha`` of
    ``reshuffle.estimators``.

    Parameters
    ----------
    loss : "logistic" (multinomial for more than two classes), "squared_hinge", "probit" or "complementary_log_log" (two
        classes), or a loss of ``reshuffle.losses`` or your own.
    penalty : "l1", "l2", "elasticnet", "none" or None, or any object with ``value(x)`` and ``prox(x, step)``,
        such as the penalties of ``reshuffle.penalties``. Parameters of an object are set as ``penalty__l1``.
    l1 : strength of ‖w‖₁, for the penalties "l1" and "elasticnet"; ``None`` stands for 1e-4.
    l2 : strength of ‖w‖²/2, for the penalties "l2" and "elasticnet"; ``None`` stands for 1e-4.
    penalty_factors : one number per feature, by which its strengths are multiplied; 0 leaves it unpenalised.
    positive : whether coefficients must not be negative (for a penalty that is given by name).
    fit_intercept : whether to fit an intercept b, which is not penalised.
    solver : "exact" (``ExactProxRR``), "proxrr", "proxsgd" or "fista", or a solver, which keeps its own tol,
        epochs and seed.
    tol : the relative accuracy of P at which to stop, certified if possible. ``None`` stands for 1e-13
        if the run ends with Newton steps (penalties by name, separable and group penalties; losses with a
        second derivative), which is 1e-6 or better in the coefficients and takes hardly longer than 1e-6 in P
        would; for 1e-8 with more than two classes on sets that are not small, where the last step costs more than all before
        it; and for 1e-4, as in scikit-learn, if the run does not end with Newton steps: penalties whose prox is costly, losses of
        your own without ``second``, and other solvers. ``certificate_`` says what was reached.
    max_iter : the largest number of epochs.
    random_state : an integer, so that the same data always give the same model; a RandomState or Generator; or None
        for a fresh seed.
    warm_start : begin at the last model, if it has the same shape and classes.
    early_stopping : hold out ``validation_fraction`` of the rows, stop when their mean loss has not fallen for
        ``n_iter_no_change`` epochs, and keep the model at which it was lowest.
    callbacks : a function of a ``Result``, or a list of such, called after each epoch; True stops the run.
    verbose : whether to show a progress bar.
    device : "cuda" for the graphics card of this computer (extra ``gpu``): ``ExactProxRR(device="cuda")`` on arrays of the processor, which
        are copied there, or on shards. Rows that lie on the card are fitted there anyway (docs/gpu.md). ``tol=None`` then stands for 1e-8. For losses that have kernels.
    class_weight : None, "balanced", or a dict from class to weight; it multiplies sample weights.

    Attributes
    ----------
    coef_ : of shape (1, features) for two classes, (classes, features) for more.
    intercept_ : one number per row of ``coef_``; for more than two classes they sum to zero.
    classes_, n_features_in_, feature_names_in_ : the labels; the number of columns and, if X had them, their names.
    n_iter_, converged_, message_ : the epochs made, whether P(x) - P* ≤ tol·f(0) is proved, and why the run ended.
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

    loss: object = "logistic"
    class_weight: object = None

    def partial_fit(
        self,
        X: object,
        y: object,
        classes: object = None,
        sample_weight: object = None,
        offset: object = None,
    ) -> Self:
        """One shuffled pass over these rows and a prox (an epoch of ProxRR), from the model so far.

        The first call names all ``classes``. Steps shrink over the calls as ``SampleStream`` says.
        """
        first = not hasattr(self, "coef_")
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
        if self.class_weight == "balanced":
            raise InputError(
                'class_weight="balanced" needs all rows at once: give partial_fit a dict of weights'
            )
        return self._advance(self.prepared(X, y, sample_weight, offset, named=named, reset=first))
