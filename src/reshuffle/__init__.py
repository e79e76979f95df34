"""Regularised learning with shuffled data: one proximal step for many gradient steps."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reshuffle.callbacks import Checkpoint
    from reshuffle.comparison import Comparison, compare
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
        RRRegressor,
        RRRegressorCV,
        rr_path,
    )
    from reshuffle.federated import ExactFedRR, FedNewton, FedRR, LocalSGD
    from reshuffle.labels import encode_labels
    from reshuffle.objective import FiniteSum, Objective
    from reshuffle.oracle import OracleProblem
    from reshuffle.problem import Problem
    from reshuffle.smoothness import Smoothness
    from reshuffle.solvers import FISTA, ExactProxRR, ProxRR, ProxSGD
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
        steps,
        testing,
        theory,
    )

__version__ = "0.2.0.dev0"

# Public name -> module that has it. Loaded on first use: `import reshuffle` starts no compiler.
_HOMES = {
    "Checkpoint": "callbacks",
    "ClientError": "errors",
    "Comparison": "comparison",
    "ConversionWarning": "errors",
    "DivergenceError": "errors",
    "ExactProxRR": "solvers",
    "ExactFedRR": "federated",
    "FISTA": "solvers",
    "FedNewton": "federated",
    "FedRR": "federated",
    "LocalSGD": "federated",
    "FiniteSum": "objective",
    "Objective": "objective",
    "InputError": "errors",
    "OracleProblem": "oracle",
    "Problem": "problem",
    "ProxRR": "solvers",
    "ProxSGD": "solvers",
    "RRClassifier": "estimators",
    "RRClassifierCV": "estimators",
    "RRRegressor": "estimators",
    "RRRegressorCV": "estimators",
    "Result": "trace",
    "Smoothness": "smoothness",
    "StepWarning": "errors",
    "Trace": "trace",
    "rr_path": "estimators",
    "compare": "comparison",
    "encode_labels": "labels",
}
_MODULES = (
    "datasets",
    "engines",
    "estimators",
    "federated",
    "losses",
    "orders",
    "penalties",
    "plotting",
    "steps",
    "testing",
    "theory",
)

__all__ = [
    "FISTA",
    "Checkpoint",
    "ClientError",
    "Comparison",
    "ConversionWarning",
    "DivergenceError",
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
    "ProxRR",
    "ProxSGD",
    "RRClassifier",
    "RRClassifierCV",
    "RRRegressor",
    "RRRegressorCV",
    "Result",
    "Smoothness",
    "StepWarning",
    "Trace",
    "__version__",
    "compare",
    "datasets",
    "encode_labels",
    "engines",
    "estimators",
    "federated",
    "losses",
    "orders",
    "penalties",
    "plotting",
    "rr_path",
    "steps",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"reshuffle.{name}")
    if name in _HOMES:
        value = getattr(import_module(f"reshuffle.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'reshuffle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
