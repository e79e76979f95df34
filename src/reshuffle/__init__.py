"""Regularised learning with shuffled data: one proximal step for many gradient steps."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.callbacks import Checkpoint
    from reshuffle.comparison import Comparison, compare
    from reshuffle.device_problem import DeviceProblem
    from reshuffle.errors import (
        ClientError,
        ConversionWarning,
        DivergenceError,
        InputError,
        StepWarning,
    )
    from reshuffle.estimators import (
        RRClassifier,
        RRClassifierCV,
        RRCox,
        RRCoxCV,
        RRRegressor,
        RRRegressorCV,
        cox_path,
        rr_path,
    )
    from reshuffle.federated import ExactDistributed, ExactFedRR, FedNewton, FedRR, LocalSGD
    from reshuffle.labels import encode_labels
    from reshuffle.objective import FiniteSum, Objective
    from reshuffle.oracle import OracleProblem
    from reshuffle.problem import Problem
    from reshuffle.smoothness import Smoothness
    from reshuffle.solvers import FISTA, ExactProxRR, ProxNewton, ProxRR, ProxSGD
    from reshuffle.survival import CoxProblem
    from reshuffle.trace import Result, Trace

    from . import (
        datasets,
        engines,
        estimators,
        federated,
        losses,
        orders,
        penalties,
        plotting,
        privacy,
        steps,
        survival,
        testing,
        theory,
    )

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

__all__ = [
    "FISTA",
    "Checkpoint",
    "ClientError",
    "Comparison",
    "ConversionWarning",
    "CoxProblem",
    "DeviceProblem",
    "DivergenceError",
    "ExactDistributed",
    "ExactFedRR",
    "ExactProxRR",
    "FedNewton",
    "FedRR",
    "FiniteSum",
    "InputError",
    "LocalSGD",
    "Objective",
    "OracleProblem",
    "Problem",
    "ProxNewton",
    "ProxRR",
    "ProxSGD",
    "RRClassifier",
    "RRClassifierCV",
    "RRCox",
    "RRCoxCV",
    "RRRegressor",
    "RRRegressorCV",
    "Result",
    "Smoothness",
    "StepWarning",
    "Trace",
    "__version__",
    "compare",
    "cox_path",
    "datasets",
    "encode_labels",
    "engines",
    "estimators",
    "federated",
    "losses",
    "orders",
    "penalties",
    "plotting",
    "privacy",
    "rr_path",
    "steps",
    "survival",
    "testing",
    "theory",
]


def __getattr__(name: str) -> object:
    if name in _MODULES.split():
        return import_module(f"reshuffle.{name}")
    if name in _HOMES:
        value = getattr(import_module(f"reshuffle.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'reshuffle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
