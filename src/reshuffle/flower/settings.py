"""The run configuration of an app: each key with its default, checked before anything is asked of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from reshuffle import losses
from reshuffle.cli.sites_file import LOSSES
from reshuffle.errors import InputError, shown
from reshuffle.federated import ExactFedRR, FedNewton, FedRR, LocalSGD, Secure
from reshuffle.federated.columns import Cells
from reshuffle.federated.site import Model
from reshuffle.federated.solvers import FederatedSolver
from reshuffle.federated.transport import SPARSE, transport_of
from reshuffle.flower.setting_rules import DECREASING, check_settings, key_of
from reshuffle.flower.written import call_of, list_of, penalty_of
from reshuffle.losses import Loss
from reshuffle.losses.names import loss_by_name
from reshuffle.orders import ShuffleOnce
from reshuffle.penalties import Penalty
from reshuffle.privacy import Level, level_of
from reshuffle.steps import InverseTime

AT_NODE = "a folder at its node"
"""A placeholder for the keys of a site, which the server never sees."""


@dataclass(frozen=True)
class RunSettings:
    """The run configuration. Names are those of the keys, with an underscore for a hyphen."""

    sites: str = "north, south"
    loss: str = "logistic"
    penalty: str = ""
    """The penalty in Python's notation; if empty, an ℓ2 penalty of L_f/N, for which the sites are asked."""
    ridge: float = 0.0
    intercept: bool = False
    standardise: bool = False
    impute: bool = False
    target: str = ""
    drop: str = ""
    columns: str = ""
    categories: str = ""
    missing: str = ""
    offset: str = ""
    exposure: str = ""
    """Columns of tables that are not features: the offset is added to the margins, and the logarithm of the exposure."""
    method: str = "exact"
    rounds: int = 100
    tol: float = 1e-6
    seed: int = 0
    step: float = 0.0
    """The step; 0 stands for the default of the method."""
    participation: float = 1.0
    batch_size: int = 1
    """The batch size of fedrr, fedso and local-sgd."""
    evaluate: int = 0
    """The number of rounds between two evaluations on held-out rows; 0 evaluates at the end only."""
    state: str = "server"
    """Where ExactFedRR keeps its state: "server" or "clients"."""
    acceleration: int = -1
    """The acceleration of ExactFedRR; -1 stands for its default."""
    transport: str = "float64"
    """How answers travel to the server. ExactFedRR and FedNewton then keep a part of their state at the clients."""
    downlink: str = "float64"
    """How x travels to the sites: "float64" or "rounded"."""
    objective: bool = True
    power_rounds: int = 0
    retries: int = 2
    round_timeout: float = 0.0
    """The time limit of a round in seconds; 0 for no limit."""
    on_missing: str = "raise"
    on_lost: str = "raise"
    wait: float = 600.0
    """Seconds for all sites to connect before the first round."""
    patience: float = 120.0
    """Seconds that a round waits for a node that is not connected."""
    largest: int = 2**28
    """The largest number of bytes of an answer."""
    new_keys: str = ""
    """Sites whose node may have another key than in earlier runs into ``out``."""
    privacy: str = ""
    """Differential privacy for each "client" or "sample"; empty: none. Of its settings, 0 and "" stand for one that is not given."""
    clip: float = 0.0
    epsilon: float = 0.0
    noise: float = 0.0
    delta: float = 0.0
    noise_at: str = ""
    secure: bool = False
    """Whether sites reveal only sums."""
    threshold: int = 0
    """The threshold of secure sums; 0 stands for its default."""
    keys: str = ""
    """For secure sums in a simulation, a folder with the keys of all sites."""
    out: str = "reshuffle-federation"
    resume: bool = False
    force: bool = False
    simulation: str = "breast_cancer"
    """In a simulation: a file sites.toml, a folder with a file for each site, or the bundled set to be shared out."""

    @classmethod
    def of(cls, config: Mapping[str, object]) -> RunSettings:
        """The settings of a run configuration; a key that is not known or a value of another type is refused."""
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
        check_settings(self)

    def made_secure(self) -> Secure | None:
        return Secure(self.threshold or None, AT_NODE) if self.secure else None

    @property
    def keeps_state(self) -> bool:
        """Whether each site saves its part of the method, or the key of its noise, in a folder of its own."""
        packed = self.method == "newton" and transport_of(self.made_transport()) is not None
        exact = self.method == "exact" and self.state == "clients"
        return exact or packed or bool(self.privacy)

    @property
    def names(self) -> tuple[str, ...]:
        return list_of("sites", self.sites)

    @property
    def renewed(self) -> tuple[str, ...]:
        """The sites whose new key is accepted."""
        return list_of("new-keys", self.new_keys)

    @property
    def cells(self) -> Cells:
        names = ("drop", "columns", "categories", "missing")
        lists = {name: list_of(name, getattr(self, name)) for name in names}
        return Cells(
            self.impute, **lists, offset=self.offset or None, exposure=self.exposure or None
        )

    def made_loss(self) -> Loss:
        return loss_by_name(self.loss, LOSSES)

    def made_penalty(self) -> Penalty | None:
        return penalty_of(self.penalty) if self.penalty.strip() else None

    def made_level(self) -> Level | None:
        """The protected unit and its noise; None without privacy."""
        names = ("clip", "epsilon", "noise", "delta", "noise_at")
        given = {name: getattr(self, name) or None for name in names}
        if not self.privacy:
            for name, value in given.items():
                if value is not None:
                    raise InputError(
                        f"{key_of(name)} is for differential privacy: give privacy as well"
                    )
            return None
        return level_of({"unit": self.privacy, **given})

    def made_transport(self) -> object:
        """The transport: a word, ``TopK(share)`` or ``RandomK(share)``."""
        written = self.transport
        return call_of("transport", written, SPARSE) if "(" in written else written

    def model(self, loss: Loss | None = None) -> Model:
        """The model that every site trains."""
        checked = losses.check_loss(loss or self.made_loss())
        return Model(checked, self.ridge, self.intercept, self.cells)

    def solver(self, engine: object) -> FederatedSolver:
        step = self.step or (InverseTime() if self.method in DECREASING else None)
        common: dict[str, Any] = {
            "rounds": self.rounds, "tol": self.tol, "seed": self.seed, "step": step, "engine": engine,
            "retries": self.retries, "round_timeout": self.round_timeout or None,
            "on_missing": self.on_missing, "participation": self.participation,
            "evaluate": self.evaluate or None, "downlink": self.downlink, "transport": self.made_transport(),
        }  # fmt: skip
        if self.method == "exact":
            if self.acceleration >= 0:
                common["acceleration"] = self.acceleration
            return ExactFedRR(**common, state=self.state, on_lost=self.on_lost)  # type: ignore[arg-type]
        if self.method == "newton":
            return FedNewton(**common)
        common |= {"batch_size": self.batch_size, "privacy": self.made_level()}
        if self.method == "fedso":
            return FedRR(order=ShuffleOnce(), **common)
        return FedRR(**common) if self.method == "fedrr" else LocalSGD(**common)

    @property
    def folder(self) -> Path:
        return Path(self.out).expanduser()
