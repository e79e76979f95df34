"""The optimiser for PyTorch: the method of the paper, in the conventions of torch."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import reshuffle as rs

torch: Any = pytest.importorskip("torch", reason="PyTorch is an extra")
rt: Any = pytest.importorskip("reshuffle.torch")

N, D, EPOCHS, STEP = 24, 5, 6, 0.05
L1 = rs.penalties.L1(0.03)


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, X @ np.array([1.0, -2.0, 0.0, 0.0, 0.5]) + 0.1 * rng.standard_normal(N)


def trained(
    optimizer: Any, w: Any, sampler: Any, epochs: int, after: Callable[[], None] = lambda: None
) -> None:
    """Least squares with one sample a step; ``after`` is called after each epoch."""
    X, y = (torch.from_numpy(part) for part in data())
    for _ in range(epochs):
        for i in sampler:
            optimizer.zero_grad()
            (0.5 * (X[i].to(w.dtype) @ w - y[i].to(w.dtype)) ** 2).backward()
            optimizer.step()
        after()


def weights(dtype: Any = None) -> Any:
    return torch.zeros(D, dtype=dtype or torch.float64, requires_grad=True)


PENALTIES = [
    L1,
    rs.penalties.ElasticNet(0.02, 0.1),
    rs.penalties.GroupLasso(0.02, groups=[0, 0, 1, 1, 2]),
    rs.penalties.SLOPE(1.0, np.linspace(0.05, 0.01, D)),
    rs.penalties.FusedLasso(0.02),
    rs.penalties.Box(-0.5, 0.5),
    rs.penalties.MCP(0.05, 3.0),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("order", [rs.orders.Reshuffle(), rs.orders.ShuffleOnce()])
def test_on_a_linear_model_the_iterates_are_those_of_the_solver(penalty: Any, order: Any) -> None:
    X, y = data()
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=penalty)
    ways: list[tuple[Any, int]] = [("epoch", N), ("step", 1)]
    for prox, steps_per_prox in ways:
        w = weights()
        optimizer = rt.ProxRR([w], lr=STEP, penalty=penalty, steps_per_prox=steps_per_prox)
        trained(optimizer, w, rt.OrderSampler(N, order, seed=3), EPOCHS)
        solver = rs.ProxRR(step=STEP, order=order, prox=prox, epochs=EPOCHS, seed=3)
        np.testing.assert_allclose(w.detach().numpy(), solver.solve(problem).x, rtol=0, atol=1e-12)


def test_a_scheduler_gives_the_iterates_of_a_schedule() -> None:
    X, y = data()
    problem = rs.Problem(X, y, loss=rs.losses.Squared(), penalty=L1)
    w = weights()
    optimizer = rt.ProxRR([w], lr=STEP, penalty=L1, steps_per_prox=N)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    trained(optimizer, w, rt.OrderSampler(N, seed=3), EPOCHS, scheduler.step)
    solver = rs.ProxRR(step=lambda epoch: STEP * 0.7**epoch, epochs=EPOCHS, seed=3)
    np.testing.assert_allclose(w.detach().numpy(), solver.solve(problem).x, rtol=0, atol=1e-12)


def test_the_prox_has_the_sum_of_the_learning_rates_since_the_last_one() -> None:
    w = torch.tensor([1.0, -1.0, 0.05], dtype=torch.float64, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.1, penalty=rs.penalties.L1(1.0), steps_per_prox=3)
    for lr in (0.1, 0.2, 0.05):
        optimizer.param_groups[0]["lr"] = lr
        w.grad = torch.zeros_like(w)
        assert w[2] == 0.05
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), [0.65, -0.65, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    "penalty",
    [
        rs.penalties.GroupLasso(0.3),
        rs.penalties.MultitaskLasso(0.3),
        rs.penalties.NuclearNorm(0.3),
        rs.penalties.L1(0.1),
        rs.penalties.SparseGroupLasso(0.1, 0.3),
    ],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_prox_lowers_its_objective_by_half_the_squared_distance(
    penalty: Any, dtype: str, axis: int
) -> None:
    """Φ(p) + ‖u - p‖²/2 ≤ Φ(u) for every u, where Φ(u) = length·ψ(u) + ‖u - w‖²/2, on the weight of a convolution."""
    torch.manual_seed(0)
    w = torch.randn(4, 3, 2, 2, dtype=getattr(torch, dtype)).requires_grad_()
    before = rt.channels(w.detach().double(), axis).numpy().copy()
    optimizer = rt.ProxRR([w], lr=0.5, penalty=penalty, steps_per_prox=2, axis=axis)
    for _ in range(2):
        w.grad = torch.zeros_like(w)
        optimizer.step()
    p = rt.channels(w.detach().double(), axis).numpy()
    assert p.shape == ((4, 12) if axis == 0 else (3, 16))

    def objective(u: Any) -> float:
        return float(penalty.value(u) + 0.5 * np.sum((u - before) ** 2))

    rng = np.random.default_rng(1)
    for u in (before, 0.0 * before, *(p + 0.3 * rng.standard_normal(p.shape) for _ in range(20))):
        assert objective(p) + 0.5 * np.sum((u - p) ** 2) <= objective(u) + 1e-6
    assert optimizer.penalty_value() == pytest.approx(penalty.value(p))


def test_whole_channels_become_zero_and_groups_have_their_own_penalties() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2)
    )
    with torch.no_grad():
        layers[0].weight[:3] *= 0.01
    bias, rank = layers[0].bias.detach().clone(), torch.linalg.matrix_rank(layers[2].weight)
    optimizer = rt.ProxRR(
        [
            {"params": [layers[0].weight], "penalty": rs.penalties.MultitaskLasso(1.0)},
            {"params": [layers[2].weight], "penalty": rs.penalties.NuclearNorm(1.0), "lr": 0.25},
            {"params": [layers[0].bias, layers[2].bias], "steps_per_prox": 7},
        ],
        lr=0.1,
        steps_per_prox=2,
    )
    for _ in range(2):
        optimizer.zero_grad()
        (0.0 * layers(torch.ones(1, 1, 3, 3)).sum()).backward()
        optimizer.step()
    assert (rt.channels(layers[0].weight).norm(dim=1) == 0).tolist() == [True] * 3 + [False] * 3
    assert torch.linalg.matrix_rank(layers[2].weight) < rank
    assert torch.equal(layers[0].bias, bias)
    assert [group["steps"] for group in optimizer.param_groups] == [0, 0, 2]


@pytest.mark.parametrize("stop", [0, 7, N, N + 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(stop: int, dtype: str) -> None:
    X, y = (torch.from_numpy(part).to(getattr(torch, dtype)) for part in data())

    def parts() -> tuple[Any, Any, Any, Any]:
        w = weights(X.dtype)
        optimizer = rt.ProxRR([w], lr=STEP, penalty=L1, steps_per_prox=N)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3 * N)
        return w, optimizer, scheduler, rt.OrderSampler(N, seed=5)

    def run(w: Any, optimizer: Any, scheduler: Any, sampler: Any, first: int, last: int) -> None:
        done = first
        while done < last:
            set_ = torch.utils.data.TensorDataset(X, y)
            for rows, targets in torch.utils.data.DataLoader(set_, batch_size=1, sampler=sampler):
                optimizer.zero_grad()
                (0.5 * (rows @ w - targets) ** 2).mean().backward()
                optimizer.step()
                scheduler.step()
                done += 1
                if done == last:
                    return

    whole, first = parts(), parts()
    run(*whole, 0, 3 * N)
    run(*first, 0, stop)
    saved = io.BytesIO()
    torch.save([first[0].detach(), *(part.state_dict() for part in first[1:])], saved)
    saved.seek(0)
    w, *states = torch.load(saved, weights_only=True)  # numbers alone, no pickled classes
    second = parts()
    with torch.no_grad():
        second[0].copy_(w)
    for part, state in zip(second[1:], states, strict=True):
        part.load_state_dict(state)
    run(*second, stop, 3 * N)
    assert torch.equal(second[0], whole[0])


def test_a_closure_is_called_once_with_gradients_and_its_loss_returned() -> None:
    w = weights()
    optimizer = rt.ProxRR([w], lr=0.5, steps_per_prox=1)
    calls = []

    def closure() -> Any:
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = ((w - 1.0) ** 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == D
    assert calls == [True]
    assert torch.equal(w.detach(), torch.ones(D, dtype=torch.float64))


def test_a_parameter_without_a_gradient_is_not_shrunk() -> None:
    frozen = torch.ones(3, requires_grad=True)
    once = torch.ones(3, requires_grad=True)
    optimizer = rt.ProxRR([frozen, once], lr=0.1, penalty=rs.penalties.L1(1.0), steps_per_prox=4)
    for step in range(4):
        optimizer.zero_grad()
        if step == 2:
            once.grad = torch.zeros(3)
        optimizer.step()
    assert torch.equal(frozen.detach(), torch.ones(3))
    torch.testing.assert_close(once.detach(), torch.full((3,), 0.9))


def test_a_parameter_that_is_not_contiguous() -> None:
    base = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0))
    w = base[:, ::2].transpose(0, 1).requires_grad_()
    assert not w.is_contiguous()
    expected = rs.penalties.MultitaskLasso(1.0).prox(
        w.detach().double().reshape(4, -1).numpy().copy(), 0.4
    )
    optimizer = rt.ProxRR([w], lr=0.4, penalty=rs.penalties.MultitaskLasso(1.0), steps_per_prox=1)
    w.grad = torch.zeros_like(w)
    optimizer.step()
    np.testing.assert_allclose(w.detach().reshape(4, -1).numpy(), expected, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_numbers_are_taken_in_double_precision(dtype: str) -> None:
    w = torch.tensor([1.0, 0.1], dtype=getattr(torch, dtype), requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.5, penalty=rs.penalties.L1(1.0), steps_per_prox=1)
    w.grad = torch.zeros_like(w)
    optimizer.step()
    assert w.tolist() == [0.5, 0.0]


def test_finish_takes_the_prox_of_the_steps_that_are_left() -> None:
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.125, penalty=rs.penalties.L1(1.0), steps_per_prox=4)
    for _ in range(6):
        w.grad = torch.zeros_like(w)
        optimizer.step()
    assert w.tolist() == [0.5, 0.5]
    optimizer.finish()
    assert w.tolist() == [0.25, 0.25]
    optimizer.finish()  # nothing is left
    assert w.tolist() == [0.25, 0.25]


def test_a_learning_rate_of_zero_changes_nothing() -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.0, penalty=rs.penalties.L1(1.0), steps_per_prox=1)
    w.grad = torch.ones(2)
    optimizer.step()
    assert w.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "penalty", [L1, rs.penalties.SLOPE(1.0, [0.2, 0.1]), rs.penalties.L1Ball(0.5)], ids=repr
)
def test_a_gradient_that_is_nan_stays_visible(penalty: Any) -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.1, penalty=penalty, steps_per_prox=1)
    w.grad = torch.tensor([float("nan"), 0.0])
    optimizer.step()
    assert torch.isnan(w[0])
    assert w[1] == 1.0


def test_a_scalar_parameter_and_an_empty_group() -> None:
    scalar = torch.tensor(1.0, requires_grad=True)
    none = torch.zeros(0, requires_grad=True)
    optimizer = rt.ProxRR(
        [{"params": [scalar, none], "penalty": rs.penalties.L1(1.0)}, {"params": []}],
        lr=0.25,
        steps_per_prox=1,
    )
    scalar.grad, none.grad = torch.tensor(0.0), torch.zeros(0)
    optimizer.step()
    assert scalar.item() == 0.75
    assert scalar.shape == ()
    optimizer.add_param_group({"params": weights(), "penalty": L1})
    assert len(optimizer.param_groups) == 3
    assert optimizer.param_groups[2]["lr"] == 0.25


def test_copies_and_pickles_go_on_as_the_original() -> None:
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.125, penalty=rs.penalties.L1(1.0), steps_per_prox=2)
    w.grad = torch.zeros_like(w)
    optimizer.step()
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    for each in (optimizer, *copies):
        (other,) = each.param_groups[0]["params"]
        other.grad = torch.zeros_like(other)
        each.step()
        assert other.tolist() == [0.75, 0.75]


def test_sparse_gradients_are_refused_before_anything_changes() -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    w = torch.ones(2, requires_grad=True)
    optimizer = rt.ProxRR([w, table.weight], lr=0.1, penalty=L1, steps_per_prox=1)
    (table(torch.tensor([1, 3])).sum() + w.sum()).backward()
    with pytest.raises(rs.InputError, match=r"params: .* parameter 1 in group 0 .*sparse"):
        optimizer.step()
    assert w.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "lr must be"),
        ({"lr": float("nan")}, "lr must be"),
        ({"lr": "0.1"}, "lr must be"),
        ({"steps_per_prox": 0}, "steps_per_prox must be a positive integer"),
        ({"steps_per_prox": 2.0}, "steps_per_prox must be a positive integer"),
        ({"penalty": 0.1}, "penalty must be None or have the methods"),
        ({"penalty": rs.penalties.L1}, "penalty must be None or have the methods"),
        (
            {"penalty": rs.penalties.NuclearNorm(0.1)},
            r"penalty NuclearNorm.* does not fit parameter 0",
        ),
        (
            {"penalty": rs.penalties.SLOPE(1.0, [0.3, 0.2])},
            "penalty SLOPE.* does not fit parameter 0",
        ),
        ({"penalty": rs.penalties.L1(np.full(4, 0.1))}, "penalty L1.* does not fit parameter 0"),
        ({"axis": 1}, "axis must be an integer from 0 to 0"),
        ({"axis": 0.0}, "axis must be"),
    ],
)
def test_bad_options_are_refused_by_name(options: Any, message: str) -> None:
    with pytest.raises(rs.InputError, match=message):
        rt.ProxRR([weights()], **({"lr": 0.1, "steps_per_prox": 2} | options))
    optimizer = rt.ProxRR([weights()], lr=0.1, steps_per_prox=2)
    with pytest.raises(
        rs.InputError, match=message.replace("parameter 0", "parameter 0 of group 1")
    ):
        optimizer.add_param_group({"params": weights(), **options})
    assert len(optimizer.param_groups) == 1


def test_bad_parameters_are_refused() -> None:
    w = weights()
    lazy = torch.nn.LazyLinear(2).weight
    for params, message in (
        ([w, w], "occurs more than once in group 0"),
        ([torch.zeros(2, dtype=torch.complex64, requires_grad=True)], "real floating-point"),
        ([lazy], "no shape yet"),
    ):
        with (
            pytest.warns(UserWarning, match="duplicate") if params[0] is w else _quiet(),
            pytest.raises(rs.InputError, match=message),
        ):
            rt.ProxRR(params, lr=0.1, steps_per_prox=1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        rt.ProxRR([{"params": [w]}, {"params": [w]}], lr=0.1, steps_per_prox=1)
    with pytest.raises(ValueError, match="empty parameter list"):
        rt.ProxRR([], lr=0.1, steps_per_prox=1)


def _quiet() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_the_state_of_another_optimiser_is_refused() -> None:
    w = weights()
    optimizer = rt.ProxRR([w], lr=0.1, penalty=L1, steps_per_prox=1)
    with pytest.raises(rs.InputError, match=r"state_dict must be that of a ProxRR.*steps_per_prox"):
        optimizer.load_state_dict(torch.optim.SGD([w], lr=0.2).state_dict())
    assert optimizer.param_groups[0]["penalty"] == L1
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(
            rt.ProxRR(
                [{"params": [w]}, {"params": weights()}], lr=0.1, steps_per_prox=1
            ).state_dict()
        )
    assert optimizer.param_groups[0]["penalty"] == L1


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1.0 / (1 + k)),
    ],
)
def test_schedulers_of_torch(make: Callable[[Any], Any]) -> None:
    w = torch.full((3,), 100.0, dtype=torch.float64, requires_grad=True)
    optimizer = rt.ProxRR([w], lr=0.1, penalty=rs.penalties.L1(1.0), steps_per_prox=5)
    scheduler = make(optimizer)
    total = 0.0
    for _ in range(10):
        total += optimizer.param_groups[0]["lr"]
        w.grad = torch.zeros_like(w)
        optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(w.detach().numpy(), 100.0 - total, rtol=1e-13)


def test_the_package_does_not_load_torch() -> None:
    code = "import reshuffle as rs, sys; rs.ProxRR(), rs.penalties.L1(1.0); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
