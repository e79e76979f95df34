"""Writing files so that a reader finds the old one or the new one, never half of it."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path

_NUMBERS = count()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a temporary file beside the target, then put it in the target's place.

    Its name is this process's and this call's own, and it must be new: threads do not meet in it, and
    nothing planted there is followed. What a killed process left behind goes with the next write.
    """
    target = Path(path)
    _sweep(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except FileExistsError:
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sweep(target: Path) -> None:
    """Remove temporary files of this target whose process has ended."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.(\d+)(-\d+)?\.tmp")
    for file in target.parent.iterdir() if target.parent.is_dir() else ():
        found = ours.fullmatch(file.name)
        if found and not _alive(int(found[1])):
            file.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's, or none that can be asked about
        return True
    return True
