from __future__ import annotations

from functools import partial
from typing import Any

from reshuffle.estimators.classifier_cv import RRClassifierCV
from reshuffle.estimators.loss_names import OF_NUMBERS
from reshuffle.estimators.paths import Path, path_of, walk
from reshuffle.estimators.regressor_cv import RRRegressorCV
from reshuffle.estimators.solver_names import seed_of
from reshuffle.losses.names import split_name


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
