"""scikit-learn estimators over the solvers."""

from reshuffle.estimators.classifier import RRClassifier as RRClassifier
from reshuffle.estimators.cox import RRCox as RRCox
from reshuffle.estimators.cox_cv import RRCoxCV as RRCoxCV
from reshuffle.estimators.cox_cv import cox_path as cox_path
from reshuffle.estimators.federation import from_federation as from_federation
from reshuffle.estimators.folds import TimeFolds as TimeFolds
from reshuffle.estimators.linear_cv import RRClassifierCV as RRClassifierCV
from reshuffle.estimators.linear_cv import RRRegressorCV as RRRegressorCV
from reshuffle.estimators.linear_cv import rr_path as rr_path
from reshuffle.estimators.model_file import load as load
from reshuffle.estimators.onnx_export import to_onnx as to_onnx
from reshuffle.estimators.paths import Path as Path
from reshuffle.estimators.regressor import RRRegressor as RRRegressor
from reshuffle.estimators.strengths import strengths_from_alpha as strengths_from_alpha
from reshuffle.estimators.strengths import strengths_from_C as strengths_from_C
from reshuffle.estimators.strengths import strengths_from_huber_alpha as strengths_from_huber_alpha
from reshuffle.estimators.strengths import strengths_from_ridge_alpha as strengths_from_ridge_alpha
from reshuffle.estimators.summary import summary as summary
