"""Settings that the other engines have: offsets and exposures, transports of residuals; the model file is that of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason='Flower is an extra: pip install "reshuffle[flower]"')

from click.testing import CliRunner
from flower_grid import LocalGrid
from flwr.app import RecordDict
from test_flower_engine import homes, nodes_of, on_threads, settings

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.engines import checksum
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.flower.new import new_app
from reshuffle.flower.server import train
from reshuffle.flower.settings import RunSettings

pytestmark = pytest.mark.usefixtures("without_pictures")

__all__ = ["homes"]
PLACES = ("north", "south", "east")
COUNTS: dict[str, Any] = {
    "loss": "poisson", "target": "claims", "exposure": "years", "offset": "known", "intercept": True,
    "penalty": "L2(0.1)", "rounds": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts over periods of different length, as tables."""
    folder, rng = tmp_path_factory.mktemp("policies"), np.random.default_rng(0)
    for name in PLACES:
        years, age = rng.uniform(0.2, 2.0, 40), rng.normal(size=40)
        known = rng.choice([0.0, 0.5], 40)
        claims = rng.poisson(years * np.exp(0.3 * age + known))
        rows = np.column_stack([age, rng.normal(size=40), years, known, claims])
        head = "age,power,years,known,claims"
        np.savetxt(folder / f"{name}.csv", rows, "%.8g", ",", header=head, comments="")
    text = 'loss = "poisson"\nl2 = 0.1\ntarget = "claims"\nexposure = "years"\noffset = "known"\nintercept = true\n'
    sites = [f'[[site]]\ndata = "{name}.csv"\n' for name in PLACES]
    (folder / "sites.toml").write_text(text + "".join(sites))
    return folder


def tables(policies: Path) -> dict[int, dict[str, Any]]:
    return {k: {"site": n, "data": str(policies / f"{n}.csv")} for k, n in enumerate(PLACES)}


@pytest.mark.parametrize("method", ["exact", "fedrr", "newton"])
def test_offset_and_exposure_of_tables(policies: Path, tmp_path: Path, method: str) -> None:
    """Counts have exposures; the other methods need a loss whose curvature has a bound, and take the offset alone."""
    counts = method == "newton"
    more = COUNTS if counts else COUNTS | {"loss": "squared", "exposure": "", "drop": "years"}
    config = settings(tmp_path / "out", method=method, **more)
    chosen = RunSettings.of(config)
    found = train(LocalGrid(tables(policies), config), chosen)

    def threads(offset: str | None) -> str:
        sites = [rs.federated.Site(policies / f"{n}.csv", n, target="claims") for n in PLACES]
        drop = [] if counts else ["years"]
        problem = rs.federated.Sites(
            sites, chosen.made_loss(), rs.penalties.L2(0.1), fit_intercept=True, offset=offset,
            exposure="years" if counts else None, drop=drop if offset else [*drop, "known"],
        )  # fmt: skip
        return chosen.solver("threads").solve(problem).digest

    assert found.digest == threads("known")
    assert found.digest != threads(None)
    shifts = ["--offset", "known", *(["--exposure", "years"] if counts else [])]
    told = str(tmp_path / "told.csv")
    words = [
        "predict",
        str(tmp_path / "out" / "model.npz"),
        str(policies / "north.csv"),
        *shifts,
        "--out",
        told,
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert len(Path(told).read_text().splitlines()) == 41


def test_offsets_of_matrices_travel_with_them(homes: Path, tmp_path: Path) -> None:
    """Arrays beside X and y need no setting; those of one site alone are refused before the first round."""
    places = {}
    for number, name in enumerate(PLACES):
        with np.load(homes / f"{name}.npz") as held:
            shift = np.linspace(-1.0, 1.0, held["y"].size)
            np.savez(tmp_path / f"{name}.npz", X=held["X"], y=held["y"], offset=shift)
        places[number] = {"site": name, "data": str(tmp_path / f"{name}.npz")}
    config = settings(tmp_path / "out", method="fedrr", rounds=2)
    found = train(LocalGrid(places, config), RunSettings.of(config))
    assert found.digest == on_threads(tmp_path, config).digest
    assert found.digest != on_threads(homes, config).digest
    mixed = {**nodes_of(homes), 4: places[0]}
    with pytest.raises(rs.InputError, match="offset"):
        train(LocalGrid(mixed, config), RunSettings.of(config | {"out": str(tmp_path / "mixed")}))


def test_an_app_takes_offset_and_exposure_over_from_a_file_of_sites(
    policies: Path, tmp_path: Path
) -> None:
    import tomllib

    new_app(tmp_path / "app", str(policies / "sites.toml"))
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"] | {
        "rounds": 2, "wait": 1.0, "method": "newton",
    }  # fmt: skip
    nodes = {k: {"partition-id": k, "num-partitions": 3} for k in range(3)}
    found = train(LocalGrid(nodes, config), RunSettings.of(config))
    assert found.learned is not None
    assert RunSettings.of(config).cells.shifts == {"offset": "known", "exposure": "years"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"offset": "claims", "target": "claims"}, "offset must be another column than the target"),
        ({"exposure": "years", "drop": "years"}, "exposure must be a column that drop"),
        ({"transport": "float16"}, "transport must be"),
        ({"transport": "TopK(0.1"}, r"transport must be written like 'TopK\(0.1\)'"),
        ({"transport": "Best(0.1)"}, "transport: there is no Best"),
        ({"transport": "TopK(0.5, 'float32', 3)"}, "cannot be made"),
        ({"transport": "float32"}, 'needs state="clients"'),
        ({"transport": "TopK(0.1)", "state": "clients"}, "needs acceleration=0"),
        ({"transport": "TopK(0.1)", "method": "fedrr"}, "transport of FedRR must be"),
        ({"transport": "RandomK(0.1)", "method": "newton"}, "transport of FedNewton must be"),
        ({"downlink": "float32"}, "downlink must be"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(rs.InputError, match=words):
        RunSettings(**more).solver("threads")


def test_an_exposure_that_a_loss_cannot_use_is_refused_by_name(
    policies: Path, tmp_path: Path
) -> None:
    config = settings(
        tmp_path / "out", loss="squared", target="claims", exposure="years", retries=0
    )
    with pytest.raises(rs.ClientError, match=r"client 0 \(north\): .*exposure"):
        train(LocalGrid(tables(policies), config), RunSettings.of(config))


# --- transports ------------------------------------------------------------------------------------

TRANSPORTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {},
    "TopK(0.3)": {"acceleration": 0},
    "RandomK(share=0.3)": {"acceleration": 0},
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_residuals_travel_in_fewer_bytes_to_the_model_of_threads(
    homes: Path, tmp_path: Path, transport: str
) -> None:
    more = {"state": "clients", "transport": transport, **TRANSPORTS[transport]}
    config = settings(tmp_path / "out", **more)
    grid = LocalGrid(nodes_of(homes, state=f"{tmp_path}/state-{{name}}"), config)
    found = train(grid, RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    plain = settings(tmp_path / "plain", **{**more, "transport": "float64"})
    assert found.trace["bytes_up"][-1] < on_threads(homes, plain).trace["bytes_up"][-1]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (np.zeros(3, np.float32), "its part 'packed' must be float32 of length"),
        (np.full(30, np.nan, np.float32), "NaN or infinity"),
        (np.zeros(30), "its part 'packed' must be float32"),
        (None, "its part 'packed' must be float32"),
    ],
)
def test_a_packed_residual_that_is_none_is_refused_by_name(
    homes: Path, tmp_path: Path, part: Any, words: str
) -> None:
    """The site is asked again: where its next answer is sound, the model is that of threads; else the error names it."""
    left = [1]

    def spoilt(node: int, content: RecordDict) -> RecordDict:
        more = get_record(content, "more")
        if node != 7 or "packed" not in more or not left[0]:
            return content
        left[0] -= 1
        head, changed = get_record(content, "reply"), RecordDict()
        told = {key: value for key, value in more.items() if key != "packed"}
        told |= {} if part is None else {"packed": part}
        add_record(changed, "reply", {**head, "check": checksum(head["model"], told)})  # type: ignore[arg-type]
        add_record(changed, "more", told)
        return changed

    config = settings(tmp_path / "out", state="clients", transport="float32", retries=1)
    nodes = nodes_of(homes, state=f"{tmp_path}/state-{{name}}")
    found = train(LocalGrid(nodes, config, spoilt), RunSettings.of(config))
    assert found.digest == on_threads(homes, config).digest
    assert found.trace["refused"][-1] == 1
    left[0], config = 100, config | {"out": str(tmp_path / "again")}
    grid = LocalGrid(nodes, config, spoilt)
    with pytest.raises(rs.ClientError, match=rf"client 1 \(south\): .*{words}"):
        train(grid, RunSettings.of(config))
