"""What a newcomer meets first: imports, the command, the README."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

import reshuffle as rs
from reshuffle.cli import main

ROOT = Path(__file__).parents[2]
HEAVY = ("numba", "sklearn", "matplotlib", "rich", "ray", "scipy.stats", "torch")


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(eval(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import reshuffle",
        "import reshuffle as rs, numpy as np; rs.Problem(np.eye(2), [1, -1], penalty=rs.penalties.L1(1.0))",
        "import reshuffle as rs; rs.ProxRR(), rs.ProxSGD(), rs.FISTA(), rs.datasets, rs.plotting",
        "from reshuffle.cli import main; main(['--help'], standalone_mode=False)",
        "import reshuffle.flower.client",  # a site's process is started for every message
    ],
)
def test_nothing_heavy_loads_before_it_is_needed(code: str) -> None:
    assert loaded(code) == set()


@pytest.mark.parametrize("method", ["ProxRR(epochs=2)", "ProxSGD(epochs=2)", "ExactProxRR()"])
def test_a_fit_needs_no_library_of_data_or_figures(method: str) -> None:
    data = "np.eye(2), [1, -1], penalty=rs.penalties.L1(0.1)"
    code = f"import reshuffle as rs, numpy as np; rs.{method}.solve(rs.Problem({data}))"
    assert loaded(code) == set()


WITHOUT = """
import sys
for name in ("rich", "click", "matplotlib", "numba", "ray", "pyarrow", "pandas"):
    sys.modules[name] = None  # as if it were not installed
import reshuffle as rs
X, y = rs.datasets.breast_cancer()
problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(4e-3, 6e-3))
for solver in (rs.ProxRR(epochs=2), rs.ProxSGD(epochs=2), rs.FISTA(epochs=2), rs.ExactProxRR()):
    solver.solve(problem)
clients = rs.federated.split(problem, clients=3, seed=0)
for method in (rs.FedRR(rounds=2), rs.LocalSGD(rounds=2), rs.ExactFedRR(rounds=2), rs.FedNewton(rounds=2)):
    method.solve(clients)
rs.RRClassifier().fit(X, y).predict(X), rs.RRRegressor().fit(X, y).predict(X)
for asked in (lambda: rs.ProxRR(epochs=2).solve(problem, progress=True), lambda: rs.plotting.plot_gap([], 0.0)):
    try:
        asked()
    except rs.InputError as error:
        print(error)
sys.argv = ["reshuffle"]
from reshuffle.__main__ import main
main()
"""


def test_solvers_and_estimators_need_numpy_scipy_and_scikit_learn_alone() -> None:
    """Bars, figures and the command come with the extra ``cli``, and say so where it is missing."""
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        'a progress bar needs rich: pip install "reshuffle[cli]"',
        'a figure needs matplotlib: pip install "reshuffle[cli]"',
    ], done.stderr
    assert done.returncode == 1
    assert done.stderr == 'The command needs click: pip install "reshuffle[cli]"\n'


def test_every_public_name_is_there() -> None:
    for name in rs.__all__:
        assert getattr(rs, name) is not None
    assert set(rs.__all__) <= set(dir(rs))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = rs.Nonsense


def test_demo_prints_a_table_and_writes_its_files(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    done = CliRunner().invoke(main, ["demo", "--epochs", "20", "--out", str(out)])
    assert done.exit_code == 0, done.output
    for word in (
        "ExactProxRR",
        "ProxRR",
        "ProxSO",
        "RR, prox each step",
        "ProxSGD",
        "prox evals",
        "seconds",
    ):
        assert word in done.output
    rows = re.findall(r"│ (\S[^│]*?) +│ +(\S+) │[^│]*│ +([\d,]+) │", done.output)
    gap, prox = {name: float(g) for name, g, _ in rows}, {name: p for name, _, p in rows}
    assert rows[0][0] == "ExactProxRR"
    assert abs(gap["ExactProxRR"]) < 1e-3 * min(gap[name] for name in gap if name != "ExactProxRR")
    assert prox["ProxRR"] == "20"
    assert prox["ProxSGD"] == f"{20 * 569:,}"
    assert (out / "gap.png").read_bytes()[:4] == b"\x89PNG"
    assert len(list(out.glob("*.csv"))) == 5


def test_bad_options_are_refused() -> None:
    done = CliRunner().invoke(main, ["demo", "--epochs", "0"])
    assert done.exit_code == 2
    assert "--epochs" in done.output


def test_the_package_says_that_it_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Typing :: Typed" in project["classifiers"]
    assert files("reshuffle").joinpath("py.typed").is_file()


def test_the_lowest_versions_are_those_of_the_project() -> None:
    """lowest.txt pins each run-time and test dependency at its lower bound (8.1 is 8.1.0)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = [
        *extras["cli"],
        *extras["numba"],
        *extras["ray"],
        *extras["flower"],
        *extras["secure"],
        *extras["tables"],
        *extras["export"],
        *extras["privacy"],
        *extras["test"],
    ]
    named = [*project["dependencies"], *optional]
    bounds = dict(name.split(",")[0].split(">=") for name in named if ">=" in name)
    pins = re.findall(r"^([\w-]+)==(.+)$", (ROOT / "lowest.txt").read_text(), re.MULTILINE)
    assert dict(pins) == {
        name: ".".join([*v.split("."), "0", "0"][:3]) for name, v in bounds.items()
    }


def test_readme_has_exactly_two_set_up_commands() -> None:
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    assert "reshuffle demo" in blocks[0]
    assert "[cli]" in blocks[0]
    assert "pytest" in blocks[1]
