from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

import numpy as np
from torch.utils.data import Sampler

from reshuffle.arrays import Visits
from reshuffle.errors import InputError, shown
from reshuffle.orders import Order, Reshuffle, check_order, is_fixed, visits_of
from reshuffle.randomness import check_seed, generator
from reshuffle.validation import check_positive


class OrderSampler(Sampler[int]):
    """The visits π_0, …, π_{n-1} of an epoch for a ``DataLoader``: a function of the order, the seed and the epoch alone.

    Each loop over the loader is an epoch, and the first is epoch 0. ``ProxRR(order=…, seed=…)`` of this package visits the samples in the
    same order.

    Parameters
    ----------
    n : the number of samples.
    order : an order of ``reshuffle.orders``; ``Reshuffle()`` by default.
    seed : a non-negative integer.

    Examples
    --------
    >>> from reshuffle.torch import OrderSampler
    >>> sampler = OrderSampler(4, seed=1)
    >>> epochs = [list(sampler), list(sampler)]
    >>> sampler.set_epoch(0)
    >>> list(sampler) == epochs[0] != epochs[1]
    True
    """

    def __init__(self, n: int, order: Order | None = None, seed: int = 0) -> None:
        check_positive("n", n, integer=True)
        self.n, self.order = int(n), check_order(Reshuffle() if order is None else order)
        self.seed = check_seed(seed)
        self._epoch, self._position, self._begun = 0, 0, False

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        if self._begun or self._position == self.n:
            self._epoch, self._position = self._epoch + 1, 0
        self._begun = True
        return self._visited(self._epoch, self._position)

    def _visited(self, epoch: int, start: int) -> Iterator[int]:
        rest = self.visits(epoch)[start:].tolist()
        for position, sample in enumerate(rest, start=start + 1):
            if self._epoch == epoch:  # A loop that was left behind by a newer one does not count.
                self._position = position
            yield sample

    def visits(self, epoch: int) -> Visits:
        """The visits of an epoch."""
        pool = np.arange(self.n, dtype=np.uint32)
        stream = 0 if is_fixed(self.order) else epoch
        return visits_of(self.order, pool, generator(self.seed, stream), epoch)

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop be this epoch, from its beginning."""
        self._epoch = _count("epoch", epoch)
        self._position, self._begun = 0, False

    def state_dict(self, used: int | None = None) -> dict[str, object]:
        """The position of the sampler, in numbers and words that any format can keep.

        Parameters
        ----------
        used : the number of samples of this epoch that the training has used. By default those that were drawn, which is the same
            if the loader has no worker processes; workers draw ahead.
        """
        position = self._position if used is None else _count("used", used, self.n)
        return {**self._identity(), "epoch": self._epoch, "position": position}

    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """Let the next loop continue from the saved position; at the end of an epoch, that is the next epoch."""
        for name, mine in self._identity().items():
            if name not in state_dict or state_dict[name] != mine:
                raise InputError(
                    f"state_dict: {name} is {shown(state_dict.get(name))}, and this sampler has {shown(mine)}"
                )
        epoch = _count("state_dict: epoch", state_dict.get("epoch"))
        position = _count("state_dict: position", state_dict.get("position"), self.n)
        self._epoch, self._position, self._begun = epoch, position, False

    def _identity(self) -> dict[str, object]:
        order = repr(self.order) if is_dataclass(self.order) else type(self.order).__name__
        return {"n": self.n, "order": order, "seed": self.seed}


def _count(name: str, value: object, most: int | None = None) -> int:
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not good or value < 0 or (most is not None and value > most):  # type: ignore[operator]
        wanted = "a non-negative integer" if most is None else f"an integer from 0 to {most}"
        raise InputError(f"{name} must be {wanted}, got {shown(value)}")
    return int(value)  # type: ignore[call-overload,no-any-return]
