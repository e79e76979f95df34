"""The command at its edges: pipes, bad targets, exit codes, files that lie, completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from command_line import check_page, fit, run, write_people

from reshuffle.cli import main
from reshuffle.estimators.model_file import KIND, VERSION
from reshuffle.npz_archive import read_archive, write_archive

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_people(tmp_path_factory.mktemp("people"))


def test_libsvm_and_a_stream_of_it(tmp_path: Path) -> None:
    lines = [f"{1 + (k % 3 > 0)} 1:{k % 3} 2:{k % 5} 4:1" for k in range(90)]
    file = tmp_path / "rows"
    file.write_text("\n".join(lines))
    found = fit(file, tmp_path / "out")
    assert found["classes"] == [1, 2]  # as they are written
    done = run("predict", tmp_path / "out" / "model.npz", "-", input="\n".join(lines[:6]))
    assert done.stdout.split() == ["prediction", "1", "2", "2", "1", "2", "2"]
    assert "feature 1" in check_page(tmp_path / "out" / "report.html")
    wrong = run("predict", tmp_path / "out" / "model.npz", "-", input="1 1:1\n1 1:x\n", code=1)
    assert "standard input, line 2 is not in LIBSVM format" in wrong.stderr


def test_a_sparse_matrix(tmp_path: Path) -> None:
    X: Any = sp.random(60, 8, 0.5, "csr", random_state=0)
    sp.save_npz(tmp_path / "x.npz", X)
    np.save(tmp_path / "y.npy", (X.toarray()[:, 0] > 0.2).astype(int))
    out = tmp_path / "out"
    found = fit(tmp_path / "x.npz", out, "--target", str(tmp_path / "y.npy"))
    assert found["features"] == 8
    said = run("predict", out / "model.npz", tmp_path / "x.npz", "--out", tmp_path / "p.csv")
    assert said.stdout == ""
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 61


def test_exit_codes(people: Path, tmp_path: Path) -> None:
    options = ["-t", "buys", "--drop", "spend", "--out", str(tmp_path)]
    late = run("fit", people, *options, "--solver", "proxsgd", "--epochs", "2", code=3)
    assert "the requested accuracy was not reached" in late.stderr
    assert "not reached" in check_page(tmp_path / "report.html")
    run("fit", people, "-t", "nonsense", code=1)
    run("fit", people, *options, "--epochs", "0", code=2)
    run("fit", people, *options, "--json", "--quiet", code=2)
    quiet = run("fit", people, *options, "--quiet")
    assert (quiet.stdout, quiet.stderr.replace("reshuffle: compiling", "")) == ("", "")


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a,y\n1,1\n", (), "needs two rows of a class or more"),
        ("a,y\n1,0\n2,1\n", (), "needs two rows of a class or more.*--holdout 0"),
        ("a,y\n1,1\n2,1\n3,1\n", (), "two classes or more, got one class"),
        ("a,y\n1,-1.5\n2,2.5\n3,3.5\n", ("--loss", "poisson"), "must not be negative"),
        ("a,y\n1,b\n2,c\n3,c\n", ("--loss", "squared"), "for numbers, and the target holds texts"),
        ("a,y\n1,1.5\n2,2.5\n3,3.5\n", ("--class-weight", "balanced"), "is for classes"),
    ],
)
def test_targets_that_do_not_fit(
    tmp_path: Path, text: str, options: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    done = run("fit", tmp_path / "t.csv", "-t", "y", "--out", tmp_path / "o", *options, code=1)
    assert re.search(sentence, done.stderr)
    assert not (tmp_path / "o").exists()


def test_columns_that_count_rows_or_are_huge(tmp_path: Path) -> None:
    lines = [f"{k},{1e300 if k % 2 else -1e300},{k % 2}" for k in range(40)]
    (tmp_path / "t.csv").write_text("id,v,y\n" + "\n".join(lines))
    done = run("fit", tmp_path / "t.csv", "-t", "y", "--out", tmp_path / "o")
    assert "column 'id' counts the rows" in done.stderr
    assert "'v' counts" not in done.stderr
    assert "accuracy 1" in done.stdout
    refused = run("predict", tmp_path / "o" / "model.npz", tmp_path / "t.csv", "--out", tmp_path / "no" / "p", code=1)  # fmt: skip
    assert "cannot write" in refused.stderr


def test_predictions_stream_in_constant_memory(people: Path, tmp_path: Path) -> None:
    """A pipe that never ends gives predictions as it goes, and a reader that leaves ends it."""
    run("fit", people, "-t", "buys", "--drop", "spend", "--out", tmp_path, "--quiet")
    script = (
        "import sys\n"
        "sys.stdout.write('colour,age,income\\n')\n"
        "try:\n"
        "    while True: sys.stdout.write('red,30,20000\\n' * 1000)\n"
        "except BrokenPipeError: pass\n"
    )
    command = (
        f'{sys.executable} -c "$SCRIPT" 2>/dev/null | {sys.executable} -m reshuffle predict model.npz - '
        "| head -n 40000 | sort | uniq -c"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=os.environ | {"SCRIPT": script},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.fullmatch(r"\s*1 prediction\s+39999 (yes|no)\s*", done.stdout)
    assert "Traceback" not in done.stderr


def test_a_model_file_that_lies_about_its_columns_is_refused(people: Path, tmp_path: Path) -> None:
    run("fit", people, "-t", "buys", "--drop", "spend", "--out", tmp_path, "--quiet")
    path = tmp_path / "model.npz"
    with read_archive(path, KIND, VERSION) as stored:
        about, arrays = dict(stored.about), dict(stored.arrays())
    changes: list[Any] = [
        {"kind": "rows", "features": 99, "first": 1},
        {"kind": "rows", "features": 5, "first": 7},
        {"kind": "table", "columns": [{"name": "age"}]},
        {"kind": "table", "columns": [{"name": "age", "fill": None, "centre": 0, "scale": 0}]},
        {"kind": "nonsense"},
        [],
    ]
    for change in changes:
        lie = np.array(json.dumps(change))
        write_archive(path, KIND, VERSION, about, arrays | {"encoding": lie})
        assert "damaged model file" in run("predict", path, people, code=1).stderr


def names_of(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Every command, those of groups with the name of the group before theirs."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from ((name, *rest) for rest in names_of(command))
        else:
            yield (name,)


@pytest.mark.parametrize("words", list(names_of(main)), ids=" ".join)
def test_every_command_has_examples_json_and_quiet(words: tuple[str, ...]) -> None:
    text = run(*words, "--help").stdout
    assert "Examples:" in text
    assert "--json" in text
    assert "--quiet" in text


@pytest.mark.parametrize("words", list(names_of(main)), ids=" ".join)
def test_every_option_has_a_help_text(words: tuple[str, ...]) -> None:
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    options = [part for part in command.params if isinstance(part, click.Option)]
    assert [
        part.name for part in options if not (part.help or "").split("[default")[0].strip()
    ] == []


def test_no_line_of_the_list_of_commands_is_cut() -> None:
    for command in ([], ["flower"]):
        listed = run(*command, "--help").stdout.split("Commands:")[1]
        assert "..." not in listed


def test_the_demo_prints_the_numbers_of_the_readme(tmp_path: Path) -> None:
    printed = run("demo", "--out", tmp_path, "--no-progress").stdout.replace("│", "|")
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    lines = re.findall(
        r"^\| ([\w ,]+) \| (\S+e-\d+) \| ([\d,]+) \| ([\d,]+) \|$", readme, re.MULTILINE
    )
    assert len(lines) == 5
    found = [[word.strip() for word in line.split("|")[1:5]] for line in printed.splitlines()]
    assert [list(line) for line in lines] == [line for line in found if line and "e-" in line[1]]


def test_documents_of_the_other_commands(tmp_path: Path) -> None:
    lines = [f"{1 + (k % 3 > 0)} 1:{k % 3} 2:{k % 5} 4:{1 + k % 2}" for k in range(60)]
    file = tmp_path / "rows"
    file.write_text("\n".join(lines))

    def found(*arguments: Any) -> Any:
        return json.loads(run(*arguments, "--json").stdout)

    sets = found("datasets")
    assert {"name", "rows", "features", "path", "bytes"} == set(sets[0])
    theory = found("theory", file)
    assert theory["constants"]["L_max"] > 0
    assert "ProxRR" in {row["method"] for row in theory["methods"]}
    rounds = ["--clients", "3", "--rounds", "5", "--out", tmp_path / "f"]
    assert found("federate", file, *rounds)["epoch"] == 5
    demo = found("demo", "--epochs", "3", "--out", tmp_path / "d")
    assert "ExactProxRR" in demo["methods"]
    for command in (["datasets"], ["theory", file], ["federate", file, *rounds]):
        assert (
            run(*command, "--quiet", *(["--force"] if command[0] == "federate" else [])).output
            == ""
        )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there(shell: str) -> None:
    variable = {"_RESHUFFLE_COMPLETE": f"{shell}_source"}
    done = CliRunner().invoke(main, env=variable, prog_name="reshuffle")
    assert "reshuffle" in done.output
    words = {
        "COMP_WORDS": "reshuffle fi",
        "COMP_CWORD": "1",
        "_RESHUFFLE_COMPLETE": "bash_complete",
    }
    assert "fit" in CliRunner().invoke(main, env=words, prog_name="reshuffle").output


def test_who_reads_no_further_is_no_failure() -> None:
    """`reshuffle … | head`: the end of the pipe is the end of the command, with exit code 0."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "reshuffle", "datasets", "--json"],
            stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.returncode == 0
    assert done.stderr == b""


def test_more_folds_than_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n3,a\n4,b\n")
    told = run("path", tmp_path / "a.csv", "--target", "y", code=1).stderr
    assert "--folds 5 asks for more parts than there are rows: there are 3 rows" in told


# --- before any work, and nothing half said -------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "path", "compare"])
@pytest.mark.parametrize("place", ["file", "file/below", "link", "closed", "a" * 300])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    command: str, place: str, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "closed").mkdir()
    plain = os.access  # a superuser may write everywhere but on a disk that is read-only
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: plain(path, mode) and not (mode & os.W_OK and "closed" in str(path)),
    )
    monkeypatch.setattr("reshuffle.datasets.load_data", lambda *_: pytest.fail("it began to work"))
    before = sorted(os.listdir(tmp_path))
    code = 2 if place == "file" else 1  # what is no folder at all is wrong usage
    done = run(command, people, "-t", "buys", "--out", tmp_path / place, code=code)
    assert "is a file" in done.stderr or f"cannot write in {tmp_path / place}" in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("options", [["federate", "x"], ["demo"], ["reproduce", "theorems"]])
def test_so_do_the_other_commands(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(*options, "--out", tmp_path / "file" / "below", code=1)
    assert f"{tmp_path / 'file'} is not a folder" in done.stderr


def test_rows_that_are_refused_leave_no_header(people: Path, tmp_path: Path) -> None:
    fit(people, tmp_path, "-t", "buys", "--drop", "spend")
    model = tmp_path / "model.npz"
    for text in ("a,b\n1,2\n", "colour,age,income\nred,old,1\n", "colour,age,income\nred\n"):
        assert run("predict", model, "-", input=text, code=1).stdout == ""
        run("predict", model, "-", "--out", tmp_path / "p.csv", input=text, code=1)
        assert not (tmp_path / "p.csv").exists()
    assert run("predict", model, "-", input="colour,age,income\n").stdout == "prediction\n"


def test_labels_that_a_number_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    """2^53 and 2^53 + 1 are one floating-point number."""
    file = tmp_path / "codes.csv"
    file.write_text("x,y\n" + "".join(f"{k},{2**53 + k % 2}\n" for k in range(20)))
    said = run("fit", file, "-t", "y", "--loss", "logistic", "--out", tmp_path / "out", code=1)
    assert "labels must be below 9007199254740992, got 9007199254740992" in said.stderr


def test_no_file_that_is_read_is_written_over(people: Path, tmp_path: Path) -> None:
    """Neither the rows nor the model, by their own name or by a link to them."""
    rows = tmp_path / "rows.csv"
    rows.write_bytes(people.read_bytes())
    fit(rows, tmp_path, "-t", "buys", "--drop", "spend")
    model, link = tmp_path / "model.npz", tmp_path / "link"
    link.symlink_to(rows)
    kept = rows.read_bytes(), model.read_bytes()
    for out in (rows, model, link):
        said = run("predict", model, rows, "--out", out, code=1)
        assert f"cannot write {out}" in said.stderr
    for command, name in (("fit", "report.html"), ("path", "model.npz"), ("compare", "traces.csv")):
        own = tmp_path / command / name
        own.parent.mkdir()
        own.write_bytes(kept[0])
        chosen = ["-t", "buys", "--format", "csv", "--out", own.parent]
        assert "would be lost" in run(command, own, *chosen, code=1).stderr
        assert own.read_bytes() == kept[0]
    assert (rows.read_bytes(), model.read_bytes()) == kept
    run("predict", model, rows, "--out", tmp_path / "new.csv")
    run("predict", model, rows, "--out", tmp_path / "new.csv")  # its own of the last time


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,t\n1,a\n2,b\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ("x,t\n1,a\n2,b\n".encode("utf-16-be"), "holds a zero byte"),
        (b"sep=;\nx;t\n1;a\n2;b\n", "names the separator and no columns"),
    ],
)
def test_what_spreadsheets_write(text: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "sheet.csv"
    file.write_bytes(text)
    for options in ([], ["--separator", ";"]):
        assert said in run("fit", file, "-t", "t", "--out", tmp_path, *options, code=1).stderr
