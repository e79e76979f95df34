"""Reads sites from a ``sites.toml``, from a folder that contains one, or from a folder with one data file per site."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from reshuffle.errors import InputError
from reshuffle.federated import Secure, Site, Sites
from reshuffle.losses import Loss, Multinomial
from reshuffle.losses.names import OF_CLASSES, OF_NUMBERS, loss_by_name
from reshuffle.penalties import ElasticNet

LOSSES: dict[str, type[Loss]] = {**OF_CLASSES, **OF_NUMBERS, "multinomial": Multinomial}
SETTINGS = {
    "loss": str, "l1": (int, float), "l2": (int, float), "intercept": bool, "standardise": bool,
    "objective": bool, "power_rounds": int, "target": str, "impute": bool, "drop": list, "columns": list,
    "categories": list, "missing": list, "offset": str, "exposure": str, "secure": bool, "threshold": int,
    "keys": str, "privacy": dict,
}  # fmt: skip
WORDS: dict[object, str] = {
    str: "a text", (int, float): "a number", int: "a whole number", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip
"""The names that messages use for kinds of values."""
PASSED = (
    "standardise", "objective", "power_rounds", "impute", "drop", "columns", "categories", "missing", "offset", "exposure",
)  # fmt: skip
"""Settings that are parameters of ``Sites``."""
SITE = dict.fromkeys(("data", "name", "test", "audit", "state", "target", "keys"), str) | {
    "drop": list
}
PATHS = ("data", "test", "audit", "state", "keys")
SINGLE = re.compile(rb"^\s*\[site\]", re.MULTILINE)
"""A site that begins with single brackets, of which TOML allows only one: a likely slip."""
NAME = "sites.toml"
"""The name of the file in a folder that describes its sites."""


def is_sites(data: str) -> bool:
    """Whether this names sites rather than data."""
    return data.endswith(".toml") or Path(data).is_dir()


def sites_of(data: str, l1: float, l2: float | None) -> Sites:
    """The sites. The file's l1 and l2 take precedence over those of the command."""
    settings, sites = settings_of(data)
    loss = settings.get("loss", "logistic")
    try:
        made = loss_by_name(loss, LOSSES)
    except InputError as error:
        raise InputError(f"{data}: {error}") from None
    words = {"intercept": "fit_intercept"} | {name: name for name in PASSED}
    common = {theirs: settings[own] for own, theirs in words.items() if own in settings}
    common |= {"loss": made, "secure": _secure(data, settings)}
    l1, l2 = settings.get("l1", l1), settings.get("l2", l2)
    if l2 is not None:
        return Sites(sites, penalty=ElasticNet(l1, l2), **common)
    # λ2 = L_f/N, for which the sites are asked.
    return Sites(sites, choose_penalty=lambda f: ElasticNet(l1, f.smoothness.L_f / f.n), **common)


def privacy_table(data: str) -> tuple[dict[str, Any] | None, float | None]:
    """The file's table [privacy], if it has one, and its l2."""
    settings, _ = settings_of(data)
    return settings.get("privacy"), settings.get("l2")


def _secure(data: str, settings: dict[str, Any]) -> bool | Secure:
    """The settings of secure sums in the file; the folder of keys lies beside it."""
    given = [name for name in ("threshold", "keys") if name in settings]
    if not settings.get("secure", False):
        if given:
            raise InputError(f"{data}: {given[0]} is for secure sums: secure = true")
        return False
    path = Path(data)
    beside = path if path.is_dir() else path.parent
    keys = beside / settings["keys"] if "keys" in settings else None
    return Secure(settings.get("threshold"), keys)


def settings_of(data: str) -> tuple[dict[str, Any], list[Site]]:
    """The common settings and the list of sites that a file or a folder describes."""
    path = Path(data)
    return _folder(path) if path.is_dir() else _toml(path)


def _folder(path: Path) -> tuple[dict[str, Any], list[Site]]:
    if (path / NAME).is_file():
        return _toml(path / NAME)
    entries = sorted(
        p for p in path.iterdir()
        if not p.name.startswith(".") and (p.is_file() or (p / "X.npy").exists())
    )  # fmt: skip
    if not entries:
        raise InputError(f"there is no file of a site in {path}")
    return {}, [Site(entry, name=entry.stem) for entry in entries]


def _toml(path: Path) -> tuple[dict[str, Any], list[Site]]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        single = SINGLE.search(path.read_bytes())
        hint = "; each site begins with [[site]], in double brackets" if single else ""
        raise InputError(f"{path} is not in TOML format: {error}{hint}") from None
    tables = settings.pop("site", [])
    _check(f"{path}", settings, SETTINGS)
    if not isinstance(tables, list) or not tables:
        raise InputError(f"{path} must have a [[site]] with data = ... for each client")
    sites = []
    for number, table in enumerate(tables):
        where = f"{path}: site {number}"
        _check(where, table, SITE)
        if not table.get("data"):
            raise InputError(f"{where} must say where its data lies: data = ...")
        placed = {k: path.parent / v if k in PATHS else v for k, v in table.items()}
        placed.setdefault("target", settings.get("target"))
        sites.append(Site(**{"name": Path(table["data"]).stem} | placed))
    return settings, sites


def _check(where: str, found: object, known: dict[str, Any]) -> None:
    """Refuse unknown keys and values of the wrong kind."""
    if not isinstance(found, dict):
        raise InputError(f"{where} must be a table, got {found!r}")
    for name, value in found.items():
        if name not in known:
            raise InputError(f"{where}: {name!r} is not known; there are {', '.join(known)}")
        if not isinstance(value, known[name]) or (
            isinstance(value, bool) and known[name] is not bool
        ):
            raise InputError(
                f"{where}: {name} cannot be {value!r}: it must be {WORDS[known[name]]}"
            )
