from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import UninitializedParameter

from reshuffle.errors import InputError, shown
from reshuffle.penalties import Penalty
from reshuffle.torch.channels import as_numbers, channels, check_axis, write
from reshuffle.validation import check_positive, check_vector

Group = dict[str, Any]
"""A parameter group of torch: the parameters and their options."""
SAVED = ("lr", "steps_per_prox", "axis", "steps")
"""The options of a group that a saved state must have; ``steps`` counts the gradient steps since the last prox."""


class ProxRR(torch.optim.Optimizer):
    """Gradient steps, and one prox for all of them after every m steps (Algorithm 1 of the paper, for PyTorch).

    For each parameter w, with the gradient g of the loss of a batch and the learning rates γ since the last prox,

        w ← w - γ_i g_i,   i = 1, …, m,       then       w ← prox_{(γ_1 + … + γ_m) ψ}(w).

    With ``steps_per_prox=len(loader)`` this is the method of the paper: one prox per epoch, with γm. One step
    per prox is the usual proximal stochastic gradient method.

    Only steps in which a parameter had a gradient count, so that a frozen layer is not shrunk. The prox is left out for a
    parameter that is not finite; the loss will show it.

    Parameters
    ----------
    params : parameters, or dicts of parameter groups, which may have their own ``lr``, ``penalty``, ``steps_per_prox`` and ``axis``.
    lr : the learning rate γ, a number that is not negative. Schedulers may change it at every step.
    penalty : ψ, any penalty of this package or of your own, which is applied to each parameter by itself; ``None`` for no penalty.
        It takes a matrix with a row for each channel (``channels``), or the vector of a bias.
    steps_per_prox : m, the number of calls of ``step`` for each prox.
    axis : the axis of the channels; see ``channels``.

    Examples
    --------
    >>> import torch
    >>> import reshuffle as rs
    >>> from reshuffle.torch import ProxRR
    >>> w = torch.tensor([2.0, 0.3], requires_grad=True)
    >>> optimizer = ProxRR([w], lr=0.1, penalty=rs.penalties.L1(1.0), steps_per_prox=5)
    >>> for _ in range(5):
    ...     optimizer.zero_grad()
    ...     (0.0 * w.sum()).backward()
    ...     optimizer.step()
    >>> w.detach()
    tensor([1.5000, 0.0000])

    References
    ----------
    Mishchenko, Khaled, Richtárik: Proximal and Federated Random Reshuffling, ICML 2022.
    """

    def __init__(
        self,
        params: object,
        lr: float,
        *,
        penalty: Penalty | None = None,
        steps_per_prox: int,
        axis: int = 0,
    ) -> None:
        options = {"lr": lr, "penalty": penalty, "steps_per_prox": steps_per_prox, "axis": axis}
        super().__init__(params, {**options, "steps": 0})

    def add_param_group(self, param_group: Group) -> None:
        """Add a group; if its options do not fit its parameters, an error says so and nothing is added."""
        super().add_param_group(param_group)
        try:
            _check_group(self.param_groups[-1], len(self.param_groups) - 1)
        except InputError:
            self.param_groups.pop()
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override,unused-ignore]
        """One gradient step for every parameter that has a gradient, and the prox of the groups for which it is due.

        ``closure`` computes the loss and its gradients anew; its value is returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._refuse_sparse_gradients()
        for group in self.param_groups:
            lr = float(group["lr"])
            for w in group["params"]:
                if w.grad is not None:
                    w.add_(w.grad, alpha=-lr)
                    state = self.state[w]
                    state["length"] = state.get("length", 0.0) + lr
            group["steps"] += 1
            if group["steps"] >= group["steps_per_prox"]:
                self._prox(group)
        return loss

    @torch.no_grad()
    def finish(self) -> None:
        """Take the prox for the steps since the last prox, at the end of a training whose steps are not a multiple of ``steps_per_prox``."""
        for group in self.param_groups:
            self._prox(group)

    def penalty_value(self) -> float:
        """Σ ψ(w) over the parameters of all groups."""
        return sum(
            float(group["penalty"].value(as_numbers(w, group["axis"])))
            for group in self.param_groups
            if group["penalty"] is not None
            for w in group["params"]
        )

    def state_dict(self) -> dict[str, object]:
        """The state in numbers alone, which ``torch.load(weights_only=True)`` reads; penalties are not part of it."""
        found: dict[str, Any] = super().state_dict()
        for group in found["param_groups"]:
            group.pop("penalty", None)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state, also in the middle of an epoch; the groups keep their present penalties."""
        for number, saved in enumerate(state_dict["param_groups"]):
            missing = [name for name in SAVED if name not in saved]
            if missing:
                raise InputError(
                    f"state_dict must be that of a ProxRR; its group {number} lacks {', '.join(missing)}"
                )
        penalties = [group["penalty"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, penalty in zip(self.param_groups, penalties, strict=True):
            group["penalty"] = penalty

    def _prox(self, group: Group) -> None:
        group["steps"] = 0
        for w in group["params"]:
            length = self.state[w].pop("length", 0.0) if w in self.state else 0.0
            if group["penalty"] is None or length == 0.0 or not bool(torch.isfinite(w).all()):
                continue
            x = as_numbers(w, group["axis"])
            name = f"prox of penalty {type(group['penalty']).__name__}"
            write(w, group["axis"], check_vector(name, group["penalty"].prox(x, length), x.shape))

    def _refuse_sparse_gradients(self) -> None:
        for number, group in enumerate(self.param_groups):
            for place, w in enumerate(group["params"]):
                if w.grad is not None and w.grad.layout != torch.strided:
                    raise InputError(
                        f"params: ProxRR needs dense gradients, and that of parameter {place} in group {number} has the layout "
                        f"{w.grad.layout}: build the layer with sparse=False, or leave it to torch.optim.SparseAdam"
                    )


def _check_group(group: Group, number: int) -> None:
    lr, penalty = group["lr"], group["penalty"]
    numeric = isinstance(lr, (int, float, np.number)) and not isinstance(lr, bool)
    if not (numeric and 0 <= lr < np.inf):
        raise InputError(f"lr must be a finite number that is not negative, got {shown(lr)}")
    check_positive("steps_per_prox", group["steps_per_prox"], integer=True)
    if penalty is not None and (isinstance(penalty, type) or not isinstance(penalty, Penalty)):
        raise InputError(
            f"penalty must be None or have the methods value and prox, as rs.penalties.L1(0.01) has, got {shown(penalty)}"
        )
    if len({id(w) for w in group["params"]}) < len(group["params"]):
        raise InputError(f"params: a parameter occurs more than once in group {number}")
    for place, w in enumerate(group["params"]):
        _check_parameter(w, group, f"parameter {place} of group {number}")


def _check_parameter(w: torch.Tensor, group: Group, name: str) -> None:
    if isinstance(w, UninitializedParameter):
        raise InputError(
            f"params: {name} has no shape yet: pass one batch through the lazy module first"
        )
    if not w.dtype.is_floating_point:
        raise InputError(f"params: {name} must have a real floating-point type, got {w.dtype}")
    check_axis(group["axis"], w.ndim)
    penalty = group["penalty"]
    if penalty is None:
        return
    zero = np.zeros(tuple(channels(w.detach(), group["axis"]).shape))
    try:
        check_vector("prox", penalty.prox(zero, 1.0), zero.shape)
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"penalty {shown(penalty)} does not fit {name}, whose channels have the shape {zero.shape}: {error}"
        ) from error
