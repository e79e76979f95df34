from __future__ import annotations

from typing import Any

from reshuffle.estimators.classifier import RRClassifier
from reshuffle.estimators.column_penalties import by_columns
from reshuffle.estimators.loss_names import OF_NUMBERS
from reshuffle.estimators.paths import Path, path_of, strengths_of, unit_penalty, walk
from reshuffle.estimators.regressor import RRRegressor
from reshuffle.estimators.solver_names import (
    ALONG_A_PATH,
    check_on_device,
    seed_of,
    solver_of,
    tol_of,
)
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
    model: RRClassifier | RRRegressor
    if of_numbers:
        model = RRRegressor(loss=loss, fit_intercept=fit_intercept)
    else:
        model = RRClassifier(loss=loss, fit_intercept=fit_intercept, class_weight=class_weight)
    data = model.prepared(X, y, sample_weight, offset, exposure)
    unit = unit_penalty(by_columns(penalty, model), l1_ratio, penalty_factors, positive, data.shape)
    problem = data.problem(unit, fit_intercept)
    tol = tol_of(tol, solver, problem, ALONG_A_PATH, device)
    method = solver_of(solver, tol, max_iter, seed_of(random_state), traced=False, device=device)
    check_on_device(method, problem)
    strengths = strengths_of(problem, lambdas, smallest)
    results = walk(problem, strengths, method, "rr_path")
    return path_of(results, strengths, method, model, model.attributes_of)
