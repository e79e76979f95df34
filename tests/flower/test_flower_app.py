"""The app that ``reshuffle flower new`` writes, the keys of ``reshuffle flower certs``, and the strategy with a prox."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.cli.config_utils import load_and_validate
from flwr.supercore.task_identity import TaskIdentity

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.flower import ProxFedAvg
from reshuffle.flower.home import name_of, site_of
from reshuffle.flower.settings import RunSettings
from reshuffle.flower.written import list_of

SITES = """loss = "squared"
l1 = 0.5
l2 = 0.25
target = "y"
drop = ["a, b"]
standardise = true
[[site]]
data = "one.csv"
test = "one-test.csv"
[[site]]
data = "two.csv"
name = "zwei"
"""


def reshuffle(*words: str) -> str:
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 0, done.output
    return done.output


def config_of(app: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((app / "pyproject.toml").read_text())
    return found["tool"]["flwr"]["app"]["config"]  # type: ignore[no-any-return]


# --- the app -----------------------------------------------------------------------------------------


def test_flower_takes_the_app_and_its_configuration_is_the_default(tmp_path: Path) -> None:
    reshuffle("flower", "new", str(tmp_path / "My Study"))
    app = tmp_path / "My Study"
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert config["project"]["name"] == "my-study"
    assert not warnings
    assert RunSettings.of(config_of(app)) == RunSettings(out=str(app / "result"))
    for module in ("server", "client"):
        code = (app / "federation" / f"{module}.py").read_text()
        assert len(code.splitlines()) <= 6
        compile(code, module, "exec")


def test_the_settings_of_a_file_of_sites_go_into_the_app(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    reshuffle("flower", "new", str(tmp_path / "app"), "--sites", str(tmp_path / "sites.toml"))
    found = RunSettings.of(config_of(tmp_path / "app"))
    assert (found.names, found.target, found.standardise) == (("one", "zwei"), "y", True)
    assert found.made_penalty() == rs.penalties.ElasticNet(0.5, 0.25)
    assert found.model().cells.drop == ("a, b",)
    assert repr(found.made_loss()) == "Squared()"
    simulated = site_of({"partition-id": 0, "num-partitions": 2, "state": str(tmp_path)}, found)
    assert (simulated.name, simulated.test) == ("one", tmp_path / "one-test.csv")


def test_a_folder_that_is_there_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = CliRunner().invoke(main, ["flower", "new", str(tmp_path)])
    assert done.exit_code == 1
    assert "is there already" in done.output


def test_a_node_says_all_that_a_site_takes(tmp_path: Path) -> None:
    node = {
        "site": "north", "data": "n.csv", "test": "t.csv", "audit": "a.jsonl", "state": str(tmp_path / "s"),
        "target": "sick", "drop": "nurse, ward",
    }  # fmt: skip
    site = site_of(node, RunSettings())
    assert (site.data, site.name, site.test, site.audit) == ("n.csv", "north", "t.csv", "a.jsonl")
    assert (site.state, site.target, site.drop) == (str(tmp_path / "s"), "sick", ("nurse", "ward"))
    assert (tmp_path / "s").is_dir()
    assert name_of({"partition-id": 5}, RunSettings()) == ""
    with pytest.raises(rs.InputError, match="is not a list in JSON"):
        list_of("drop", "[")


def test_the_state_of_a_site_that_names_no_folder_is_with_flowers_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    site = site_of({"site": "../north", "data": "n.csv"}, RunSettings())
    assert Path(str(site.state)).parent == tmp_path / "reshuffle"


# --- keys --------------------------------------------------------------------------------------------


def test_keys_are_signed_secret_and_not_overwritten(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    reshuffle(
        "flower",
        "certs",
        str(keys),
        "--server",
        "10.0.0.1",
        "--server",
        "hub.example",
        "--site",
        "north",
    )
    root, server = (
        x509.load_pem_x509_certificate((keys / n).read_bytes()) for n in ("ca.crt", "server.crt")
    )
    server.verify_directly_issued_by(root)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example", "localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "127.0.0.1"]
    for secret in ("ca.key", "server.key", "north"):
        assert stat.S_IMODE((keys / secret).stat().st_mode) == 0o600
    private = load_ssh_private_key((keys / "north").read_bytes(), None)
    public = load_ssh_public_key((keys / "north.pub").read_bytes())
    assert private.public_key() == public
    before = (keys / "ca.crt").read_bytes()
    reshuffle("flower", "certs", str(keys), "--site", "east")
    assert (keys / "ca.crt").read_bytes() == before
    for words in (
        ["--site", "east"],
        ["--server", "10.0.0.2"],
        ["--site", "server"],
        ["--site", "../x"],
    ):
        assert CliRunner().invoke(main, ["flower", "certs", str(keys), *words]).exit_code == 1


# --- the strategy --------------------------------------------------------------------------------------


class Grid:
    """Some nodes."""

    def get_node_ids(self) -> list[int]:
        return [30, 10, 20]


def reply(node: int, model: Any, samples: float = 1.0, place: int = 0) -> Message:
    metadata = Metadata(1, "", node, 1, "m", "", 1.0, 100.0, "train")
    if isinstance(model, Error):
        return make_message(metadata, error=model)
    metrics = MetricRecord({"num-examples": samples, "client": place})
    arrays = ArrayRecord({"w": Array(np.asarray(model)), "bias": Array(np.array([0.05]))})
    return make_message(metadata, content=RecordDict({"arrays": arrays, "metrics": metrics}))


def asked(strategy: ProxFedAvg) -> None:
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    grid: Any = Grid()
    list(strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid))


def made(**more: Any) -> ProxFedAvg:
    found = ProxFedAvg(
        rs.penalties.L1(0.1), 2.0, penalised=["w"], min_train_nodes=3, min_available_nodes=3,
        fraction_evaluate=0.0, **more,
    )  # fmt: skip
    asked(found)
    return found


def test_the_prox_comes_after_the_mean_and_spares_the_intercept() -> None:
    models = {10: [1.0, 0.1], 20: [2.0, 0.1], 30: [3.0, 0.4]}
    arrays, _ = made().aggregate_train(1, [reply(n, m, n / 10) for n, m in models.items()])
    assert arrays is not None
    mean = (np.array([1.0, 0.1]) + 2 * np.array([2.0, 0.1]) + 3 * np.array([3.0, 0.4])) / 6
    assert np.allclose(arrays["w"].numpy(), np.maximum(mean - 0.2, 0.0))
    assert np.allclose(arrays["bias"].numpy(), 0.05)


@pytest.mark.parametrize("more", [{}, {"order_by": "client"}], ids=["by node", "by number"])
def test_the_order_of_arrival_changes_no_bit(more: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    replies = [reply(n, rng.standard_normal(50), 3.7 * n, 60 - n) for n in (10, 20, 30)]
    found = [made(**more).aggregate_train(1, [replies[k] for k in order])[0]
             for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0))]  # fmt: skip
    bits = {arrays["w"].data for arrays in found if arrays is not None}
    assert len(bits) == 1


def test_a_reply_that_is_missing_is_not_averaged_away() -> None:
    some = [reply(10, [1.0, 1.0]), reply(1, Error(5, "Node unavailable")), reply(30, [1.0, 1.0])]
    with pytest.raises(
        rs.ClientError, match=r"1 of 3 nodes have not answered: 20 \(Node unavailable\)"
    ):
        made().aggregate_train(1, some)
    assert made(partial=True).aggregate_train(1, some)[0] is not None


def test_what_the_strategy_cannot_use_is_refused() -> None:
    replies = [reply(n, [1.0]) for n in (10, 20, 30)]
    with pytest.raises(rs.InputError, match="no number 'rank'"):
        made(order_by="rank").aggregate_train(1, replies)
    with pytest.raises(rs.InputError, match="length must"):
        ProxFedAvg(rs.penalties.L1(0.1), 0.0)
    strategy = made()
    strategy.penalised = ("weights",)
    with pytest.raises(rs.InputError, match="no array 'weights'; there are w, bias"):
        strategy.aggregate_train(1, replies)
