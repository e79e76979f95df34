"""The app that ``reshuffle flower new`` writes, the keys of ``reshuffle flower certs``, and the strategy with a prox."""

from __future__ import annotations

import stat
import sys
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
from reshuffle.flower import ProxFedAvg, client_app, server_app
from reshuffle.flower.certificates import make_keys
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
    assert not (tmp_path / "s").exists()
    site = site_of(node, RunSettings(state="clients"))
    assert (site.data, site.name, site.test, site.audit) == ("n.csv", "north", "t.csv", "a.jsonl")
    assert (site.state, site.target, site.drop) == (str(tmp_path / "s"), "sick", ("nurse", "ward"))
    assert (tmp_path / "s").is_dir()
    assert name_of({"partition-id": 5}, RunSettings()) == ""
    with pytest.raises(rs.InputError, match="is not a list in JSON"):
        list_of("drop", "[")


def test_a_folder_of_state_that_cannot_be_is_refused_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for state in (tmp_path / "file", tmp_path / "file" / "s", Path("/proc/x")):
        node = {"site": "north", "data": "n.csv", "state": str(state)}
        with pytest.raises(rs.InputError, match="state of the node configuration") as caught:
            site_of(node, RunSettings(state="clients"))
        assert str(state) not in str(caught.value)
        assert site_of(node, RunSettings()).name == "north"


def test_a_target_that_is_dropped_is_refused() -> None:
    node = {"site": "north", "data": "n.csv", "target": "sick", "drop": "sick"}
    with pytest.raises(rs.InputError, match="drop names the target 'sick'"):
        site_of(node, RunSettings())
    with pytest.raises(rs.InputError, match="drop names the target 'sick'"):
        site_of(node | {"drop": ""}, RunSettings(drop="sick"))


def test_the_state_of_a_site_that_names_no_folder_is_with_flowers_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    site = site_of({"site": "../north", "data": "n.csv"}, RunSettings())
    assert Path(str(site.state)).parent == tmp_path / "reshuffle"


def test_names_that_do_not_fit_the_sites_are_refused_and_the_command_is_quoted(
    tmp_path: Path,
) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    app = str(tmp_path / "my app")
    done = CliRunner().invoke(main, ["flower", "new", app, "--names", "north,north"])
    assert done.exit_code == 1
    assert "different names" in done.output
    sites = ["--sites", str(tmp_path / "sites.toml"), "--names", "x,y,z"]
    done = CliRunner().invoke(main, ["flower", "new", app, *sites])
    assert done.exit_code == 1
    assert "each of the 2 sites" in " ".join(done.output.split())
    assert f"flwr run '{app}' --stream" in reshuffle("flower", "new", app)


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


@pytest.mark.parametrize(
    ("servers", "sites", "days", "words"),
    [
        (["münchen.example"], [], 90, "server must be"),
        ([""], [], 90, "server must be"),
        (["10.0.0.1:8000"], [], 90, "server must be"),
        (["https://hub.example"], [], 90, "server must be"),
        (["10.0.0.0/24"], [], 90, "server must be"),
        (["10.0.0.300"], [], 90, "server must be"),
        ([], [], 4_000_000, "days must be"),
        ([], ["north", "north"], 90, "different names"),
        ([], ["north", "north.pub"], 90, "different names"),
        ([], ["ca.key"], 90, "cannot be called"),
    ],
)
def test_keys_that_cannot_be_made_leave_no_file(
    tmp_path: Path, servers: list[str], sites: list[str], days: int, words: str
) -> None:
    with pytest.raises(rs.InputError, match=words):
        make_keys(tmp_path / "keys", servers, sites, days)
    assert not (tmp_path / "keys").exists()


def test_a_folder_with_a_part_of_the_keys_is_not_taken_for_complete(tmp_path: Path) -> None:
    make_keys(tmp_path, ["a" * 60 + ".hub.example"], [], 1)
    (tmp_path / "ca.key").unlink()  # taken elsewhere
    make_keys(tmp_path, [], ["north"], 1)
    (tmp_path / "server.crt").unlink()
    with pytest.raises(rs.InputError, match=r"server\.crt is missing"):
        make_keys(tmp_path, [], ["south"], 1)
    assert not (tmp_path / "south").exists()


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


REFUSED: dict[str, tuple[Message, str]] = {
    "NaN": (reply(20, [np.nan, 1.0]), "must be finite"),
    "shape": (reply(20, [1.0, 1.0, 1.0]), "must have the shapes"),
    "negative": (reply(20, [1.0, 1.0], samples=-5.0), "'num-examples', a number of at least 0"),
    "twice": (reply(10, [9.0, 9.0]), "node 10: it answered twice"),
    "not asked": (reply(70, [9.0, 9.0]), "node 70: it was not asked"),
}


@pytest.mark.parametrize(("wrong", "words"), REFUSED.values(), ids=REFUSED)
def test_a_reply_that_cannot_be_averaged_is_refused_by_node(wrong: Message, words: str) -> None:
    others = [reply(10, [1.0, 1.0]), reply(30, [1.0, 1.0])]
    with pytest.raises(rs.ClientError, match=words):
        made().aggregate_train(1, [*others, wrong])
    arrays, _ = made(partial=True).aggregate_train(1, [*others, wrong])
    assert arrays is not None
    assert np.allclose(arrays["w"].numpy(), 0.8)


def test_weights_that_are_all_zero_and_places_that_are_equal_are_refused() -> None:
    with pytest.raises(rs.ClientError, match="'num-examples' is 0 at all nodes"):
        made().aggregate_train(1, [reply(n, [1.0], 0.0) for n in (10, 20, 30)])
    with pytest.raises(rs.InputError, match="must be another number at each node, and 10 and 20"):
        made(order_by="client").aggregate_train(1, [reply(n, [1.0], 1.0, 5) for n in (10, 20, 30)])


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ended with a traceback, after the folder was made."""
    for name in ("cryptography", "cryptography.x509", "flwr.clientapp", "flwr.serverapp"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "reshuffle.flower.certificates")
    done = CliRunner().invoke(main, ["flower", "certs", str(tmp_path / "keys")])
    assert done.exit_code == 1
    assert 'pip install "reshuffle[flower]"' in done.output
    assert not (tmp_path / "keys").exists()
    for app in (client_app, server_app):
        with pytest.raises(
            rs.InputError, match=r"App needs flwr: pip install \"reshuffle\[flower\]\""
        ):
            app()
