"""Chooses the kind of steps for a problem on a device, and refuses problems that have none."""

from __future__ import annotations

from typing import Literal

import numpy as np

from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import InputError
from reshuffle.gpu.pass_layout import MANY
from reshuffle.penalties import ability
from reshuffle.penalties.abilities import as_able
from reshuffle.penalties.forms import Form
from reshuffle.problem import Problem
from reshuffle.solvers.active_features import ActiveFeatures
from reshuffle.solvers.exact.newton_steps import ABILITIES

Way = Literal["newton", "sparse newton", "lbfgs"]


def is_ridge(form: Form) -> bool:
    """Whether ψ is Σ_j (l2_j/2)x_j² with l2_j > 0 for every feature."""
    each = form.one_by_one
    if each is None or each.l1.any() or not np.all(each.l2 > 0.0):
        return False
    return bool(np.all(each.low == -np.inf) and np.all(each.high == np.inf))


def way_on_device(problem: Problem | DeviceProblem) -> Way:
    """Newton steps in all features or in those that matter, or L-BFGS if a ridge holds all features; other problems are refused."""
    features, form = problem.features, problem.form_with_ridge
    if features <= MANY:
        return "newton"
    if form is not None and is_ridge(form):
        return "lbfgs"
    if all(ability(problem.penalty, name) is not None for name in ABILITIES):
        sets = ActiveFeatures(as_able(problem.penalty), problem.shape, features, problem.ridge, "")
        if np.count_nonzero(sets.smooth) <= MANY:
            return "sparse newton"
    raise InputError(
        f"a problem on the device may have at most {MANY} features unless a ridge holds all of them or the penalty can hold features at zero "
        f"(L1, ElasticNet, GroupLasso, …), because Newton's model is minimised on the processor; got {features} features and "
        f"{problem.penalty!r}: leave out device"
    )
