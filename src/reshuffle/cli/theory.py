"""``reshuffle theory``: the theorems' predictions for a data file, as a table."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from reshuffle import datasets, theory
from reshuffle.arrays import AnyArray
from reshuffle.cli.common import Output, grid
from reshuffle.cli.fitting import are_classes
from reshuffle.datasets import Reading
from reshuffle.datasets.reading import is_table
from reshuffle.errors import InputError
from reshuffle.labels import as_written
from reshuffle.losses.names import OF_CLASSES, OF_NUMBERS
from reshuffle.penalties import L1, ElasticNet
from reshuffle.problem import Problem
from reshuffle.theory import Constants, Prediction, RadiusEstimate
from reshuffle.theory.bounds import strongly_convex


def run(
    *,
    data: str,
    l1: float,
    l2: float | None,
    ridge: float,
    loss: str | None,
    accuracy: float | None,
    reading: Reading,
    output: Output,
) -> None:
    """Load, find x*, and print constants, predictions and the preferred method."""
    console = output.console
    X, y, loss = _data(data, reading, loss, output)
    plain = Problem(X, y, (OF_CLASSES | OF_NUMBERS)[loss](), L1(1.0))
    if l2 is None:
        l2 = 0.0 if ridge > 0 else plain.smoothness.L_f / plain.n
    problem = Problem(X, y, plain.loss, ElasticNet(l1, l2), ridge)
    # Refused here, before a long search for x*.
    strongly_convex("f or ψ", problem.strong_convexity)
    with console.status("finding x* with FISTA"):
        c = theory.constants(problem)
    eps = 0.01 * c.r0 if accuracy is None else accuracy
    with console.status("measuring the shuffling radius"):
        found, radius = theory.predictions(problem, c, eps)
    output.line(
        f"{data}: {problem.n:,} samples, {problem.features:,} features, {loss} loss, "
        f"λ1 = {l1:.4g}, λ2 = {l2:.4g}, ridge = {ridge:.4g}"
    )
    output.table(_constants(problem, plain, c, radius))
    output.table(_predictions(found, eps, c))
    for line in [*_advice(found, c), to_run(found, c)]:
        output.line(line)
    output.document({
        "l1": l1,
        "l2": l2,
        "ridge": ridge,
        "loss": loss,
        "accuracy": eps,
        "constants": {name: value for name, value in vars(c).items() if name != "x_star"},
        "radius": vars(radius),
        "methods": [vars(row) for row in found],
        "to_run": to_run(found, c),
    })  # fmt: skip


def _data(
    file: str, reading: Reading, loss: str | None, output: Output
) -> tuple[object, AnyArray, str]:
    if reading.target is None and reading.format in (None, "libsvm") and not is_table(file):
        X, y = datasets.load_libsvm(file, progress=output.live)
        return X, y, loss or "logistic"
    found = datasets.load_data(file, reading)
    if not are_classes(found.y, loss):
        return found.X, found.y - found.y.mean(), loss or "squared"
    y = as_written(found.y)
    names = np.unique(y)
    if names.size != 2:
        raise InputError(
            f"theory is for numbers or two classes, and the target holds {names.size} ({', '.join(map(str, names[:6]))}); "
            "give --loss squared where they are numbers"
        )
    output.line(f"{reading.target}: {names[1]} is +1, {names[0]} is -1")
    return found.X, np.where(y == names[1], 1.0, -1.0), loss or "logistic"


def to_run(found: list[Prediction], c: Constants) -> str:
    """A sentence with the recommended step and number of epochs, and the accuracy proved for them."""
    row = found[0]
    share = row.reached / c.r0
    return (
        f"To run: {row.method}(step={row.step:.4g}, epochs={row.epochs}), from x_0 = 0. Proved, by the theorem for strongly convex "
        f"{_convex(c)}: E‖x - x*‖² ≤ {row.reached:.3g}, which is {100 * share:.2g} % of ‖x_0 - x*‖². The mean is over the "
        "permutations; a single run may be above it, and nothing is said of P(x)."
    )


def _constants(problem: Problem, plain: Problem, c: Constants, radius: RadiusEstimate) -> Table:
    mu = max(c.mu_f, c.mu_psi)
    rows: list[tuple[str, float, str]] = [
        ("L_max", c.L_max, "smoothness of the least smooth f_i"),
        ("L̄", c.L_mean, f"mean of the L_i, which are {c.L_min:.4g} or more"),
        ("L_f", c.L_f, "smoothness of their average f"),
        ("μ_f", c.mu_f, "strong convexity of each f_i"),
        ("μ_ψ", c.mu_psi, "strong convexity of the penalty"),
        ("κ", c.L_max / mu, "L_max/μ"),
        ("σ*²", c.sigma_star_sq, "mean of ‖∇f_i(x*) - ∇f(x*)‖²"),
        ("‖∇f(x*)‖", c.grad_norm, "not zero because of the penalty"),
        (
            "σ_rad²",
            radius.value,
            f"shuffling radius, measured: {radius.low:.3g} to {radius.high:.3g}",
        ),
        ("", theory.shuffling_radius_bound(c), "its upper bound"),
        ("r_0", c.r0, "‖x_0 - x*‖² from x_0 = 0"),
        ("λ_max", plain.lambda_max(), "the λ1 from which on x* = 0"),
    ]
    told = [(name, f"{value:.4g}", meaning) for name, value, meaning in rows]
    nonzero = int(np.count_nonzero(c.x_star))
    told.append(("x* ≠ 0", f"{nonzero:,}", f"nonzero coordinates, of {problem.features:,}"))
    return grid(("", "value", "what it is"), told, "constants", words=(0, 2), framed=False)


def _predictions(found: list[Prediction], eps: float, c: Constants) -> Table:
    title = f"for ε = {eps:.3g}, by the theorems for strongly convex {_convex(c)}"
    titles = ("method", "step γ", "epochs", "gradients", "prox evals", "reached")
    rows = [
        (
            row.method,
            f"{row.step:.3g}",
            *map(_count, (row.epochs, row.gradients, row.prox_evals)),
            "ε" if row.reached == eps else f"{row.reached / eps:.2g}ε",
        )
        for row in found
    ]
    return grid(titles, rows, title, framed=False)


def _convex(c: Constants) -> str:
    return "f_i" if c.mu_f >= c.mu_psi else "ψ"


def _count(number: int) -> str:
    return f"{number:,}" if number < 10_000_000 else f"{number:.2e}"


def _advice(found: list[Prediction], c: Constants) -> list[str]:
    few = min(found, key=lambda row: row.gradients)
    rare = min(found, key=lambda row: row.prox_evals)
    lines = [
        f"fewest gradients:  {few.method}, γ = {few.step:.3g}",
        f"fewest prox evals: {rare.method}, γ = {rare.step:.3g}",
    ]
    for word, (low, high) in {
        "gradients": theory.proxsgd_cheaper(c, "gradients"),
        "prox evaluations": theory.proxsgd_cheaper(c, "prox"),
    }.items():
        text = f"at no ε ≤ r_0 = {c.r0:.3g}"
        if low < min(high, c.r0):
            text = f"for ε from {low:.2g} to {min(high, c.r0):.2g}"
        lines.append(f"ProxSGD needs fewer {word} than ProxRR {text}")
    lines.append(
        "These are worst cases over all problems with these constants; `reached` bounds E‖x - x*‖². "
        "'copies' are importance resampling. For the minimiser itself use ExactProxRR."
    )
    return lines
