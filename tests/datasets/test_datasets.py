"""Data files by name: found, downloaded from a server of our own, broken off, damaged."""

from __future__ import annotations

import bz2
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from servers import serving

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.datasets import CATALOGUE, cache_folder, download, fetch, find, load_libsvm

ROWS = b"+1 1:1 3:0.5\n-1 2:2\n+1 1:0.25 2:1\n" * 5000


class Page:
    """What the server has, how it misbehaves, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"w1a": ROWS, "a1a": ROWS, "ijcnn1.bz2": bz2.compress(ROWS)}
        self.breaks: list[int] = []  # bytes after which the next answers break off
        self.status: list[int] = []  # error codes of the next answers
        self.ranges, self.tags = True, True  # whether it knows Range and ETag
        self.version, self.wait = "1", 0.0
        self.asked: list[str | None] = []  # the Range of each request
        self.sent = 0


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A local copy of LIBSVM's page; no data folder, an empty cache."""
    page = Page()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.asked.append(self.headers["Range"])
            body, tag = page.files.get(self.path.strip("/")), f'"{page.version}"'
            if page.status or body is None:
                self.send_error(page.status.pop(0) if page.status else 404)
                return
            first, whole = 0, len(body)
            fresh = self.headers["If-Range"] in (None, tag)
            if page.ranges and fresh and self.headers["Range"]:
                first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                if first >= whole:
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{whole - 1}/{whole}")
            else:
                self.send_response(200)
            if page.tags:
                self.send_header("ETag", tag)
            self.send_header("Content-Length", str(whole - first))
            self.end_headers()
            last = page.breaks.pop(0) if page.breaks else whole
            for start in range(first, last, 1 << 14):
                time.sleep(page.wait)
                piece = body[start : min(last, start + (1 << 14))]
                page.sent += len(piece)
                try:
                    self.wfile.write(piece)
                except OSError:
                    return

        def log_message(self, *_: Any) -> None: ...

    for name in ("w1a", "ijcnn1"):
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], rows=15000, features=3))
    with serving(Handler, tmp_path, monkeypatch):
        yield page


def files() -> set[str]:
    return {path.name for path in cache_folder().iterdir() if path.name != ".lock"}


# --- where files are looked for ----------------------------------------------------------------


def test_a_file_is_found_as_path_in_folders_and_in_the_cache_in_that_order(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, named, given = cache_folder() / "w1a", tmp_path / "named", tmp_path / "given"
    monkeypatch.setenv("RESHUFFLE_DATA", str(named))
    assert find("w1a") is None
    for place in (cached, named / "w1a.bz2", given / "w1a"):
        place.parent.mkdir()
        place.write_bytes(ROWS)
        assert find("w1a", given) == place
    assert find("w1a") == named / "w1a.bz2"
    assert find(given / "w1a") == given / "w1a"
    assert page.asked == []


def test_the_cache_is_where_the_platform_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESHUFFLE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/reshuffle")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "reshuffle"
    monkeypatch.setenv("RESHUFFLE_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")


def test_a_name_that_nobody_knows_is_refused_without_asking(page: Page) -> None:
    with pytest.raises(rs.InputError, match=r"no data file 'nonsense'.*names no folder"):
        load_libsvm("nonsense")
    assert page.asked == []


def test_the_real_files_have_the_sha256_of_the_catalogue(data_folder: Path | None) -> None:
    if data_folder is None:
        pytest.skip("no data: name a folder with a1a, a9a, mushrooms in RESHUFFLE_DATA")
    for name in ("a1a", "a9a", "mushrooms"):
        assert download.digest_of(data_folder / name) == CATALOGUE[name].sha256
        X, y = load_libsvm(name)
        assert X.shape[0] == CATALOGUE[name].rows
        assert X.shape[1] <= CATALOGUE[name].features
        assert set(np.unique(y)) == {-1.0, 1.0}


# --- downloads ---------------------------------------------------------------------------------


def test_a_file_is_downloaded_once_and_its_sha256_kept(page: Page) -> None:
    X, y = load_libsvm("w1a")
    assert X.shape == (15000, 3)
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert set(y) == {-1.0, 1.0}
    assert files() == {"w1a", "w1a.json"}
    record = json.loads((cache_folder() / "w1a.json").read_text())
    assert record["sha256"] == hashlib.sha256(ROWS).hexdigest()
    assert record["bytes"] == len(ROWS)
    load_libsvm("w1a")
    assert page.asked == [None]


def test_a_packed_file_is_loaded_as_it_is(page: Page) -> None:
    X, _ = load_libsvm("ijcnn1")
    assert X.shape == (15000, 3)
    assert files() == {"ijcnn1.bz2", "ijcnn1.bz2.json"}


def test_a_cached_file_that_changed_is_refused(page: Page) -> None:
    path = fetch("w1a")
    path.write_bytes(ROWS[:-20])
    with pytest.raises(rs.InputError, match="delete it"):
        load_libsvm("w1a")
    path.unlink()
    assert fetch("w1a").read_bytes() == ROWS


def test_the_known_sha256_is_demanded(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rs.InputError, match=r"has sha256 .*, not eb54c45f.*try again"):
        fetch("a1a")
    assert files() == set()
    right = replace(CATALOGUE["a1a"], sha256=hashlib.sha256(ROWS).hexdigest())
    monkeypatch.setitem(CATALOGUE, "a1a", right)
    assert fetch("a1a").read_bytes() == ROWS


def test_a_download_that_breaks_off_is_taken_up_again_by_itself(page: Page) -> None:
    page.breaks = [50_000, 120_000]
    assert fetch("w1a").read_bytes() == ROWS
    assert page.asked == [None, "bytes=50000-", "bytes=120000-"]
    assert page.sent == len(ROWS)
    assert files() == {"w1a", "w1a.json"}


def test_a_truncated_file_is_never_taken_for_whole_and_resumed_by_the_next_call(page: Page) -> None:
    page.breaks = [50_000] * 3
    with pytest.raises(rs.InputError, match=r"50,000 of 170,000 bytes.*RESHUFFLE_DATA"):
        fetch("w1a")
    assert find("w1a") is None
    assert (cache_folder() / "w1a.part").stat().st_size == 50_000
    assert fetch("w1a").read_bytes() == ROWS
    assert page.asked[-1] == "bytes=50000-"


def test_a_file_that_changed_in_between_is_fetched_anew(page: Page) -> None:
    page.breaks = [50_000] * 3
    with pytest.raises(rs.InputError):
        fetch("w1a")
    page.version, page.files["w1a"] = "2", ROWS.replace(b"0.25", b"0.75")
    assert fetch("w1a").read_bytes() == page.files["w1a"]


@pytest.mark.parametrize("lacking", ["ranges", "tags"])
def test_a_server_without_ranges_or_versions_sends_all_of_it_again(
    page: Page, lacking: str
) -> None:
    setattr(page, lacking, False)
    page.breaks = [50_000]
    assert fetch("w1a").read_bytes() == ROWS
    assert page.sent == 50_000 + len(ROWS)


def test_where_the_sha256_is_known_no_version_is_needed_to_resume(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = replace(CATALOGUE["a1a"], sha256=hashlib.sha256(ROWS).hexdigest())
    monkeypatch.setitem(CATALOGUE, "a1a", known)
    page.tags, page.breaks = False, [50_000]
    assert fetch("a1a").read_bytes() == ROWS
    assert page.sent == len(ROWS)


def test_more_than_there_is_starts_over(page: Page) -> None:
    page.breaks = [50_000] * 3
    with pytest.raises(rs.InputError):
        fetch("w1a")
    (cache_folder() / "w1a.part").write_bytes(b"x" * 200_000)
    assert fetch("w1a").read_bytes() == ROWS
    assert page.asked[-2:] == ["bytes=200000-", None]


def test_a_missing_file_is_asked_for_once(page: Page) -> None:
    del page.files["w1a"]
    with pytest.raises(rs.InputError, match=r"HTTP 404.*put the file w1a into a folder"):
        fetch("w1a")
    assert page.asked == [None]
    assert files() == set()


def test_a_server_that_fails_for_a_moment_is_asked_again(page: Page) -> None:
    page.status = [503, 500]
    assert fetch("w1a").read_bytes() == ROWS
    assert len(page.asked) == 3


def test_a_slow_server_is_waited_for_and_a_silent_one_is_not(page: Page) -> None:
    page.wait = 0.02
    assert fetch("w1a", timeout=0.5).read_bytes() == ROWS
    page.wait = 30.0
    (cache_folder() / "w1a").unlink()
    with pytest.raises(rs.InputError, match=r"timed out.*Try again"):
        fetch("w1a", timeout=0.1)


def test_without_a_network_the_error_says_what_to_do(
    page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RESHUFFLE_URL", "http://127.0.0.1:9")
    with pytest.raises(rs.InputError, match=r"cannot download .*refused.*RESHUFFLE_DATA"):
        load_libsvm("w1a")
    (tmp_path / "w1a").write_bytes(ROWS)
    monkeypatch.setenv("RESHUFFLE_DATA", str(tmp_path))
    assert load_libsvm("w1a")[0].shape == (15000, 3)


def test_a_cache_that_cannot_be_written_says_so(
    page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RESHUFFLE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(rs.InputError, match=r"cannot write into .*RESHUFFLE_CACHE"):
        fetch("w1a")


def test_two_who_want_one_file_download_it_once(page: Page) -> None:
    page.wait = 0.01
    found: list[bytes] = []
    threads = [Thread(target=lambda: found.append(fetch("w1a").read_bytes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [ROWS] * 3
    assert page.asked == [None]


def test_what_is_not_in_libsvm_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<html>not found</html>")
    with pytest.raises(rs.InputError, match="not in LIBSVM format"):
        load_libsvm(tmp_path / "page.html")
    (tmp_path / "w1a.bz2").write_bytes(bz2.compress(ROWS)[:-30])
    with pytest.raises(rs.InputError, match="damaged"):
        load_libsvm("w1a", folder=tmp_path)


# --- the command -------------------------------------------------------------------------------


def test_the_command_lists_and_fetches(page: Page) -> None:
    listed = CliRunner().invoke(main, ["datasets"])
    assert listed.exit_code == 0, listed.output
    assert all(name in listed.output for name in CATALOGUE)
    assert page.asked == []
    before = CliRunner().invoke(main, ["datasets", "w1a"])
    assert "not here" in before.output
    assert "mushrooms" not in before.output
    done = CliRunner().invoke(main, ["datasets", "w1a", "ijcnn1", "--fetch"])
    assert done.exit_code == 0, done.output
    assert "not here" not in done.output
    assert "170.0 kB" in done.output
    assert files() == {"w1a", "w1a.json", "ijcnn1.bz2", "ijcnn1.bz2.json"}


def test_the_command_says_what_is_wrong(page: Page) -> None:
    page.files.clear()
    done = CliRunner().invoke(main, ["datasets", "w1a", "--fetch"])
    assert done.exit_code == 1
    assert "HTTP 404" in done.output
    assert "Traceback" not in done.output
    unknown = CliRunner().invoke(main, ["datasets", "nonsense"])
    assert unknown.exit_code == 1
    assert "nonsense" in unknown.output
    everything = CliRunner().invoke(main, ["datasets", "--fetch"])
    assert everything.exit_code == 2  # which: all of them is a lot
