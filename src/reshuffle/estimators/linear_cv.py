"""Linear models along a path of strengths, and the choice of one by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from reshuffle.estimators.classes import LinearClassifier
from reshuffle.estimators.cross_validation import CrossValidated
from reshuffle.estimators.loss_names import OF_NUMBERS
from reshuffle.estimators.numbers import LinearRegression
from reshuffle.estimators.paths import Path, path_of, walk
from reshuffle.estimators.solver_names import seed_of
from reshuffle.losses.names import split_name


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


@dataclass(eq=False, repr=False, kw_only=True)
class RRRegressorCV(LinearRegression, CrossValidated):
    """P(w, b) = mean loss + λ·ψ(w), with the λ that does best on held-out rows.

    Parameters and attributes are those of ``RRClassifierCV`` except ``class_weight`` and ``classes_``; ``loss`` is
    as in ``RRRegressor``.

    Examples
    --------
    >>> import reshuffle as rs
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = rs.RRRegressorCV(lambdas=30).fit(X, y)
    >>> model.path_
    <Path: 30 strengths from 2.15 to 0.00215, 0 to 10 features>
    >>> model.cv_losses_.shape, round(model.score(X, y), 2)
    ((30, 5), 0.52)
    """

    loss: object = "squared"


def rr_path(
    X: object,
    y: object,
    *,
    loss: Any = "logistic",
    penalty: object = "l1",
    l1_ratio: float = 0.5,
    lambdas: object = 100,
    smallest: float = 1e-3,
    sample_weight: object = None,
    offset: object = None,
    exposure: object = None,
    class_weight: object = None,
    penalty_factors: object = None,
    positive: bool = False,
    fit_intercept: bool = True,
    solver: object = "exact",
    tol: float | None = None,
    max_iter: int = 1000,
    random_state: object = 0,
    device: Any = None,
) -> Path:
    """The minimisers of mean loss + λ·ψ for λ from λ_max down, each found from the previous ones.

    Parameters
    ----------
    loss : of classes ("logistic", "squared_hinge", …) or of numbers ("squared", "huber", "poisson", "gamma", …), by name or
        as an object; it says whether y holds labels or numbers.

    The others are those of ``RRClassifierCV``. ``plotting.plot_path`` draws the path.

    Examples
    --------
    >>> import reshuffle as rs
    >>> X, y = rs.datasets.breast_cancer()
    >>> path = rs.rr_path(X, y, lambdas=30)
    >>> path.nonzeros[0], path.nonzeros[-1] > 10, bool(path.converged.all())
    (np.int64(0), np.True_, True)
    """
    kinds = ("real", "counts", "positive")
    of_numbers = (
        split_name(loss)[0] in OF_NUMBERS if isinstance(loss, str) else loss.targets in kinds
    )
    kind: Any = partial(RRClassifierCV, class_weight=class_weight)
    model = (RRRegressorCV if of_numbers else kind)(
        loss=loss,
        penalty=penalty,
        l1_ratio=l1_ratio,
        lambdas=lambdas,
        smallest=smallest,
        penalty_factors=penalty_factors,
        positive=positive,
        fit_intercept=fit_intercept,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        device=device,
    )
    data = model.prepared(X, y, sample_weight, offset, exposure)
    problem, method = model.begin(data, seed_of(random_state))
    results = walk(problem, model.lambdas_, method, "rr_path")
    return path_of(results, model.lambdas_, method, model)
