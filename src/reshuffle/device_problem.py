"""A problem whose samples lie on a graphics card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from reshuffle.arrays import Array
from reshuffle.cached import keep
from reshuffle.digests import Fingerprint, digest
from reshuffle.disk_datafit import on_disk
from reshuffle.errors import InputError, shown
from reshuffle.gpu import (
    CudaDevice,
    Device,
    DeviceOutputs,
    DeviceSamples,
    StreamedSamples,
    outputs_on_device,
    samples_of_shards,
    samples_on_device,
)
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.device import is_device
from reshuffle.gpu.inputs import check_device_rows, check_device_targets, check_device_vector
from reshuffle.gpu.output_placing import check_output_targets
from reshuffle.gpu.samples import Terms
from reshuffle.losses import Logistic, check_loss
from reshuffle.objective import check_penalty, check_ridge
from reshuffle.penalties import Penalty
from reshuffle.problem import Problem, ProblemOfRows
from reshuffle.rows import Rows

SamplesOnDevice = DeviceSamples | StreamedSamples | DeviceOutputs


class DeviceProblem(ProblemOfRows):
    """P(x) = (1/n) Σ_i w_i·l(a_iᵀx + b + o_i, y_i) + (ridge/2)‖x‖² + ψ(x), with rows on a graphics card.

    For ``ExactProxRR``. The rows are not copied; x and results are numpy arrays of the processor.

    Parameters
    ----------
    X : rows on the card, float32 or float64: a CuPy array, a PyTorch tensor or another array of DLPack, a CSR matrix of CuPy, or
        ``reshuffle.rows.Rows(values, columns, starts)`` with columns of 16 or 32 bits (give ``features`` then).
    y, sample_weight, offset : arrays of the card, with one number for each row; y holds the classes 0 … K-1 for ``Multinomial``, and may be a
        matrix with a column for each output for ``Squared``.
    loss, penalty, ridge, fit_intercept : as for ``Problem``, with a loss that the package has kernels for.
    features : the number of columns of ``Rows``.
    """

    taken_by: ClassVar[str] = "ExactProxRR"

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: object = None,
        penalty: Penalty | None = None,
        ridge: float = 0.0,
        sample_weight: object = None,
        fit_intercept: bool = False,
        offset: object = None,
        *,
        features: int | None = None,
        device: Device | None = None,
    ) -> None:
        loss = check_loss(Logistic() if loss is None else loss).for_targets(y)
        ridge = check_ridge(ridge)
        if device is not None and not is_device(device):
            raise InputError(
                f"device must be None, for the graphics card, or a reshuffle.gpu.CudaDevice, got {shown(device)}"
            )
        where = CudaDevice("DeviceProblem") if device is None else device
        rows, n, d = check_device_rows(where, X, features)
        if loss.vector:
            if offset is not None:
                raise InputError(
                    f"offset needs a loss of one margin, and {loss!r} has several: leave it out"
                )
            targets, outputs = check_output_targets(where, y, n, loss)
        else:
            targets, outputs = check_device_targets(where, y, n, loss), 0
        weights: DeviceArray = np.empty(0)
        offsets: DeviceArray = np.empty(0)
        if sample_weight is not None:
            weights = check_device_vector(where, "sample_weight", sample_weight, n)
            if float(weights.min()) < 0.0 or not float(weights.max()) > 0.0:
                raise InputError("sample_weight must not be negative, nor zero everywhere")
            weights = where.put(weights, np.float64)
            weights = weights / weights.max()
            weights = weights * (n / float(weights.sum()))
        if offset is not None:
            offsets = check_device_vector(where, "offset", offset, n)
        terms = Terms(targets, weights, offsets, loss, d, bool(fit_intercept))
        self._take(_placed(where, rows, terms, outputs), penalty, ridge)

    def _take(self, samples: SamplesOnDevice, penalty: Penalty | None, ridge: float) -> None:
        self.datafit: SamplesOnDevice = samples
        self.penalty, self.ridge = check_penalty(penalty), ridge
        self.n, self.shape = samples.n, samples.shape
        self.form_with_ridge  # noqa: B018 -- it says so where arrays of the penalty do not fit

    @classmethod
    def of(cls, problem: Problem, device: Device) -> Self:
        """A problem on the device, from one in memory, whose rows are copied, or on disk: these rows are copied in every pass unless they all fit on the device."""
        fit, made = problem.datafit, cls.__new__(cls)
        terms = Terms(fit.targets, fit.weights, fit.offsets, fit.loss, fit.features, fit.bias)
        samples: SamplesOnDevice
        if fit.on_disk and not fit.outputs:
            samples = samples_of_shards(device, on_disk(fit).rows, terms)
        else:
            samples = _placed(device, fit.quick, terms, *fit.outputs)
        made._take(samples, problem.penalty, problem.ridge)
        return keep(made, fingerprint=problem.fingerprint)

    def with_samples(
        self, samples: SamplesOnDevice, penalty: Penalty | None = None, ridge: float | None = None
    ) -> Self:
        """The problem with other samples, and with the same or another penalty and ridge."""
        made = type(self).__new__(type(self))
        own = self.penalty if penalty is None else penalty
        made._take(samples, own, self.ridge if ridge is None else ridge)
        return made

    def with_penalty(self, penalty: Penalty) -> Self:
        """The problem with another penalty; the rows are not copied."""
        made = self.with_samples(self.datafit, penalty)
        others = {"penalty": digest(penalty)}
        return keep(made, fingerprint=Fingerprint(lambda: {**self.fingerprint, **others}))

    def __repr__(self) -> str:
        fit = self.datafit
        kind = "dense" if fit.dense else "CSR"
        return (
            f"<DeviceProblem: {self.n} x {self.features} {kind}, loss={fit.loss!r}, penalty={self.penalty!r}, "
            f"ridge={self.ridge:g}, intercept={fit.bias}>"
        )

    def ridge_at(self, x: Array) -> float:
        """(ridge/2)‖x‖²."""
        own = x[: self.features]
        return 0.5 * self.ridge * float(np.vdot(own, own)) if self.ridge else 0.0

    def value(self, x: Array) -> float:
        return self.datafit.at(x).value + self.ridge_at(x)

    def gradient(self, x: Array) -> Array:
        found = self.datafit.at(x).gradient
        found[: self.features] += self.ridge * x[: self.features]
        return found

    @property
    def typical_curvature(self) -> float:
        """L̄; see ``Problem``."""
        c = float(self.loss.curvature)
        squares = float(self.datafit.column_squares.sum()) + self.fit_intercept
        # for rows of zeros any number will do
        return (c if c < np.inf else 1.0) * squares + self.ridge or 1.0

    def contents(self) -> Mapping[str, str]:
        """The digests of the arrays, which are copied from the card one after the other."""
        fit = self.datafit
        arrays = [None if a is None else fit.device.get(a) for a in fit.rows]
        others = {"targets": fit.targets, "weights": fit.weights, "offsets": fit.offsets}
        return {
            "data": digest(*arrays, fit.features, fit.bias),
            **{name: digest(np.asarray(fit.device.get(a))) for name, a in others.items()},
            "loss": digest(fit.loss),
            "penalty": digest(self.penalty),
            "ridge": digest(self.ridge),
        }


def _placed(device: Device, rows: Rows, terms: Terms, outputs: int = 0) -> SamplesOnDevice:
    """The samples on the device, for a loss of several outputs or of one."""
    if outputs:
        return outputs_on_device(device, rows, terms, outputs)
    return samples_on_device(device, rows, terms)
