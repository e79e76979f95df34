"""Writing that is whole or not at all, and reading of files that anybody may have made."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import FileError
from reshuffle.files import replacing, write_atomically
from reshuffle.npz_archive import read_archive, write_archive

ARRAYS = {
    "x": np.arange(6.0).reshape(2, 3),
    "none": np.empty((0, 3)),
    "text": np.array(["ä", "bc"]),
}


def in_a_process(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


# --- writing -----------------------------------------------------------------------------------


def test_many_threads_and_processes_write_one_path(tmp_path: Path) -> None:
    """Every reader finds one of the contents whole, no writer fails, and nothing is left beside it."""
    target = tmp_path / "file"
    contents = [bytes([65 + k]) * (50_000 + 7_000 * k) for k in range(4)]
    code = (
        "import sys; from reshuffle.files import write_atomically\n"
        "for _ in range(40): write_atomically(sys.argv[1], b'Z' * 123_456)\n"
    )
    other = in_a_process(code, target)
    failures: list[Exception] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(40):
                write_atomically(target, content)
        except Exception as error:
            failures.append(error)

    write(contents[0])
    threads = [Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert target.read_bytes() in [*contents, b"Z" * 123_456]
    other.communicate()
    assert other.returncode == 0
    assert failures == []
    assert os.listdir(tmp_path) == ["file"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "file"
    victim.write_text("mine")
    target.symlink_to(victim)
    for name in (f".file.{os.getpid()}.tmp", ".file.0123456789ab.tmp"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(target, b"new")
    assert victim.read_text() == "mine"
    assert target.read_bytes() == b"new"
    assert not target.is_symlink()


def test_permissions_are_those_of_the_umask(tmp_path: Path) -> None:
    for mask in (0o022, 0o077, 0o002):
        old = os.umask(mask)
        try:
            write_atomically(tmp_path / "file", b"")
        finally:
            os.umask(old)
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


def test_an_error_inside_leaves_all_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail() -> None:
        with replacing(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_kill_leaves_litter_that_the_next_writer_removes(tmp_path: Path) -> None:
    """Of dead writers only: the file of a living one stays."""
    target = tmp_path / "file"
    code = (
        "import sys, time; from reshuffle.files import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); print('in', flush=True); time.sleep(600)\n"
    )
    dead, living = in_a_process(code, target), in_a_process(code, target)
    try:
        for process in (dead, living):
            assert process.stdout is not None
            assert process.stdout.readline() == "in\n"
        assert len(os.listdir(tmp_path)) == 2
        dead.send_signal(signal.SIGKILL)
        dead.communicate()
        write_atomically(target, b"whole")
        assert target.read_bytes() == b"whole"
        assert len(os.listdir(tmp_path)) == 2
    finally:
        living.kill()
        living.communicate()
    write_atomically(target, b"again")
    assert os.listdir(tmp_path) == ["file"]


def test_a_kill_during_save_leaves_a_result_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    code = (
        "import sys, numpy as np, reshuffle as rs\n"
        "r = rs.ProxRR(epochs=1).solve(rs.Problem(np.eye(3), [1., -1., 1.]))\n"
        "from dataclasses import replace\n"
        "r = replace(r, x=np.arange(2e6))\n"
        "while True: r.save(sys.argv[1])\n"
    )
    for wait in (0.01, 0.04):
        process = in_a_process(code, path)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while not path.exists() or path.stat().st_mtime_ns == before:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(wait)
        process.kill()
        process.communicate()
        assert rs.Result.load(path).x[-1] == 2e6 - 1
    rs.Result.load(path).save(path)
    assert os.listdir(tmp_path) == ["run.npz"]


def refusing(error: int) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(error, os.strerror(error))

    return refuse


@pytest.mark.parametrize(
    ("function", "error"),
    [("open", 30), ("open", 13), ("fsync", 28), ("fsync", 5), ("replace", 30)],
)
def test_a_disk_that_refuses_is_a_sentence(
    function: str, error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with monkeypatch.context() as patched:
        patched.setattr(os, function, refusing(error))
        with pytest.raises(FileError, match=f"cannot write .*file: {os.strerror(error)}") as caught:
            write_atomically(target, b"new")
    assert caught.value.errno == error
    assert isinstance(caught.value, (OSError, rs.InputError))
    assert os.listdir(tmp_path) == ["file"]
    assert target.read_bytes() == b"old"


def test_a_disk_that_is_full_is_a_sentence(tmp_path: Path) -> None:
    """A limit on the size of files stands in for it: writing fails in the middle."""
    code = (
        "import sys; from reshuffle.files import write_atomically; from reshuffle.errors import FileError\n"
        "try: write_atomically(sys.argv[1], b'x' * 10**6)\n"
        "except FileError as error: print(error)\n"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    process = in_a_process(code, tmp_path / "file", preexec_fn=limit)
    assert f"cannot write {tmp_path / 'file'}: File too large" in process.communicate()[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", "a\0b", "no/such/folder/file"])
def test_what_is_no_place_for_a_file_is_refused(path: str) -> None:
    with pytest.raises(rs.InputError, match=r"cannot write|does not name a file"):
        write_atomically(path, b"x")


def test_folders_pipes_and_names_that_are_too_long_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / ("x" * 256), tmp_path / "pipe"):
        with pytest.raises(FileError, match="cannot write"):
            write_atomically(path, b"")
    write_atomically(tmp_path / ("x" * 255), b"")
    assert len(os.listdir(tmp_path)) == 2
    if sys.getfilesystemencoding() == "utf-8":
        write_atomically(tmp_path / ("ä" * 127), b"")
    else:
        with pytest.raises(rs.InputError, match="does not name a file"):
            write_atomically(tmp_path / "ä", b"")


# --- reading -----------------------------------------------------------------------------------


def test_an_archive_keeps_its_arrays_and_is_readable_by_numpy(tmp_path: Path) -> None:
    write_archive(tmp_path / "file", "thing", 1, {"k": 1}, ARRAYS)
    with read_archive(tmp_path / "file", "thing", 1) as stored:
        assert stored.about["k"] == 1
        assert stored.headers["x"].shape == (2, 3)
        found = stored.arrays()
    with np.load(tmp_path / "file") as theirs:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
            np.testing.assert_array_equal(theirs[name], array)
            assert found[name].dtype == array.dtype


def test_every_damaged_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    """An 'InputError' or the arrays that were saved, to the last bit."""
    write_archive(tmp_path / "file", "thing", 1, {"k": 1}, ARRAYS)
    whole = (tmp_path / "file").read_bytes()
    path, refused = tmp_path / "damaged", 0
    damages = [
        whole[:k] + bytes([whole[k] ^ 255]) + whole[k + 1 :] for k in range(0, len(whole), 3)
    ]
    damages += [whole[:k] for k in range(0, len(whole), 31)]
    for content in damages:
        path.write_bytes(content)
        try:
            with read_archive(path, "thing", 1) as stored:
                found = stored.arrays()
        except rs.InputError:
            refused += 1
            continue
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
    assert refused > 0.7 * len(damages)  # else: times and notes of the zip, which nobody reads


def member(header: bytes, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


BOMBS = {
    "compressed": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000,), }\n", bytes(8 * 10**6)),
    "a huge shape": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }\n"),
    "an overflowing shape": member(
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"
    ),
    "objects": member(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"cos\nsystem\n."),
    "code": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (exit(),), }\n", bytes(8)),
    "nested": member(b"(" * 60_000),
    "a structure": member(b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
    "by columns": member(b"{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1), }\n", bytes(8)),
    "another version": b"\x93NUMPY\x02\x00" + bytes(100),
    "nothing": b"",
    "no size": member(b"{'descr': '<f0', 'fortran_order': False, 'shape': (1,), }\n"),
    "trailing": member(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", bytes(9)),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_by_their_headers(name: str, tmp_path: Path) -> None:
    SAVED.save(tmp_path / "file")
    packed = zipfile.ZIP_DEFLATED if name == "compressed" else zipfile.ZIP_STORED
    with zipfile.ZipFile(tmp_path / "file", "a", packed) as stored:
        stored.writestr("trace/bomb.npy", BOMBS[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(rs.InputError, match="not a saved result, or is damaged"):
        rs.Result.load(tmp_path / "file")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_members_that_overlap_or_say_that_they_are_larger_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as stored:
        stored.writestr("about.npy", bytes(1000))
        entry = stored.infolist()[0]
        for k in range(50):  # fifty names for one place in the file
            other = zipfile.ZipInfo(f"part{k}.npy")
            other.header_offset, other.CRC = entry.header_offset, entry.CRC
            other.file_size = other.compress_size = 1000
            stored.filelist.append(other)
            stored.NameToInfo[other.filename] = other
    (tmp_path / "file").write_bytes(buffer.getvalue())
    with pytest.raises(rs.InputError, match="larger than the file"):
        rs.Result.load(tmp_path / "file")


def test_only_regular_files_are_read_and_none_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        for load in (rs.Result.load, rs.estimators.load):
            with pytest.raises(rs.InputError, match="is not a file"):
                load(path)
    with pytest.raises(FileNotFoundError):
        rs.Result.load(tmp_path / "nothing")
    with pytest.raises(rs.InputError, match="cannot read"):
        rs.Result.load("a\0b")


def test_another_file_is_named_for_what_it_is(tmp_path: Path) -> None:
    """A table loaded as a result: no advice of numpy's to load it 'unsafely'."""
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        rs.InputError, match=r"table\.csv is not a saved result, or is damaged: "
    ) as told:
        rs.Result.load(tmp_path / "table.csv")
    assert "pickle" not in str(told.value)
    write_archive(tmp_path / "model", "model file", 2, {}, {})
    with pytest.raises(rs.InputError, match="says that it is a 'model file'"):
        rs.Result.load(tmp_path / "model")
    write_archive(tmp_path / "later", "saved result", 99, {}, {})
    with pytest.raises(rs.InputError, match="version 99 of a saved result; this reads"):
        rs.Result.load(tmp_path / "later")


SAVED = rs.ProxRR(epochs=1).solve(rs.Problem(np.eye(3), [1.0, -1.0, 1.0]))


@pytest.mark.parametrize("at", ["fdopen", "fstat", "fsync", "replace"])
def test_an_interruption_at_any_moment_leaves_nothing_behind(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one between the moment that a file is there and the one that it has a name in the program."""
    plain = getattr(os, at)

    def interrupted(*args: Any, **options: Any) -> Any:
        plain(*args, **options)
        raise KeyboardInterrupt

    target = tmp_path / "model.npz"
    write_atomically(target, b"old")
    monkeypatch.setattr(os, at, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, b"new")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["model.npz"]
    assert target.read_bytes() == (b"new" if at == "replace" else b"old")
