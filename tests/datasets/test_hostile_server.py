"""Downloads from servers that are broken, slow, endless or hostile: nothing wrong is kept, and nothing goes on for ever."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from servers import serving

import reshuffle as rs
from reshuffle.datasets import CATALOGUE, cache_folder, download, fetch, find, load_libsvm

ROWS = b"+1 1:1 3:0.5\n-1 2:2\n" * 500
Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer]]:
    """Answers that are given one after the other, the last one again and again; an empty cache and folder."""
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                (answers.pop(0) if len(answers) > 1 else answers[0])(self)
            except OSError:  # the client has gone
                return

        def log_message(self, *_: Any) -> None: ...

    monkeypatch.setitem(CATALOGUE, "w1a", replace(CATALOGUE["w1a"], rows=1000, features=3))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with serving(Handler, tmp_path, monkeypatch):
        yield answers


def says(body: bytes, status: int = 200, **headers: str) -> Answer:
    """An answer with these headers alone: where no length is among them, the end of the connection is the end."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def kept() -> set[str]:
    return {p.name for p in cache_folder().iterdir() if p.name != ".lock"}


WRONG = {
    "a login page": b"<html><form>password</form></html>",
    "cut short": ROWS[:-200],
    "too many rows": ROWS * 2,
    "too wide": ROWS.replace(b"3:0.5", b"3:0.5 9:1"),
    "one class": ROWS.replace(b"-1", b"+1"),
    "three classes": b"0" + ROWS[2:],
    "nothing": b"",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_the_set_of_the_catalogue_is_not_kept(name: str, server: list[Answer]) -> None:
    server.append(says(WRONG[name]))
    with pytest.raises(rs.InputError, match="not what the catalogue says") as told:
        fetch("w1a")
    assert "not kept" in str(told.value)
    assert kept() == set()
    server[:] = [says(ROWS)]
    assert fetch("w1a").read_bytes() == ROWS


def test_a_set_without_a_known_hash_says_when_it_was_first_seen(
    server: list[Answer], caplog: pytest.LogCaptureFixture
) -> None:
    server.append(says(ROWS))
    with caplog.at_level(logging.WARNING, "reshuffle"):
        fetch("w1a")
    record = json.loads((cache_folder() / "w1a.json").read_text())
    assert record["first_seen"] >= "2024"
    assert record["pinned"] is False
    assert record["sha256"] in caplog.text
    assert "no sha256 is known" in caplog.text


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(ROWS)


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for k in range(len(ROWS)):
        handler.wfile.write(ROWS[k : k + 1])
        time.sleep(0.02)


def test_an_endless_body_and_a_large_one_are_refused(server: list[Answer]) -> None:
    for answer in (endless, says(ROWS, Content_Length=str(10**15))):
        server[:] = [answer]
        with pytest.raises(
            rs.InputError, match=r"more than 88,000 bytes, the most that this file can have"
        ):
            fetch("w1a")
        assert kept() == set()


def test_all_of_it_has_a_time_limit_not_each_byte(server: list[Answer], tmp_path: Path) -> None:
    server.append(dripping)
    target = cache_folder() / "w1a"
    with pytest.raises(rs.InputError, match="longer than its time limit"):
        download.download(f"{os.environ['RESHUFFLE_URL']}/w1a", target, longest=0.2)
    assert not target.exists()


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "ftp://example.org", "file:///etc", "", "https://", "nonsense", "https://a b",
     "http://127.0.0.1.example.org", "https://[", "javascript:1", "HTTP://example.org"],
)  # fmt: skip
def test_other_schemes_are_refused_before_anything_is_asked(
    url: str, server: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(rs.InputError, match=r"https://|address"):
        download.download(f"{url}/w1a" if url else url, cache_folder() / "w1a")
    assert not cache_folder().exists()


def test_http_is_allowed_where_it_is_asked_for(
    server: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESHUFFLE_HTTP", "1")
    monkeypatch.setenv("RESHUFFLE_URL", "http://nowhere.invalid")
    with pytest.raises(rs.InputError, match=r"cannot download http://nowhere\.invalid"):
        fetch("w1a")


@pytest.mark.parametrize("where", ["https://example.org/w1a", "file:///etc/passwd", "ftp://a/b"])
def test_no_redirect_to_another_scheme(where: str, server: list[Answer]) -> None:
    server.append(says(b"", 302, Location=where))
    with pytest.raises(rs.InputError, match=r"another scheme|not allowed"):
        fetch("w1a")
    assert kept() == set()


def test_a_redirect_is_followed_and_a_circle_is_not(server: list[Answer]) -> None:
    server += [says(b"", 302, Location="/elsewhere"), says(ROWS)]
    assert fetch("w1a").read_bytes() == ROWS
    (cache_folder() / "w1a").unlink()
    server[:] = [says(b"", 302, Location="/w1a")]
    with pytest.raises(rs.InputError, match="cannot download"):
        fetch("w1a")


def test_a_file_that_changed_is_not_glued_together(server: list[Answer]) -> None:
    """The server takes no notice of If-Range, and sends the rest of another version."""
    other = ROWS.replace(b"0.5", b"0.7")
    where = f"bytes 100-{len(other) - 1}/{len(other)}"
    server += [
        says(ROWS[:100], ETag='"1"', Content_Length=str(len(ROWS))),
        says(other[100:], 206, ETag='"2"', Content_Range=where),
        says(other, ETag='"2"', Content_Length=str(len(other))),
    ]
    assert fetch("w1a").read_bytes() == other


def test_a_piece_that_says_not_which_is_not_believed(server: list[Answer]) -> None:
    server += [
        says(ROWS[:100], ETag='"1"', Content_Length=str(len(ROWS))),
        says(ROWS[100:], 206, ETag='"1"'),
        says(ROWS, ETag='"1"', Content_Length=str(len(ROWS))),
    ]
    assert fetch("w1a").read_bytes() == ROWS


def test_planted_links_are_not_written_through(server: list[Answer], tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    cache_folder().mkdir()
    for name in ("w1a.part", "w1a.part.version", "w1a.json"):
        (cache_folder() / name).symlink_to(victim)
    server.append(says(ROWS, ETag='"1"'))
    assert fetch("w1a").read_bytes() == ROWS
    assert victim.read_text() == "mine"


def test_a_file_in_the_current_folder_is_not_a_set_of_that_name(
    server: list[Answer], data_folder: Path | None
) -> None:
    server.append(says(ROWS))
    for name in ("w1a", "mushrooms"):
        Path(name).write_bytes(b"+1 1:6\n-1 1:7\n")
        assert find(name) is None
        assert find(f"./{name}") == Path(name)
    assert fetch("w1a").read_bytes() == ROWS
    assert load_libsvm("./mushrooms")[0].shape == (2, 1)
    if data_folder is not None:  # the set itself has its hash
        Path("a1a").write_bytes((data_folder / "a1a").read_bytes())
        assert find("a1a") == Path("a1a")


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0b", "x" * 300, "no such", "a/../../b"])
def test_names_that_are_none_are_refused(name: str, server: list[Answer]) -> None:
    with pytest.raises(rs.InputError, match="no data file"):
        load_libsvm(name)
