"""Rounds of ExactFedRR on a device: z ↦ T(z), for the z_m of very many clients."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.arrays import Array
from reshuffle.errors import InputError
from reshuffle.gpu.arrays import DeviceArray
from reshuffle.gpu.clients import DeviceClients, LocalPasses
from reshuffle.gpu.paired_arrays import PairedArrays
from reshuffle.gpu.points import Points
from reshuffle.gpu.rounds import ClientRounds

SAME_ANCHOR = np.empty(0, dtype=np.int32)


class Residual(NamedTuple):
    """T(z) - z of a round, with the numbers that products with other points need."""

    points: Points
    """The residuals of the clients that took part; other rows mean nothing. ``coefs`` is None if no products are wanted."""
    margins: DeviceArray
    """a_iᵀ(T_m(z) - z_m) of every row, on the device, if products are wanted."""
    total: Array
    """Σ_m (T_m(z) - z_m) over the clients that took part."""


class RoundImage(NamedTuple):
    """The outcome of a round."""

    image: Points
    """T(z): x + A_mᵀ c_m for the clients that took part, and z_m for others."""
    residual: Residual


class DeviceExactRounds(ClientRounds):
    """The passes x_m ← x_m - γ(∇f_i(x_m) - ∇f_i(x) + ∇f_m(x) - h_m), with h_m = (x - z_m)/τ_m and τ_m = γ·averages_m·n_m·passes.

    ``products`` says whether margins of the residuals are wanted, which products of residuals need.
    """

    def __init__(
        self,
        clients: DeviceClients,
        passes: LocalPasses,
        seed: int,
        positions: NDArray[np.int64],
        *,
        products: bool = False,
    ) -> None:
        wrong = [
            (clients.unit != "exact", f'DeviceClients(unit="exact"), got unit="{clients.unit}"'),
            (clients.ridge != 0.0, f"clients without a ridge, which the server takes in its prox, got ridge={clients.ridge!r}"),
            (passes.order == "draw", f'order "shuffle" or "cyclic", got {passes.order!r}'),
            (passes.batch != 1, f"batch 1, got {passes.batch!r}"),
            (passes.passes < 1, f"at least 1 pass, got passes={passes.passes!r}"),
        ]  # fmt: skip
        for is_wrong, wanted in wrong:
            if is_wrong:
                raise InputError(f"DeviceExactRounds needs {wanted}")
        super().__init__(clients, passes, seed, positions, passes.passes)
        self.products, self.copies = products, PairedArrays(clients.device, clients.number)
        self._blind = clients.device.put(np.zeros(clients.clients), np.int32)

    # --- a round ---------------------------------------------------------------------------------

    def start(self, x: Array) -> Points:
        """z_m = x, and so h_m = 0."""
        zero = self.clients.device.put(np.zeros(self.total), self.clients.number)
        return Points(np.array(x, dtype=np.float64).reshape(1, -1), SAME_ANCHOR, zero)

    def residuals(
        self,
        z: Points,
        x: Array,
        step: float,
        number: int,
        chosen: NDArray[np.int64] | None = None,
    ) -> RoundImage:
        """The round ``number`` of the chosen clients, or of all, from x and z."""
        clients, device = self.clients, self.clients.device
        at = device.put(np.ascontiguousarray(x, dtype=np.float64).reshape(-1), clients.number)
        coefs = device.room(self.total, clients.number)
        if chosen is not None:
            coefs[:] = z.coefs
        room = device.room if self.products else partial(clients.kept_room, "margins")
        margins = room(self.total, clients.number)
        out = self.start_passes(z, at, step, number, coefs, margins, chosen)
        total: Array = np.array(device.get(out)[: clients.width])
        anchor, count = x.reshape(1, -1), clients.clients
        moved = Points(anchor - z.anchors, z.anchor_of, coefs - z.coefs if self.products else None)
        image = Points(anchor, SAME_ANCHOR, coefs)
        if chosen is not None:
            image = Points(z.anchors, z.anchor_of, coefs).anchored(anchor, chosen, count)
        if device.get(self._blind.any()):  # these clients' passes were replaced by a plain step
            blind = np.flatnonzero(device.get(self._blind))
            old = z.anchors[z.rows(count)[blind]]
            visits = self.passes.passes * self.passes.visits[blind]
            step_taken = (anchor - old) / visits[:, None]
            image = image.anchored(old + step_taken, blind, count)
            moved = moved.anchored(step_taken, blind, count)
        return RoundImage(image, Residual(moved, margins, total))

    def start_passes(
        self,
        z: Points,
        x: object,
        step: float,
        number: int,
        coefs: object,
        margins: object,
        chosen: NDArray[np.int64] | None = None,
    ) -> DeviceArray:
        """Start the kernels of a round for an x on the device: they fill ``coefs`` and ``margins``. Returns the array that will hold the sum of residuals."""
        clients, device, real = self.clients, self.clients.device, self.clients.number.type
        order, count = self.in_turn(chosen)
        launch, vectors, sums = clients.room_for(count)
        slopes, offsets = (
            clients.kept_room(name, self.total, clients.number) for name in ("slopes", "offsets")
        )
        self._blind[:] = 0
        clients.kernels.run(
            "exact_local_passes", launch, *clients.samples, clients.first_on_device,
            self.visits(number), np.int64(self.total), self.averages, order, np.int64(count), x,
            device.put(z.anchors, clients.number), device.put(z.anchor_of, np.int32) if len(z.anchor_of) else None,
            z.coefs, np.int32(clients.features), np.int32(self.passes.passes), np.int32(self.products), np.uint32(0),
            real(step), slopes, offsets, margins, coefs, self._blind, vectors, sums,
        )  # fmt: skip
        return clients.add_blocks(sums, launch.blocks)

    # --- products --------------------------------------------------------------------------------

    def product(self, one: Points, other: Residual) -> float:
        """Σ_m ⟨u_m, v_m⟩ over all clients.

        If all u_m have one anchor this is ⟨anchor, Σ_m v_m⟩ + Σ_i c_i a_iᵀv_m; clients with other anchors are added one by one.
        """
        of_rows = (one.coefs * other.margins).sum(dtype=np.float64)
        found = float(np.sum(one.anchors[0] * other.total)) + float(
            self.clients.device.get(of_rows)
        )
        v = other.points
        rows = v.rows(self.clients.clients)
        for m in np.flatnonzero(one.anchor_of).tolist():
            own = v.anchors[rows[m]] + self.spread(m, v.coefs)
            found += float(np.sum((one.anchors[one.anchor_of[m]] - one.anchors[0]) * own))
        return found

    def spread(self, client: int, coefs: DeviceArray) -> Array:
        """A_mᵀ c_m of one client, on the processor."""
        clients, get = self.clients, self.clients.device.get
        first, last = clients.first[client : client + 2].tolist()
        own = np.asarray(get(coefs[first:last]), dtype=np.float64)
        values, columns, starts = clients.rows
        out = np.zeros(clients.width)
        if columns is None:
            out[: clients.features] = np.sum(own[:, None] * get(values[first:last]), axis=0)
        else:
            at = np.asarray(get(starts[first : last + 1]), dtype=np.int64)
            part = slice(int(at[0]), int(at[-1]))
            entries = np.repeat(own, np.diff(at))
            if values is not None:
                entries = entries * get(values[part])
            np.add.at(out, get(columns[part]), entries)
        if clients.bias:
            out[-1] = own.sum()
        return out
