"""What an app's run configuration says: each key with its default, checked before anything is asked of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from reshuffle import losses
from reshuffle.cli.sites_file import LOSSES
from reshuffle.errors import InputError, shown
from reshuffle.federated import ExactFedRR, FedNewton, FedRR, LocalSGD, Secure
from reshuffle.federated.columns import Cells
from reshuffle.federated.site import Model
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.flower.written import list_of, penalty_of
from reshuffle.losses import Loss
from reshuffle.losses.names import loss_by_name
from reshuffle.orders import ShuffleOnce
from reshuffle.penalties import Penalty
from reshuffle.steps import InverseTime

METHODS = ("exact", "fedrr", "fedso", "local-sgd", "newton")
DECREASING = ("fedrr", "fedso", "local-sgd")
"""Methods whose step decreases unless one is given, as in ``reshuffle federate``."""

AT_NODE = "a folder at its node"
"""Stands for the keys of a site, of which the server knows nothing."""
CHOICES = {
    "state": ("server", "clients"), "on_missing": ("raise", "average"), "on_lost": ("raise", "restart"),
}  # fmt: skip
"""The words that a setting may be, whichever method is used."""


def _key(name: str) -> str:
    """The key of the run configuration."""
    return name.replace("_", "-")


@dataclass(frozen=True)
class RunSettings:
    """The run configuration. Names are those of the keys, with an underscore for a hyphen."""

    sites: str = "north, south"
    loss: str = "logistic"
    penalty: str = ""
    """As Python writes it; where empty, an ℓ2 penalty of L_f/N, for which the sites are asked."""
    ridge: float = 0.0
    intercept: bool = False
    standardise: bool = False
    impute: bool = False
    target: str = ""
    drop: str = ""
    columns: str = ""
    categories: str = ""
    missing: str = ""
    method: str = "exact"
    rounds: int = 100
    tol: float = 1e-6
    seed: int = 0
    step: float = 0.0
    """0: the method's own."""
    participation: float = 1.0
    evaluate: int = 0
    """0: at the end only."""
    state: str = "server"
    """Of ExactFedRR: "server" or "clients"."""
    acceleration: int = -1
    """Of ExactFedRR; -1: its own."""
    objective: bool = True
    power_rounds: int = 0
    retries: int = 2
    round_timeout: float = 0.0
    """Seconds; 0: no limit."""
    on_missing: str = "raise"
    on_lost: str = "raise"
    wait: float = 600.0
    """Seconds for all sites to connect before the first round."""
    patience: float = 120.0
    """Seconds that a round waits for a node that is not connected."""
    largest: int = 2**28
    """Bytes of an answer that are taken."""
    new_keys: str = ""
    """Sites whose node may have another key than in earlier runs into ``out``."""
    secure: bool = False
    """Whether sites tell sums alone."""
    threshold: int = 0
    """Of secure sums; 0: their own."""
    keys: str = ""
    """Of secure sums in a simulation: a folder with the keys of all sites."""
    out: str = "reshuffle-federation"
    resume: bool = False
    force: bool = False
    simulation: str = "breast_cancer"
    """In a simulation: a file sites.toml, a folder with a file for each site, or the bundled set to be shared out."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RunSettings:
        """The settings of a run configuration; what is not known, or of another kind, is refused."""
        known = {field.name.replace("_", "-"): field for field in fields(cls)}
        found: dict[str, Any] = {}
        for key, value in config.items():
            if key not in known:
                raise InputError(
                    f"run configuration: {key!r} is not known; there are {', '.join(known)}"
                )
            kind = type(known[key].default)
            if kind is float and type(value) is int:
                value = float(value)
            if type(value) is not kind:
                raise InputError(
                    f"run configuration: {key} must be a {kind.__name__}, got {shown(value)}"
                )
            found[known[key].name] = value
        return cls(**found)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        self.made_loss()  # it says so where there is none of this name
        if self.method == "newton" and not self.objective:
            raise InputError(
                "method newton keeps the best point that it has seen, and needs the sites to tell the values of their "
                "losses: objective must be true"
            )
        if not self.names:
            raise InputError('sites must name the sites, as in "north, south"')
        if len(set(self.names)) < len(self.names):
            raise InputError(f"sites must be different names, got {self.sites!r}")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{_key(name)} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        for name in ("wait", "round_timeout"):
            seconds = getattr(self, name)
            if not 0 <= seconds < inf:
                raise InputError(f"{_key(name)} must be seconds, at least 0, got {seconds!r}")
        if self.acceleration < -1:
            raise InputError(
                f"acceleration must be at least 0, or -1 for the method's own, got {self.acceleration}"
            )
        strangers = [name for name in self.renewed if name not in self.names]
        if strangers:
            raise InputError(
                f"new-keys must name sites of this run ({self.sites}), got {strangers[0]!r}"
            )
        if self.secure:
            self._check_secure()
        if not self.out.strip():
            raise InputError("out must name a folder on the server, got an empty text")
        if self.target and self.target in list_of("drop", self.drop):
            raise InputError(f"drop names the target {self.target!r}, which is needed")

    def _check_secure(self) -> None:
        """Refuse, before anything is asked of a site, what cannot be had by sums alone."""
        for name in ("standardise", "impute"):
            if getattr(self, name):
                raise InputError(f"{name} must be false with secure sums: it needs more than sums")
        if self.method == "exact" and self.state != "clients":
            raise InputError('method exact needs state="clients" with secure sums')
        if self.threshold < 0:
            raise InputError(f"threshold must be at least 0, got {self.threshold}")
        Secure(self.threshold or None).check_names([*self.names])

    def made_secure(self) -> Secure | None:
        return Secure(self.threshold or None, AT_NODE) if self.secure else None

    @property
    def keeps_state(self) -> bool:
        """Whether each site saves its part of the method in a folder of its own."""
        return self.method == "exact" and self.state == "clients"

    @property
    def names(self) -> tuple[str, ...]:
        return list_of("sites", self.sites)

    @property
    def renewed(self) -> tuple[str, ...]:
        """Sites whose new key is taken."""
        return list_of("new-keys", self.new_keys)

    @property
    def cells(self) -> dict[str, Any]:
        """How tables are read."""
        lists = ("drop", "columns", "categories", "missing")
        return {"impute": self.impute} | {
            name: list_of(name, getattr(self, name)) for name in lists
        }

    def made_loss(self) -> Loss:
        return loss_by_name(self.loss, LOSSES)

    def made_penalty(self) -> Penalty | None:
        return penalty_of(self.penalty) if self.penalty.strip() else None

    def model(self, loss: Loss | None = None) -> Model:
        """What every site trains."""
        cells = self.cells
        read = Cells(
            cells["impute"], *(cells[n] for n in ("drop", "columns", "categories", "missing"))
        )
        checked = losses.check_loss(loss or self.made_loss())
        return Model(checked, self.ridge, self.intercept, read)

    def solver(self, engine: Any) -> FederatedSolver:
        """The method with its settings."""
        step: Any = self.step or (InverseTime() if self.method in DECREASING else None)
        common: dict[str, Any] = {
            "rounds": self.rounds, "tol": self.tol, "seed": self.seed, "step": step, "engine": engine,
            "retries": self.retries, "round_timeout": self.round_timeout or None,
            "on_missing": self.on_missing, "participation": self.participation,
            "evaluate": self.evaluate or None,
        }  # fmt: skip
        if self.method == "exact":
            more: dict[str, Any] = {"state": self.state, "on_lost": self.on_lost}
            if self.acceleration >= 0:
                more["acceleration"] = self.acceleration
            return ExactFedRR(**common, **more)
        if self.method == "fedso":
            return FedRR(order=ShuffleOnce(), **common)
        kinds: dict[str, Any] = {"fedrr": FedRR, "local-sgd": LocalSGD, "newton": FedNewton}
        made: FederatedSolver = kinds[self.method](**common)
        return made

    @property
    def folder(self) -> Path:
        return Path(self.out).expanduser()
