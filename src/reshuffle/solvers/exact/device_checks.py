"""Chooses the kind of steps on a device, and refuses, before any work, problems and settings that have none."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reshuffle.device_problem import DeviceProblem
from reshuffle.errors import InputError, shown
from reshuffle.gpu import CudaDevice, Device
from reshuffle.gpu.clients import check_loss_on_device
from reshuffle.gpu.device import is_device
from reshuffle.gpu.output_placing import check_outputs_on_device
from reshuffle.gpu.row_kind import MANY
from reshuffle.penalties import ability
from reshuffle.penalties.abilities import as_able
from reshuffle.problem import Problem
from reshuffle.solvers.active_features import ActiveFeatures
from reshuffle.solvers.exact.newton_steps import ABILITIES
from reshuffle.solvers.newton_model import is_quadratic

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

Way = Literal["newton", "sparse newton", "lbfgs"]
PURPOSE = 'device="cuda"'


def check_device(solver: ExactProxRR) -> None:
    """Refuse devices other than "cuda", and settings of phases that do not act on a device."""
    named = solver.device is None or (isinstance(solver.device, str) and solver.device == "cuda")
    if not (named or is_device(solver.device)):
        raise InputError(f'device must be None or "cuda", got {shown(solver.device)}')
    given = {
        "step": not solver.own_step,
        "steps_per_prox": solver.steps_per_prox is not None,
        "importance": solver.importance is not None,
        "phases": solver.phases is not None,
        "finish": not solver.finish,
        "threads": solver.threads is not None,
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        raise InputError(
            f"{', '.join(wrong)}: on a device ExactProxRR makes Newton steps alone, which have no such setting; leave it out"
        )


def check_for_device(problem: Any) -> None:
    """Refuse a problem that has no kernels."""
    fit = getattr(problem, "datafit", None)
    if fit is None:
        raise InputError(f"{PURPOSE} takes a Problem, whose rows it can copy; got {shown(problem)}")
    if fit.outputs and fit.on_disk:
        raise InputError(
            f"{PURPOSE} takes one output where rows lie on disk, and y has {fit.outputs[0]} columns: leave out device"
        )
    (check_outputs_on_device if fit.outputs else check_loss_on_device)(fit.loss)
    way_on_device(problem)


def way_on_device(problem: Problem | DeviceProblem) -> Way:
    """Newton steps in all features or in those that matter, or L-BFGS if a ridge holds all features; other problems are refused."""
    features, outputs, form = problem.features, problem.datafit.outputs, problem.form_with_ridge
    able = all(ability(problem.penalty, name) is not None for name in ABILITIES)
    if outputs and not (able and form is not None):
        raise InputError(
            f"penalty {problem.penalty!r} is not supported on a device with a loss of several outputs: leave out device"
        )
    if (size := features * prod(outputs)) <= MANY:
        return "newton"
    if form is not None and is_quadratic(form) and np.all(form.l2 > 0.0):
        return "lbfgs"
    if outputs:
        raise InputError(
            f"on a device a loss of several outputs may have at most {MANY} coordinates (features times outputs) unless the penalty is a "
            f"ridge alone, because Newton's model is minimised on the processor; got {size} with {problem.penalty!r}: leave out device"
        )
    if able:
        sets = ActiveFeatures(as_able(problem.penalty), problem.shape, features, problem.ridge, "")
        if np.count_nonzero(sets.smooth) <= MANY:
            return "sparse newton"
    raise InputError(
        f"a problem on the device may have at most {MANY} features unless a ridge holds all of them or the penalty can hold features at zero "
        f"(L1, ElasticNet, GroupLasso, …), because Newton's model is minimised on the processor; got {features} features and "
        f"{problem.penalty!r}: leave out device"
    )


def device_of(given: Any) -> Device:
    """The graphics card; raises an error if there is no card or no CuPy."""
    device: Device = CudaDevice(PURPOSE) if isinstance(given, str) else given
    return device
