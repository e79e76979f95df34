"""``reshuffle fit`` and ``reshuffle path``: fit a file, and write a model and a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.cli.common import INTERRUPTED, NOT_CONVERGED, Output, counted, shortened
from reshuffle.cli.fitting import (
    Choices,
    FitTask,
    counting,
    cross_validated,
    data_of,
    estimator,
    task_of,
)
from reshuffle.cli.live import LiveLine
from reshuffle.cli.private import check_public_encoding, with_held_out
from reshuffle.datasets import Data, Reading
from reshuffle.errors import InputError, held_warnings
from reshuffle.estimators.cross_validation import CrossValidated
from reshuffle.estimators.linear import Linear
from reshuffle.estimators.loss_names import loss_word, loss_words
from reshuffle.estimators.outcome import ended
from reshuffle.estimators.private_fit import is_private
from reshuffle.estimators.summary import dense
from reshuffle.files import check_apart, write_atomically
from reshuffle.gpu import CudaDevice
from reshuffle.report import HeldOut, fit_page, held_out_numbers, path_page
from reshuffle.report.words import data_table, left_out


def run(
    *,
    file: str,
    reading: Reading,
    choices: Choices,
    cv: bool,
    path: bool,
    out: Path,
    output: Output,
) -> int:
    """Read, fit and write; returns the exit code."""
    for name in ("model.npz", "report.html"):
        check_apart(out / name, file)
    if choices.device is not None:
        check_card(choices, cv or path)
    data = data_of(file, reading, choices)
    if is_private(choices.solver):
        check_public_encoding(data)
    task = task_of(data, choices)
    output.line(_described(file, data, task, choices))
    for name in [name for name in counting(data) if name not in reading.dates]:
        output.note(
            f"column {name!r} counts the rows; if it is a number given to them, leave it out with --drop"
        )
    clock = time.perf_counter()
    model = _fitted(task, choices, cv or path, output)
    seconds = time.perf_counter() - clock
    if task.log_target:
        model.log_target_ = True
    if model.privacy_ is not None and task.held:
        model.privacy_ = with_held_out(model.privacy_)
    held = held_out_numbers(model, task.held_X, task.held_y, task.y, task.held_known)
    if task.known:
        model.shifted_by_ = tuple(task.known)
    model.encoding_, names = data.encoding, data.encoding.feature_names
    if hasattr(data.encoding, "columns"):
        model.feature_names_in_ = np.array(names, dtype=object)
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / "model.npz", task.X, task.y)
    write: Callable[..., str] = path_page if path else fit_page
    names = list(map(shortened, names))
    page = write(
        model, names, held, _about(file, data, task, choices, model, seconds), data.encoding.target
    )
    write_atomically(out / "report.html", page.encode())
    _say(model, held, names, out, output)
    output.document(_document(model, held, data, out, seconds))
    return _ended(model, output)


def check_card(choices: Choices, cv: bool) -> None:
    """Refuse, before a row is read, a fit that is not possible on the graphics card."""
    if cv or choices.solver != "exact":
        raise InputError("--device is for one fit by --solver exact: leave out --device")
    CudaDevice("--device cuda")


def _fitted(task: FitTask, choices: Choices, cv: bool, output: Output) -> Linear:
    """The fitted model. The command prints its own line about the exit code instead of the solver's convergence warning."""
    if cv:
        with held_warnings(), output.console.status("following the path"):
            return cross_validated(task, choices).fit(
                task.X, task.fitted_y, groups=task.groups, **task.known
            )
    model = estimator(task, choices)
    with LiveLine(task.X.shape[1], model.tol or 0.0, output.live) as live, held_warnings():
        model.set_params(callbacks=live).fit(task.X, task.fitted_y, **task.known)
        return model.set_params(callbacks=None)


def _described(file: str, data: Data, task: FitTask, choices: Choices) -> str:
    n, features = data.X.shape
    if task.classes:
        found = np.unique(task.y)
        target = f"{counted(found.size, 'class', 'classes')} ({', '.join(map(str, found[:6]))}{', …' if found.size > 6 else ''})"
        if choices.loss is None and task.y.dtype.kind in "iu" and found.size > 2:
            target += "; to take them for numbers, give --loss squared"
    else:
        target = f"numbers from {task.y.min():.6g} to {task.y.max():.6g}"
    name = data.encoding.target or "target"
    held = f", {task.held:,} of them held out" if task.held else ""
    rows, used = counted(n, "row", "rows"), counted(features, "feature", "features")
    return f"{file}: {rows}{held}, {used}; {name}: {target}"


def folds_words(task: FitTask, choices: Choices) -> str:
    """A description of how rows were divided for cross-validation."""
    if choices.time:
        return f"{choices.folds}, in the order of {choices.time}, each judged by later rows"
    if choices.groups:
        return f"{choices.folds}, drawn by the seed, with all rows of one {choices.groups} together"
    mixed = ", with the same share of each class" if task.classes else ""
    return f"{choices.folds}, drawn by the seed{mixed}"


def _about(
    file: str, data: Data, task: FitTask, choices: Choices, model: Linear, seconds: float
) -> dict[str, str]:
    return {
        "file": file,
        "rows": f"{task.y.size:,} to learn from, {task.held:,} held out",
        **left_out(data.dropped),
        **data_table(data.encoding, data.filled),
        "target": data.encoding.target or "the labels of the file",
        "loss": loss_words(model.loss_),
        **{o: str(getattr(choices, o)) for o in task.known},
        **({"folds": folds_words(task, choices)} if hasattr(model, "lambda_") else {}),
        "seed": str(choices.seed),
        "time": f"{seconds:.3g} s, including evaluation",
    }


def _say(model: Linear, held: HeldOut | None, names: list[str], out: Path, output: Output) -> None:
    output.line(model.summary(8, names))
    if isinstance(model, CrossValidated):
        best = f"λ = {model.lambda_min_:.4g} has the lowest held-out loss"
        if model.lambda_ == model.lambda_min_:
            output.line(
                f"{'strength':<13}λ = {model.lambda_:.4g}, which has the lowest held-out loss"
            )
        else:
            output.line(
                f"{'strength':<13}λ = {model.lambda_:.4g}, the largest within one standard error of the best; {best}, "
                f"by {model.paired_}"
            )
        if not np.any(dense(model.coef_)):
            other = "; --rule min takes the other λ" if model.lambda_ != model.lambda_min_ else ""
            output.line(
                f"{'caution':<13}no feature is left: the model predicts the same for every row{other}"
            )
    if held is not None:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in held.scores.items())
        output.line(f"{'held out':<13}{counted(held.rows, 'row', 'rows')}: {scores}")
    output.line(f"model: {out / 'model.npz'}   report: {out / 'report.html'}")


def _document(
    model: Linear, held: HeldOut | None, data: Data, out: Path, seconds: float
) -> dict[str, Any]:
    found = {
        "model": out / "model.npz",
        "report": out / "report.html",
        "estimator": type(model).__name__,
        "loss": loss_word(model.loss_),
        "penalty": repr(model.penalty_),
        "rows": model.n_samples_fit_,
        "features": model.n_features_in_,
        "nonzeros": int(np.count_nonzero(dense(model.coef_))),
        "objective": model.objective_,
        "converged": model.converged_,
        "stationary": ended(model) == "stationary",
        "message": model.message_,
        "epochs": model.n_iter_,
        "seconds": seconds,
        "dropped": data.dropped,
        "imputed": dict(data.filled),
        "certificate": {"measure": model.certificate_.measure, "value": model.certificate_.value},
        "held_out": None if held is None else {"rows": held.rows} | held.scores,
        "classes": getattr(model, "classes_", None),
        "privacy": None if model.privacy_ is None else asdict(model.privacy_),
    }
    if isinstance(model, CrossValidated):
        found |= {n: getattr(model, f"{n}_") for n in ("lambda", "lambda_min", "lambda_1se")}
    return found


def _ended(model: Linear, output: Output) -> int:
    if model.message_.startswith("interrupted"):
        output.note(f"{model.message_}: what was found so far is written")
        return INTERRUPTED
    if ended(model) == "not converged" and model.privacy_ is None:
        output.note(
            f"the requested accuracy was not reached ({model.message_}): give more --epochs, a larger --tol or a "
            "stronger penalty"
        )
        return NOT_CONVERGED
    return 0
