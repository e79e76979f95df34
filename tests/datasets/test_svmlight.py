"""LIBSVM's text format: strict, bounded, and every damage named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.datasets import load_libsvm

TEXT = b"+1 1:1 3:0.5\n-1 2:2e-3\n# a remark\n\n+1 qid:7 1:.25 2:1. # another\r\n-1\n"


def load(tmp_path: Path, content: bytes, **options: Any) -> tuple[Any, Any]:
    (tmp_path / "file").write_bytes(content)
    X, y = load_libsvm(tmp_path / "file", **options)
    return X.toarray(), y


def test_what_the_format_allows_is_read(tmp_path: Path) -> None:
    X, y = load(tmp_path, TEXT)
    assert X.tolist() == [[1, 0, 0.5], [0, 2e-3, 0], [0.25, 1, 0], [0, 0, 0]]
    assert y.tolist() == [1, -1, 1, -1]
    for packed in (
        gzip.compress(TEXT),
        bz2.compress(TEXT),
        lzma.compress(TEXT),
    ):  # whatever the file is called
        assert np.array_equal(load(tmp_path, packed)[0], X)
    assert load(tmp_path, TEXT, n_features=7)[0].shape == (4, 7)


@pytest.mark.parametrize(
    "line",
    ["1_0 1:1", "+1 1_0:1", "+1 1:1_5", "nan 1:1", "inf 1:1", "+1 1:nan", "+1 1:-inf", "+1 1:0x10",
     "+1 1:١", "+1 -1:1", "+1 1", "+1 :1", "+1 1:", "+1 1:1:1", "+1 1.5:1", "a 1:1", "+1,2 1:1", "+1 1:1e",
     "1e999 1:1", "+1 1:1e999", "+1 2:1 1:1", "+1 1:1 1:2", "+1 99999999999999999999:1", "\x00"],
)  # fmt: skip
def test_what_it_does_not_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match="file"):
        load(tmp_path, b"+1 1:1\n-1 1:2\n" + line.encode() + b"\n")


def test_the_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=r"line 3 is not in LIBSVM format .*: 'nan 1:1'"):
        load(tmp_path, b"+1 1:1\n-1 1:2\nnan 1:1\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "+1 2:1 1:1",
            "line 3 is not in LIBSVM format, since its indices do not rise: '+1 2:1 1:1'",
        ),
        ("+1 2:1 2:1", "line 3 is not in LIBSVM format, since its indices do not rise"),
        ("1e999 1:1", "line 3 has a label that is too large for a number"),
        ("+1 1:-1e999", "line 3 has a value that is too large for a number"),
        ("+1 2147483648:1", "line 3 has a feature index beyond 2,147,483,647"),
        (
            "1e999 2:1 1:1 3",
            "'label index:value …'): '1e999 2:1 1:1 3'",
        ),  # its form before all else
    ],
)
def test_what_is_wrong_with_a_line_is_told(line: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match=re.escape(sentence)):
        load(tmp_path, b"+1 1:1\n# remark\n" + line.encode() + b"\nnan\n")


@pytest.mark.parametrize("size", range(1, 30))
def test_pieces_of_a_file_may_end_anywhere(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reshuffle.datasets import libsvm_blocks

    X, y = load(tmp_path, TEXT)
    monkeypatch.setattr(libsvm_blocks, "PIECE", size)
    for text in (TEXT, TEXT.rstrip()):
        found, labels = load(tmp_path, text)
        assert np.array_equal(found, X)
        assert np.array_equal(labels, y)
    with pytest.raises(rs.InputError, match=r"line 7 is .*: 'nan'"):
        load(tmp_path, TEXT + b"nan\n1 1:1\n")


@pytest.mark.parametrize("index", [10_000_001, 2**31 - 1])
def test_an_index_has_a_bound_that_can_be_raised(index: int, tmp_path: Path) -> None:
    with pytest.raises(
        rs.InputError, match=rf"index {index}; .* {8 * index:,} bytes.*max_features={index}"
    ):
        load(tmp_path, b"+1 1:1\n-1 %d:2\n" % index)
    X, _ = load_libsvm(tmp_path / "file", max_features=index)
    assert X.shape == (2, index)
    with pytest.raises(rs.InputError, match=r"more than n_features = 5"):
        load_libsvm(tmp_path / "file", n_features=5)
    for wrong in (0, -1, 1.5, None):
        with pytest.raises(rs.InputError, match="max_features must be a positive integer"):
            load_libsvm(tmp_path / "file", max_features=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [2**31, 2**32, 2**40, 2**63, 2**64])
def test_an_index_that_no_array_has_is_refused(index: int, tmp_path: Path) -> None:
    with pytest.raises(rs.InputError, match="has a feature index beyond 2,147,483,647"):
        load(tmp_path, b"+1 1:1\n-1 %d:2\n" % index, max_features=2**70)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_archive_is_named(pack: object, tmp_path: Path) -> None:
    """Every byte of it changed, and every end cut off: the same numbers or an 'InputError'."""
    text = b"".join(b"%d 1:%d 2:0.%d\n" % (2 * (k % 2) - 1, k, k) for k in range(60))
    whole, (X, _) = pack(text), load(tmp_path, text)  # type: ignore[operator]
    for k in range(0, len(whole), 2):
        for damaged in (whole[:k], whole[:k] + bytes([whole[k] ^ 85]) + whole[k + 1 :]):
            try:
                found, _ = load(tmp_path, damaged)
            except rs.InputError:
                continue
            assert np.array_equal(found, X)


def test_a_bomb_is_left_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reshuffle.datasets import svmlight

    monkeypatch.setattr(svmlight, "SMALL", 1 << 16)
    with pytest.raises(rs.InputError, match="unpacks to more than"):
        load(tmp_path, bz2.compress(b"+1 1:1\n" * 200_000))
    for pack in (gzip.compress, lzma.compress):
        with pytest.raises(rs.InputError, match="unpacks to more than"):
            load(tmp_path, pack(b"1" * 10**7))


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(rs.InputError, match="pipe"):
        load_libsvm(tmp_path / "pipe")
