"""The keys of sites over several runs: the folder of a run remembers them, and later runs into this folder accept no others."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reshuffle.engines.flower.nodes import short
from reshuffle.errors import InputError
from reshuffle.files import write_atomically

NAME = "keys.json"
"""The file in the folder of a run: the sha256 of each site's public key by the name of the site."""
SHA256 = re.compile(r"[0-9a-f]{64}")
logger = logging.getLogger("reshuffle")


def read_pins(out: Path) -> dict[str, str]:
    """The keys that sites had in earlier runs into this folder."""
    path = out / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(_damaged(path, str(error))) from None
    if not isinstance(found, dict) or not all(
        isinstance(key, str) and SHA256.fullmatch(key) for key in found.values()
    ):
        raise InputError(_damaged(path, "it must hold a sha256 for each site"))
    return found


def held_pins(out: Path, renewed: Sequence[str]) -> dict[str, str]:
    """The keys that sites must have in this run: those of earlier runs, but for sites whose key is ``renewed``."""
    return {site: key for site, key in read_pins(out).items() if site not in renewed}


def write_pins(out: Path, keys: Mapping[str, str]) -> None:
    """Remember the registered keys of a run. If a key replaces another, the log says so."""
    before = read_pins(out)
    for site, key in keys.items():
        if before.get(site, key) != key:
            logger.warning(
                "site %s: its new key %s is accepted in place of %s", site, short(key), short(before[site])
            )  # fmt: skip
    if before != before | dict(keys):
        text = json.dumps(before | dict(keys), indent=2, ensure_ascii=False)
        write_atomically(out / NAME, f"{text}\n".encode())


def _damaged(path: Path, why: str) -> str:
    return (
        f"{path} remembers the keys of the sites and cannot be read: {why}; compare their keys with those in the logs of "
        "earlier runs, and remove the file"
    )
