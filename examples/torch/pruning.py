"""Structured pruning of a small convolutional network on a CPU: when should the prox of the group lasso be taken?

    python examples/torch/pruning.py --data digits
    RESHUFFLE_REAL=FOLDER python examples/torch/pruning.py --data fashion

The groups are the output channels of the two convolutions. A method is trained with each strength; then, for each share of
channels that has to go, those with the smallest norms are removed from each convolution (which changes nothing where the
training has made as many zero already), the strength is chosen by the mean accuracy of all seeds on a validation set, and the
table has the mean accuracy on a test set, with that strength beside it. Nothing is trained after the removal.
The convolutions have no bias, so that a channel of zeros can be removed from the network. ``fashion`` is laid out by
``python -m benchmarks.real_sets FOLDER``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import reshuffle as rs
from reshuffle.torch import OrderSampler, ProxRR, channels

SHARES = (0.25, 0.5, 0.75)
"""The shares of channels that are removed."""


class Setting(NamedTuple):
    """How a set is trained."""

    side: int
    kernels: tuple[int, int]
    stride: int
    batch: int
    epochs: int


SETTINGS = {"digits": Setting(8, (3, 3), 1, 32, 30), "fashion": Setting(28, (5, 3), 2, 64, 15)}


def load(name: str) -> list[tuple[Tensor, Tensor]]:
    """Training, validation and test sets of 60, 20 and 20 percent."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        folder = os.environ.get("RESHUFFLE_REAL")
        if not folder:
            raise SystemExit("fashion needs RESHUFFLE_REAL, the folder that has clothes.npz")
        with np.load(Path(folder) / "clothes.npz") as file:
            X, y = file["X"], file["y"]
    side = SETTINGS[name].side
    images = torch.tensor(X / X.max(), dtype=torch.float32).reshape(-1, 1, side, side)
    images -= images.mean()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(y)))
    cuts = [0, int(0.6 * len(y)), int(0.8 * len(y)), len(y)]
    parts = [order[a:b] for a, b in pairwise(cuts)]
    return [(images[part], torch.tensor(y)[part]) for part in parts]


def network(setting: Setting, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    first, second = setting.kernels
    features = nn.Sequential(
        nn.Conv2d(1, 16, first, stride=setting.stride, bias=False),
        nn.ReLU(),
        nn.Conv2d(16, 32, second, stride=setting.stride, bias=False),
        nn.ReLU(),
        nn.Flatten(),
    )
    width = features(torch.zeros(1, 1, setting.side, setting.side)).shape[1]
    return nn.Sequential(*features, nn.Linear(width, 10))


def weights(model: nn.Sequential) -> list[Tensor]:
    """The weights of the convolutions, whose output channels are the groups."""
    return [layer.weight for layer in model if isinstance(layer, nn.Conv2d)]


# --- the methods -----------------------------------------------------------------------------------

Make = Callable[[nn.Sequential, float, int], torch.optim.Optimizer]
LR = 0.1
"""The first learning rate of every method; it falls to zero as a cosine."""


def with_prox(steps: int | None) -> Make:
    """The group lasso with a prox after this number of steps; ``None``: once per epoch."""

    def make(model: nn.Sequential, strength: float, epoch: int) -> torch.optim.Optimizer:
        groups = [
            {"params": weights(model), "penalty": rs.penalties.GroupLasso(strength)},
            {"params": model[-1].parameters()},
        ]
        return ProxRR(groups, LR, steps_per_prox=steps or epoch)

    return make


def with_decay(model: nn.Sequential, strength: float, epoch: int) -> torch.optim.Optimizer:
    """Weight decay of the convolutions, for which thresholding has to remove the channels."""
    decayed = {"params": weights(model), "weight_decay": strength}
    return torch.optim.SGD([decayed, {"params": model[-1].parameters()}], LR)


GROUP_STRENGTHS = (3e-4, 1e-3, 3e-3, 6e-3)
DECAYS = (1e-3, 3e-3, 1e-2, 3e-2)
METHODS: dict[str, tuple[Make, tuple[float, ...]]] = {
    "prox once per epoch": (with_prox(None), GROUP_STRENGTHS),
    "prox every 10 steps": (with_prox(10), GROUP_STRENGTHS),
    "prox each step": (with_prox(1), GROUP_STRENGTHS),
    "weight decay, threshold": (with_decay, DECAYS),
}


def train(
    make: Make, strength: float, data: tuple[Tensor, Tensor], setting: Setting, seed: int
) -> tuple[nn.Sequential, float]:
    """The trained network, and the smallest CPU time of an epoch in seconds."""
    model = network(setting, seed)
    sampler = OrderSampler(len(data[1]), seed=seed)
    loader = DataLoader(TensorDataset(*data), setting.batch, sampler=sampler, drop_last=True)
    optimizer = make(model, strength, len(loader))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setting.epochs * len(loader))
    quickest = np.inf
    for _ in range(setting.epochs):
        begin = time.process_time()
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            scheduler.step()
        quickest = min(quickest, time.process_time() - begin)
    if isinstance(optimizer, ProxRR):
        optimizer.finish()  # for the steps since the last prox, where an epoch is no multiple of them
    return model, quickest


# --- pruning ---------------------------------------------------------------------------------------


def zeros(model: nn.Sequential) -> int:
    """The number of channels that the training itself has made zero."""
    return sum(int((channels(w).norm(dim=1) == 0).sum()) for w in weights(model))


@torch.no_grad()
def accuracies(
    model: nn.Sequential, share: float, sets: list[tuple[Tensor, Tensor]]
) -> list[float]:
    """The accuracies without this share of the channels of each convolution; the model is left as it was."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    for w in weights(model):
        w[torch.argsort(channels(w).norm(dim=1))[: round(share * len(w))]] = 0.0
    found = [float((model(X).argmax(1) == y).float().mean()) for X, y in sets]
    model.load_state_dict(kept)
    return found


def compare(name: str, setting: Setting, seeds: int) -> None:
    training, *others = load(name)
    print(
        f"{name}: {len(training[1])} images for training, {setting.epochs} epochs, {seeds} seeds\n"
    )
    shares = [f"{share:.0%} removed" for share in SHARES]
    heads = ["method", *shares, "zero channels by strength", "CPU time of an epoch"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for method, (make, strengths) in METHODS.items():
        runs = [
            [train(make, strength, training, setting, seed) for seed in range(seeds)]
            for strength in strengths
        ]
        cells = []
        for share in SHARES:
            scores = [
                np.mean([accuracies(model, share, others) for model, _ in same], axis=0)
                for same in runs
            ]
            best = int(np.argmax([validation for validation, _ in scores]))
            cells.append(f"{scores[best][1]:.1%} ({strengths[best]:g})")
        removed = [f"{np.mean([zeros(model) for model, _ in same]):.0f}" for same in runs]
        total = sum(len(w) for w in weights(runs[0][0][0]))
        cells.append(", ".join(removed) + f" of {total}")
        cells.append(f"{1e3 * min(seconds for same in runs for _, seconds in same):.0f} ms")
        print(f"| {method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=sorted(SETTINGS), default="digits")
    parser.add_argument("--epochs", type=int, help="30 for digits and 15 for fashion by default")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    chosen = SETTINGS[given.data]
    compare(given.data, chosen._replace(epochs=given.epochs or chosen.epochs), given.seeds)
