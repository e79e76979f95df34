"""Writes a ready app: two modules of a few lines, and a configuration that says what is trained."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reshuffle import __version__
from reshuffle.cli.sites_file import settings_of
from reshuffle.errors import InputError
from reshuffle.files import write_atomically
from reshuffle.flower.settings import RunSettings
from reshuffle.flower.written import list_of, text_of

PACKAGE = "federation"
SERVER = '''"""The server's part: finds the sites, makes the rounds, writes the model."""

from reshuffle.flower import server_app

app = server_app()
'''
CLIENT = '''"""A site's part: opens its own data and answers the server's messages."""

from reshuffle.flower import client_app

app = client_app()
'''
PROJECT = """[project]
name = {name}
version = "1.0.0"
description = "A model trained over sites whose data stays at home"
license = "MIT"
dependencies = ["reshuffle[flower]>={version}"]

[tool.flwr.app]
publisher = "local"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"

# `flwr run . NAME --run-config 'rounds=200 seed=1'` overrides any of these for one run.
[tool.flwr.app.config]
{config}"""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Sites, in the order that numbers them. Each says its own name in its node configuration.": ("sites",),
    "What is trained: the loss, the penalty as Python writes it (empty: ℓ2 of L_f/N), and how tables are read.": (
        "loss", "penalty", "ridge", "intercept", "standardise", "target", "impute", "drop", "columns",
        "categories", "missing", "offset", "exposure",
    ),
    "How: exact, fedrr, fedso, local-sgd or newton; step 0, acceleration -1 and evaluate 0 are the defaults.": (
        "method", "rounds", "tol", "seed", "step", "batch-size", "participation", "evaluate", "state",
        "acceleration", "transport", "downlink", "objective", "power-rounds",
    ),
    "What happens when a site stays away. Times are in seconds (round-timeout 0: no limit), largest is the bytes of an answer.": (
        "retries", "round-timeout", "on-missing", "on-lost", "wait", "patience", "largest",
    ),
    "Sites that have made themselves a new key since the last run into out; name them for one run only.": (
        "new-keys",
    ),
    "Whether sites tell sums alone (docs/secure.md), with which threshold (0: its own). A node says keys=FOLDER; in a simulation, keys does.": (
        "secure", "threshold", "keys",
    ),
    "Differential privacy (docs/privacy.md) for each client or sample; empty for none. Give clip, delta, and epsilon or noise; 0 is not given.": (
        "privacy", "clip", "epsilon", "noise", "delta", "noise-at",
    ),
    "Where the server writes model.npz, report.html, the trace and the checkpoint: a folder on its machine.": (
        "out", "resume", "force",
    ),
    "In a simulation the nodes have no data of their own: a sites.toml, a folder of files, or the bundled set.": (
        "simulation",
    ),
}  # fmt: skip
"""Keys of the configuration under the comments that explain them."""


def new_app(
    folder: Path, sites: str | None = None, names: str | None = None
) -> tuple[list[Path], int]:
    """Write an app into a folder that is not there yet, or is empty; returns the paths of its files and the number of sites.

    ``sites`` is a sites.toml or a folder of files: its settings go into the configuration, and a simulation runs on its
    data. ``names`` are the names of the sites if there is no such file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already: give the name of a new folder")
    settings = RunSettings(**_settings(folder, sites, names))
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-") or "federation"
    project = PROJECT.format(
        name=_toml(name), version=__version__, package=PACKAGE, config=_config(settings)
    )
    texts = {
        "pyproject.toml": project,
        f"{PACKAGE}/__init__.py": '"""A federation over sites, run by Flower."""\n',
        f"{PACKAGE}/server.py": SERVER,
        f"{PACKAGE}/client.py": CLIENT,
    }
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / place, text.encode())
    return [folder / place for place in texts], len(settings.names)


def _settings(folder: Path, sites: str | None, names: str | None) -> dict[str, Any]:
    found: dict[str, object] = {"out": str(folder.resolve() / "result")}
    if sites is None:
        return found | ({"sites": names} if names else {})
    told, described = settings_of(sites)
    if names is None:
        names = text_of([str(site.name) for site in described])
    elif len(list_of("names", names)) != len(described):
        raise InputError(
            f"names must name each of the {len(described)} sites of {sites}, got {names!r}"
        )
    found |= {"sites": names, "simulation": str(Path(sites).resolve())}
    strengths = {key: float(told.pop(key)) for key in ("l1", "l2") if key in told}
    if "l2" in strengths:
        found["penalty"] = f"ElasticNet(l1={strengths.get('l1', 0.0)!r}, l2={strengths['l2']!r})"
    elif strengths:
        raise InputError(f"{sites}: give l2 beside l1, or neither")
    if "keys" in told:  # The keys lie beside the file.
        beside = Path(sites) if Path(sites).is_dir() else Path(sites).parent
        told["keys"] = str((beside / told["keys"]).resolve())
    if told.get("secure"):  # The default method then keeps its state at the sites.
        found["state"] = "clients"
    if "privacy" in told:  # The default method has no privacy, and a private step must be a number.
        found |= {"method": "fedrr", "tol": 0.0}
    for key, value in told.pop("privacy", {}).items():
        found["privacy" if key == "unit" else key.replace("-", "_")] = value
    for key, value in told.items():
        found[key] = text_of(value) if isinstance(value, list) else value
    return found


def _config(settings: RunSettings) -> str:
    lines: list[str] = []
    for comment, keys in GROUPS.items():
        lines += [f"# {comment}"]
        lines += [f"{key} = {_toml(getattr(settings, key.replace('-', '_')))}" for key in keys]
    return "\n".join(lines) + "\n"


def _toml(value: str | float | bool) -> str:
    """A value as TOML writes it; JSON's strings are TOML's."""
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)
