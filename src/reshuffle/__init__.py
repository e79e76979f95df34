"""Regularised learning with shuffled data: one proximal step for many gradient steps."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle import datasets as datasets
    from reshuffle import engines as engines
    from reshuffle import estimators as estimators
    from reshuffle import federated as federated
    from reshuffle import losses as losses
    from reshuffle import orders as orders
    from reshuffle import penalties as penalties
    from reshuffle import plotting as plotting
    from reshuffle import privacy as privacy
    from reshuffle import steps as steps
    from reshuffle import survival as survival
    from reshuffle import testing as testing
    from reshuffle import theory as theory
    from reshuffle.callbacks import Checkpoint as Checkpoint
    from reshuffle.comparison import Comparison as Comparison
    from reshuffle.comparison import compare as compare
    from reshuffle.device_problem import DeviceProblem as DeviceProblem
    from reshuffle.errors import ClientError as ClientError
    from reshuffle.errors import ConversionWarning as ConversionWarning
    from reshuffle.errors import DivergenceError as DivergenceError
    from reshuffle.errors import InputError as InputError
    from reshuffle.errors import StepWarning as StepWarning
    from reshuffle.estimators import RRClassifier as RRClassifier
    from reshuffle.estimators import RRClassifierCV as RRClassifierCV
    from reshuffle.estimators import RRCox as RRCox
    from reshuffle.estimators import RRCoxCV as RRCoxCV
    from reshuffle.estimators import RRRegressor as RRRegressor
    from reshuffle.estimators import RRRegressorCV as RRRegressorCV
    from reshuffle.estimators import cox_path as cox_path
    from reshuffle.estimators import rr_path as rr_path
    from reshuffle.federated import ExactDistributed as ExactDistributed
    from reshuffle.federated import ExactFedRR as ExactFedRR
    from reshuffle.federated import FedNewton as FedNewton
    from reshuffle.federated import FedRR as FedRR
    from reshuffle.federated import LocalSGD as LocalSGD
    from reshuffle.labels import encode_labels as encode_labels
    from reshuffle.objective import FiniteSum as FiniteSum
    from reshuffle.objective import Objective as Objective
    from reshuffle.oracle import OracleProblem as OracleProblem
    from reshuffle.problem import Problem as Problem
    from reshuffle.smoothness import Smoothness as Smoothness
    from reshuffle.solvers import FISTA as FISTA
    from reshuffle.solvers import ExactProxRR as ExactProxRR
    from reshuffle.solvers import ProxNewton as ProxNewton
    from reshuffle.solvers import ProxRR as ProxRR
    from reshuffle.solvers import ProxSGD as ProxSGD
    from reshuffle.survival import CoxProblem as CoxProblem
    from reshuffle.trace import Result as Result
    from reshuffle.trace import Trace as Trace

__version__ = "0.3.0.dev0"

# Modules and the public names that they have. They are loaded on first use, so that `import reshuffle` is quick.
_NAMES = {
    "callbacks": "Checkpoint",
    "comparison": "Comparison compare",
    "device_problem": "DeviceProblem",
    "errors": "ClientError ConversionWarning DivergenceError InputError StepWarning",
    "estimators": "RRClassifier RRClassifierCV RRCox RRCoxCV RRRegressor RRRegressorCV cox_path rr_path",
    "federated": "ExactDistributed ExactFedRR FedNewton FedRR LocalSGD",
    "labels": "encode_labels",
    "objective": "FiniteSum Objective",
    "oracle": "OracleProblem",
    "problem": "Problem",
    "smoothness": "Smoothness",
    "solvers": "ExactProxRR FISTA ProxNewton ProxRR ProxSGD",
    "survival": "CoxProblem",
    "trace": "Result Trace",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = "datasets engines estimators federated losses orders penalties plotting privacy steps survival testing theory"

__all__ = sorted([*_HOMES, *_MODULES.split(), "__version__"])


def __getattr__(name: str) -> object:
    if name in _MODULES.split():
        return import_module(f"reshuffle.{name}")
    if name in _HOMES:
        value = getattr(import_module(f"reshuffle.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'reshuffle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
