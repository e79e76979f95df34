"""Writes the files of a run, the same as those of ``reshuffle federate``, and a log line for each round."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reshuffle.cli.federate_model import file_of_a_run, write_outcome
from reshuffle.errors import FileError, InputError, shown
from reshuffle.federated import FederatedResult
from reshuffle.flower.settings import RunSettings
from reshuffle.trace import Result

logger = logging.getLogger("reshuffle")
OUTCOME = ("result.npz", "trace.csv", "federation.png", "model.npz", "report.html")
"""The files that ``write`` makes."""

LOCK = ".lock"
"""The file that a run keeps locked. It remains after the run, without meaning."""


def check_folder(out: Path, resume: bool, force: bool) -> Path:
    """The checkpoint's path; a folder that holds a run is refused, unless the run is resumed or may be overwritten."""
    checkpoint = out / "checkpoint.npz"
    try:
        earlier = file_of_a_run(out)
    except OSError as error:
        raise _not_a_folder(out, error) from None
    if resume and not checkpoint.is_file():
        raise InputError(f"resume: there is no checkpoint {checkpoint}")
    if earlier is not None and not (resume or force):
        raise InputError(
            f"{earlier} belongs to an earlier run: go on with resume=true, give another out, or overwrite it "
            "with force=true"
        )
    return checkpoint


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Make the folder and lock it against other runs; the system releases the lock when the process ends, however it ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("ab")
    except OSError as error:
        raise _not_a_folder(out, error) from None
    with lock:
        if not _locked(lock.fileno()):
            raise InputError(
                f"another run writes into {out}: wait for its end, end it with `flwr stop`, or give another out"
            )
        yield


def _not_a_folder(out: Path, error: OSError) -> FileError:
    return FileError(
        f"out must be a folder that can be written to, got {shown(str(out))}: {error.strerror}",
        error.errno,
    )


def _locked(number: int) -> bool:
    """Whether the file could be locked; on systems without locks (Windows, some network file systems) this is always true."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def clear_outcome(out: Path) -> None:
    """Remove the files that an earlier run wrote at its end, so that none lies beside the checkpoint of another run."""
    for name in OUTCOME:
        (out / name).unlink(missing_ok=True)


def report_round(result: Result) -> None:
    """Log a line for the round. Sites report the value at x with their answers of the next round, so the line shows the value of the round before."""
    told = []
    for name, form in (
        ("objective", "P = {:.8g}"),
        ("gap", "gap = {:.3g}"),
        ("relative_mapping", "mapping = {:.3g}"),
    ):
        latest = result.trace[name][-2:] if name in result.trace else ()
        told += [form.format(value) for value in latest if value == value][-1:]
    before = f" (after round {result.epoch - 1}: {', '.join(told)})" if told else ""
    logger.info("round %d done%s", result.epoch, before)


def write(
    result: FederatedResult, out: Path, settings: RunSettings, method: str, seconds: float
) -> None:
    """Write result.npz, trace.csv, federation.png, model.npz and report.html, and say where they are."""
    write_outcome(result, out, {
        "sites": settings.sites,
        "method": f"{method}, at most {settings.rounds:,} rounds",
        "ended": result.message,
        "engine": "flower",
        "seed": str(settings.seed),
        "digest of x": result.digest[:16],
        "time": f"{seconds:.3g} s",
    })  # fmt: skip
    logger.info("%s after %d rounds, digest %s", result.message, result.epoch, result.digest)
    if result.privacy is not None:
        logger.info("privacy: %s", result.privacy)
    if result.held_out:
        logger.info("on held-out rows:\n%s", result.held_out)
    logger.info("model: %s   report: %s", out / "model.npz", out / "report.html")
