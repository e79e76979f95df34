"""Secure sums over Flower: the same bits as on threads, and secrets that stay in the memory of a node."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')
pytest.importorskip("Crypto", reason='an extra: pip install "reshuffle[secure]"')

from flower_grid import LocalGrid
from flwr.app import RecordDict

import reshuffle as rs
from reshuffle.engines.flower.fields import check_answer
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.errors import ClientError, InputError
from reshuffle.federated.secure.keys import make_keys
from reshuffle.flower.client import SECRETS
from reshuffle.flower.new import new_app
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.usefixtures("without_pictures")

NAMES = ("north", "south", "east")
CONFIG: dict[str, Any] = {
    "sites": ", ".join(NAMES), "rounds": 3, "tol": 0.0, "penalty": "ElasticNet(l1=0.001, l2=0.01)", "wait": 1.0,
    "patience": 0.05, "retries": 1, "secure": True,
}  # fmt: skip
METHODS: dict[str, dict[str, Any]] = {
    "FedRR": {"method": "fedrr", "intercept": True},
    "ExactFedRR": {"method": "exact", "state": "clients"},
    "FedNewton": {"method": "newton", "threshold": 2},
}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("homes")
    X, y = rs.datasets.breast_cancer()
    for name, rows in zip(
        NAMES, np.array_split(np.argsort(X[:, 0], kind="stable"), 3), strict=True
    ):
        np.savez(folder / f"{name}.npz", X=X[rows], y=y[rows])
    make_keys(folder / "keys", NAMES)
    return folder


def nodes_of(homes: Path) -> dict[int, dict[str, Any]]:
    return {
        number: {"site": name, "data": str(homes / f"{name}.npz"), "keys": str(homes / "keys"),
                 "state": str(homes / f"{name}-state")}
        for number, name in ((9, "east"), (4, "north"), (7, "south"))
    }  # fmt: skip


def settings(out: Path, **more: Any) -> dict[str, Any]:
    return CONFIG | {"out": str(out)} | more


@pytest.mark.parametrize("name", METHODS)
def test_the_model_has_the_same_bits_as_on_threads(name: str, homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "out", **METHODS[name])
    chosen = RunSettings.of(config)
    grid = LocalGrid(nodes_of(homes), config)
    found = train(grid, chosen)
    secure = rs.federated.Secure(chosen.threshold or None, homes / "keys")
    sites = rs.federated.Sites(
        [rs.federated.Site(homes / f"{name}.npz", name=name) for name in NAMES],
        penalty=chosen.made_penalty(), fit_intercept=chosen.intercept, secure=secure,
    )  # fmt: skip
    assert found.digest == chosen.solver("threads").solve(sites).digest
    assert {kind for _, kind in grid.sent if not kind.startswith("secure-")} == {
        "who",
        "hello",
        "load",
    }
    for state in grid.states.values():  # after the last sum there is nothing left to steal
        kept = str(state.config_records[SECRETS]["state"])
        assert '\\"held\\": {}' in kept
        assert '\\"seeds\\": [\\"\\", \\"\\", \\"\\"]' in kept


def test_a_node_that_was_started_anew_in_an_attempt_has_dropped_out(
    homes: Path, tmp_path: Path
) -> None:
    """Its secrets are gone with its memory; the attempt is repeated, and the model is the same."""
    config = settings(tmp_path / "out", method="fedrr")
    whole = train(LocalGrid(nodes_of(homes), config), RunSettings.of(config))
    config = settings(tmp_path / "again", method="fedrr")
    grid = LocalGrid(nodes_of(homes), config)
    forgot: list[str] = []

    def forgets(node: int, content: RecordDict) -> RecordDict:
        more = get_record(content, "more")
        if node == 7 and "secure_sealed" in more and not forgot:
            grid.states[7] = RecordDict()
            forgot.append("once")
        return content

    grid.change = forgets
    assert train(grid, RunSettings.of(config)).digest == whole.digest
    assert forgot


def test_answers_without_the_parts_of_the_protocol_are_refused(homes: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "out", method="fedrr", retries=0)

    def spoils(node: int, content: RecordDict) -> RecordDict:
        more = get_record(content, "more")
        if node == 9 and "secure_masked" in more:
            content = RecordDict({k: v for k, v in content.items() if not k.startswith("more")})
            add_record(content, "more", {"secure_masked": np.zeros(3), "secure_layout": "[]"})
        return content

    with pytest.raises(ClientError, match="'secure_masked' must be a vector of 64-bit words"):
        train(LocalGrid(nodes_of(homes), config, spoils), RunSettings.of(config))


def test_a_node_without_keys_is_named_before_the_first_round(homes: Path, tmp_path: Path) -> None:
    nodes = nodes_of(homes)
    del nodes[4]["keys"]
    config = settings(tmp_path / "out", method="fedrr", retries=0)
    with pytest.raises(ClientError, match=r"client 0 \(north\): it has no signing key"):
        train(LocalGrid(nodes, config), RunSettings.of(config))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"method": "exact"}, 'state="clients"'),
        ({"method": "fedrr", "standardise": True}, "standardise must be false"),
        ({"method": "fedrr", "impute": True}, "impute must be false"),
        ({"method": "fedrr", "transport": "bfloat16"}, 'transport must be "float64" with secure'),
        ({"method": "fedrr", "threshold": 1}, "threshold must be an integer of at least 2"),
        ({"method": "fedrr", "threshold": -1}, "threshold must be at least 0"),
        ({"method": "fedrr", "sites": "north"}, "at least two sites"),
    ],
)
def test_run_configurations_that_do_not_go_together_are_refused(
    more: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        RunSettings.of(CONFIG | more)


def test_an_app_can_be_made_for_secure_sums(homes: Path, tmp_path: Path) -> None:
    text = 'secure = true\nkeys = "keys"\nl2 = 0.01\n'
    text += "".join(f'[[site]]\ndata = "{name}.npz"\n' for name in NAMES)
    (homes / "sites.toml").write_text(text)
    new_app(tmp_path / "app", str(homes / "sites.toml"))
    project = tomllib.loads((tmp_path / "app/pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"] | {
        "wait": 1.0,
        "rounds": 2,
        "out": str(tmp_path / "out"),
    }
    nodes = {number: {"partition-id": number, "num-partitions": 3} for number in range(3)}
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    assert found.epoch == 2


def test_every_kind_of_answer_has_its_rules() -> None:
    from reshuffle.engines import Task

    nothing = np.empty(0)
    for kind in ("hello", "keys", "shares", "input", "agree", "unmask"):
        task = Task("r", 0, 0.0, nothing, "", (0,), kind=f"secure-{kind}")
        with pytest.raises(InputError, match="is missing"):
            check_answer(task, {})


@pytest.mark.slow
@pytest.mark.parametrize("simulation", [True, False], ids=["simulation", "deployment"])
def test_real_nodes_keep_their_secrets_between_messages(
    simulation: bool, homes: Path, tmp_path: Path
) -> None:
    """`pytest -n 0 -m slow tests/flower/test_flower_secure.py`: each message finds a new process at its node."""
    from flower_servers import trial

    text = 'secure = true\nkeys = "keys"\nl1 = 0.001\nl2 = 0.01\n'
    text += "".join(f'[[site]]\ndata = "{name}.npz"\n' for name in NAMES[:2])
    (homes / "two.toml").write_text(text)
    app = tmp_path / "app"
    new_app(app, str(homes / "two.toml"))
    with trial(tmp_path / "trial", simulation=simulation) as made:
        made.link()
        for name in () if simulation else NAMES[:2]:
            made.node(name, data=str(homes / f"{name}.npz"), keys=str(homes / "keys"))
        run = made.run(app, method="fedrr", rounds=1, tol=0.0, objective=False)
        run.wait(1500)  # a process is started for each message
    chosen = RunSettings(method="fedrr", rounds=1, tol=0.0, objective=False, secure=True)
    sites = rs.federated.Sites(
        [rs.federated.Site(homes / f"{name}.npz", name=name) for name in NAMES[:2]],
        penalty=rs.penalties.ElasticNet(0.001, 0.01), objective=False,
        secure=rs.federated.Secure(keys=homes / "keys"),
    )  # fmt: skip
    assert chosen.solver("threads").solve(sites).digest in run.text
