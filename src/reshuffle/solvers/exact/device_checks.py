"""Refuses, before any work, problems and settings that the exact method does not support on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reshuffle.errors import InputError, shown
from reshuffle.gpu import CudaDevice, Device
from reshuffle.gpu.clients import check_loss_on_device
from reshuffle.gpu.device import is_device
from reshuffle.gpu.output_placing import check_outputs_on_device
from reshuffle.solvers.exact.device_ways import way_on_device
from reshuffle.solvers.exact.lbfgs_of_outputs import check_output_steps

if TYPE_CHECKING:
    from reshuffle.solvers.exact.solver import ExactProxRR

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
    if fit.outputs:
        check_outputs_on_device(fit.loss)
        check_output_steps(problem)
    else:
        check_loss_on_device(fit.loss)
        way_on_device(problem)


def device_of(given: Any) -> Device:
    """The graphics card; raises an error if there is no card or no CuPy."""
    device: Device = CudaDevice(PURPOSE) if isinstance(given, str) else given
    return device
