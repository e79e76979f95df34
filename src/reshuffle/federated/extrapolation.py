"""Anderson extrapolation of a fixed-point iteration z ← T(z), its history, and a watch on its residuals.

From the last points z_j, their images T(z_j) and residuals r_j = T(z_j) - z_j, the next point is

    Σ_j α_j T(z_j),    α = argmin ‖Σ_j α_j r_j‖  with  Σ_j α_j = 1,

written with differences of neighbours, so that the weights are a least-squares problem without a
constraint. On a linear map it does the same as GMRES. It costs no evaluation of T.

Where the solutions are fixed points of a T that does not expand, the residuals of plain rounds do not grow. Where one
grows, or hardly falls any more, γ may be too long for the local passes (``ResidualMonitor``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from reshuffle.errors import InputError
from reshuffle.objective import Array
from reshuffle.solvers.method import State

GROWTH = 2.0
"""An extrapolation counts as failed if the residual exceeds its best value by this factor."""
PIECE = 1 << 12
"""Points are combined this many entries at a time, so that intermediate arrays stay in the cache."""
SAME = 1e-7
"""Changes of the residual below this share of it are too small to extrapolate from."""
LONGEST = 100.0
"""The largest sum of the absolute weights. Far from the solution the slopes of Huber's or the quantile loss are constant, a
round is nearly a translation, and longer extrapolations led to P(x) a million times above its start."""
RIDGE = 1e-10
"""The ridge of the least-squares problem, relative to its trace; it keeps the problem solvable."""


class Choice(NamedTuple):
    """The next point, images[base] - Σ_i weights_i (images[i+1] - images[i]), and which points to keep."""

    base: int
    weights: Array
    kept: slice

    def point(self, images: Sequence[Array] | Array) -> Array:
        """The next point, computed in pieces, so that no further array of its size is made."""
        out: Array = images[self.base].copy()
        flat = out.reshape(-1)
        pairs = [
            (w, images[i].reshape(-1), images[i + 1].reshape(-1))
            for i, w in enumerate(self.weights)
        ]
        for start in range(0, flat.size, PIECE):
            at = slice(start, start + PIECE)
            moved = np.zeros_like(flat[at])
            for weight, before, after in pairs:
                moved += weight * (after[at] - before[at])
            flat[at] -= moved
        return out


def chosen(norms: Array, gram: Array, slopes: Array, memory: int) -> Choice:
    """The choice from sums over the clients about the residuals r_j, newest last.

    ``norms`` are ‖r_j‖, ``gram`` the products of the changes r_{j+1} - r_j among themselves, ``slopes``
    those with the newest residual. If the residual has grown too much, or its best is ``memory``
    points old, the next step is a plain one from the best point: the next point is its image, and no
    other point is kept.
    """
    none = np.empty(0)
    best, last = int(norms.argmin()), len(norms) - 1
    failed = not norms[last] <= GROWTH * norms[best]
    if last == 1 and failed:  # The step was a plain one, so T itself is no contraction here.
        return Choice(last, none, slice(last, None))
    if failed or last - best >= memory:
        return Choice(best, none, slice(best, best + 1))
    kept = slice(max(0, last + 1 - memory), None)
    if last == 0 or not norms[last] > 0:
        return Choice(last, none, kept)
    if not np.trace(gram) > (SAME * norms[last]) ** 2:
        # Far out, where slopes are flat, a round is a translation, and extrapolation would diverge.
        return Choice(last, none, kept)
    gram = gram.copy()
    gram[np.diag_indices(last)] += RIDGE * np.trace(gram) + np.finfo(float).tiny
    weights: Array = np.linalg.solve(gram, slopes).astype(np.float64, copy=False)
    total = float(np.abs(weights).sum())
    return Choice(last, weights * (LONGEST / max(total, LONGEST)), kept)


def extrapolated(
    images: Sequence[Array] | Array, residuals: Sequence[Array] | Array, memory: int
) -> tuple[Array, slice]:
    """The next point, and which of the images and residuals (newest last) to keep."""
    choice = chosen(*products(residuals), memory)
    return choice.point(images), choice.kept


def products(residuals: Sequence[Array] | Array) -> tuple[Array, Array, Array]:
    """‖r_j‖, the products of the changes r_{j+1} - r_j among themselves, and those with the newest residual.

    They are computed in pieces, so that no further array of the size of a residual is made, and not by BLAS, whose
    sums depend on its number of threads.
    """
    count, flat = len(residuals), [residual.reshape(-1) for residual in residuals]
    squares, gram, slopes = np.zeros(count), np.zeros((count - 1, count - 1)), np.zeros(count - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # Divergence is reported elsewhere.
        for start in range(0, flat[-1].size, PIECE):
            r = np.stack([residual[start : start + PIECE] for residual in flat])
            changes = np.diff(r, axis=0)
            squares += np.einsum("ik,ik->i", r, r)
            gram += np.einsum("ik,jk->ij", changes, changes)
            slopes += np.einsum("ik,k->i", changes, r[-1])
    return np.sqrt(squares), gram, slopes


PATIENCE = 50
"""A residual that converges at all should halve within this many rounds."""
QUIET = 1e-8
"""Below this share of the first residual rounding may contribute to it."""
STUCK = 0.65
"""A residual above this share of the last halved one has made next to no progress."""
LEAST = 1.0 / 16.0
"""The least share of the chosen step that is tried: if that does not help, the step is not the cause."""


class ResidualMonitor(NamedTuple):
    """The history of the residual ‖T(z) - z‖ in numbers, as part of the state of a run."""

    factor: float = 1.0
    """The share of the chosen step that is used now."""
    first: float = 0.0
    """The first residual of the run."""
    halved: float = np.inf
    """The residual when it had last fallen to a half."""
    since: float = 0.0
    """The number of rounds since then."""
    least: float = np.inf
    """The least residual with this step."""

    @classmethod
    def of(cls, state: State) -> ResidualMonitor:
        """The history that the state of a run holds as ``pace``."""
        return cls(*state["pace"].tolist())

    def after(self, residual: float) -> ResidualMonitor:
        """The pace after a round with this residual."""
        new = self if self.first else self._replace(first=residual, halved=residual)
        new = new._replace(least=min(new.least, residual))
        if residual <= 0.5 * new.halved:
            return new._replace(halved=residual, since=0.0)
        return new._replace(since=new.since + 1.0)

    @property
    def stalls(self) -> bool:
        """Whether the residual has not fallen to a half for a long time, and is larger than rounding."""
        return self.since >= PATIENCE and self.halved > QUIET * self.first

    @property
    def stuck(self) -> bool:
        """Whether it stalls and has hardly fallen at all, or stalls for twice as long."""
        return self.stalls and (self.least > STUCK * self.halved or self.since >= 2 * PATIENCE)

    def trouble(self, residual: float, before: float | None) -> Literal["grew", "stuck", ""]:
        """The reason why the step should be halved after this residual; empty if it should not.

        ``before`` is the residual of the round before, if this round was a plain step from there.
        """
        if self.factor <= LEAST:
            return ""
        if before is not None and residual > QUIET * self.first and residual > GROWTH * before:
            return "grew"
        return "stuck" if self.stuck else ""

    def anew(self) -> ResidualMonitor:
        """The pace with half the step."""
        return ResidualMonitor(0.5 * self.factor, self.first)

    @property
    def doubts(self) -> str:
        """Advice for the user if the residual stalls; empty otherwise."""
        if not self.stalls:
            return ""
        return (
            f"the residual of the rounds has not halved for {self.since:.0f} rounds: try a shorter step, "
            "other local_passes, order=Reshuffle() with acceleration=0, or FedNewton"
        )


def remembered(state: State, name: str, memory: int) -> list[Array]:
    """The arrays that the state holds under this name, of at most ``memory`` rounds, newest last."""
    return [held[0] for k in range(memory) for held in [state[_slot(name, k)]] if len(held)]


def slots(name: str, arrays: Sequence[Array], memory: int, shape: tuple[int, ...]) -> State:
    """These arrays as entries of a state; free slots hold an array of length 0."""
    free = np.empty((0, *shape))
    return {_slot(name, k): arrays[k][None] if k < len(arrays) else free for k in range(memory)}


def check_slots(state: State, memory: int, *names: str) -> int:
    """The number of rounds that a saved state remembers; it must be the same for all names and fill the first slots."""
    counts = {name: [len(state[_slot(name, k)]) for k in range(memory)] for name in names}
    first = counts[names[0]]
    if any(found != first or found != [1] * sum(found) + [0] * found.count(0) for found in counts.values()):  # fmt: skip
        told = " and ".join(f"{sum(found)} {name}s" for name, found in counts.items())
        raise InputError(
            f"resume: the saved state has {told}; they must be as many, in the first of {memory} slots"
        )
    return sum(first)


def _slot(name: str, k: int) -> str:
    return f"{name}{k}"
