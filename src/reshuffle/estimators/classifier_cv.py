from __future__ import annotations

from dataclasses import dataclass

from reshuffle.estimators.classes import LinearClassifier
from reshuffle.estimators.cross_validation import CrossValidated


@dataclass(eq=False, repr=False, kw_only=True)
class RRClassifierCV(LinearClassifier, CrossValidated):
    """P(w, b) = mean loss + λ·ψ(w), with the λ that does best on held-out rows.

    A path of λ's, from the one that holds every feature at zero down, is followed on each fold and on all
    rows, each model found from the previous ones. The model of all rows at the chosen λ is kept.

    Parameters
    ----------
    loss, penalty_factors, positive, fit_intercept, solver, max_iter, random_state, class_weight :
        as in ``RRClassifier``.
    penalty : ψ: "l1", "l2", "elasticnet" (l1_ratio·‖w‖₁ + (1 - l1_ratio)/2·‖w‖²), or an object.
    l1_ratio : the share of ℓ1 in the elastic net.
    lambdas : how many λ's, spaced evenly in their logarithm, or the λ's themselves. A penalty that holds
        nothing at zero, like "l2", has no largest λ: give them.
    smallest : the ratio of the last λ to the first, if only their number is given.
    cv : the number of folds (5): the rows are divided at random, by ``random_state``, with the same share of each
        class in every fold, and with rows of one group together if ``fit`` is given ``groups``. Or a splitter of
        scikit-learn, ``TimeFolds`` for data in the order of time, or a list of pairs of row numbers.
    scoring : None for the mean loss of the held-out rows, or a scorer of scikit-learn, such as "accuracy".
    rule : "min" for the λ with the lowest mean over the folds, "1se" for the largest within a standard error.
    tol : the relative accuracy of P at each λ; ``None`` for 1e-8 if the run ends with Newton steps, otherwise 1e-4.
    device : as in ``RRClassifier``: every fit is made on the graphics card, to which the rows of a fold are copied once. λ_max and the
        losses of held-out rows are computed on the processor.
    n_jobs : threads for the folds; -1 for all cores. The result is the same with any number.

    Attributes
    ----------
    lambda_, lambda_min_, lambda_1se_, lambdas_ : the chosen λ, the two candidates, and all.
    cv_losses_ : of shape (λ's, folds): the mean losses of held-out rows, or minus their scores.
    paired_ : the losses at ``lambda_1se_`` against those at ``lambda_min_``, fold by fold: their mean
        ``difference``, its standard ``error``, and whether the folds show it to be ``worse`` or ``as_good``.
    path_ : the models of all rows, as ``rr_path`` gives them.
    coef_, intercept_, classes_ and others : as in ``RRClassifier``, of the chosen model.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> model = rs.RRClassifierCV(lambdas=20, rule="1se").fit(X, y)
    >>> bool(model.lambda_ > model.lambda_min_), int((model.coef_ != 0).sum()) < 30
    (True, True)
    """

    loss: object = "logistic"
    class_weight: object = None
