"""Many small clients in one call: each a shuffled sweep from the same model.

A client of ten samples takes a microsecond to train and ten to call from Python, and calls from several
threads wait for each other. Here a host's clients lie in one matrix, client after client.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from reshuffle.kernels.options import KERNEL
from reshuffle.kernels.shuffle import shuffle
from reshuffle.kernels.sweep import sweep_visits


@cache
def clients_kernel(stamp: int) -> Any:
    """models[c] = x after a sweep over rows bounds[c] … bounds[c+1]-1 in an order drawn from ``uniforms``."""

    @njit(**KERNEL)
    def run(
        values, indices, indptr, targets, weights, params, bias, bounds, uniforms, visits, batch,
        averages, x, models, penalised, step, ridge, form, coefs, ahead,
    ):  # fmt: skip
        for c in range(bounds.size - 1):
            first, last = bounds[c], bounds[c + 1]
            for k in range(first, last):
                visits[k] = k
            mine = visits[first:last]
            shuffle(mine, uniforms[first : last - 1], last - first - 1)
            model = models[c]
            model[...] = x
            scale = sweep_visits(
                stamp, values, indices, indptr, targets, weights, params, bias, mine, batch, averages[c],
                model, model.reshape(-1), penalised, step, ridge, 0.0, form, coefs, ahead, 1.0,
            )  # fmt: skip
            if scale != 1.0:
                flat = model.reshape(-1)
                for j in range(penalised):
                    flat[j] *= scale

    return run
