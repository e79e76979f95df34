"""scikit-learn estimators over the solvers."""

from reshuffle.estimators.classifier import RRClassifier as RRClassifier
from reshuffle.estimators.regressor import RRRegressor as RRRegressor
from reshuffle.estimators.strengths import strengths_from_alpha as strengths_from_alpha
from reshuffle.estimators.strengths import strengths_from_C as strengths_from_C
from reshuffle.estimators.strengths import strengths_from_huber_alpha as strengths_from_huber_alpha
from reshuffle.estimators.strengths import strengths_from_ridge_alpha as strengths_from_ridge_alpha
