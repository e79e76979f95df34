"""Inputs that no one would write, against readers that others wrote: no crash, no hang, nothing misread in silence.

    python -m tests.long.reader_fuzz --inputs 100000

Each input is either refused with an ``InputError``, or every value is what Python's ``csv`` and ``float`` (for
tables), pyarrow (where it reads the same text, and for Parquet) or a parser of three lines (for LIBSVM) says it is.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from reshuffle.datasets.chunks import MISSING
from reshuffle.datasets.csv_file import read_csv
from reshuffle.datasets.encoding import TableEncoding
from reshuffle.datasets.libsvm_blocks import libsvm_blocks
from reshuffle.datasets.parquet_file import read_parquet
from reshuffle.datasets.rows_encoding import encoding_of
from reshuffle.datasets.table import Reading, read_table
from reshuffle.errors import InputError

PIECE = 1000  # inputs of a kind between two lines of the long run
SEEN: Counter[str] = Counter()
"""How many inputs were read, refused, and compared with pyarrow."""

plain = st.one_of(
    st.integers(-10, 10).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr)
)
odd = st.sampled_from(["1e5", "-.5", "+3", "0.10", "7.", "1E-05", "5e-324", "0x1", "1_0", "007", "1e999", "inf", "nan", "١", "１", "1 2", "1,5", "--1", "1e", "e5", "."])  # fmt: skip
numbers = st.one_of(plain, plain, plain, odd)
words = st.one_of(
    st.sampled_from(["red", "blue", "Red", " red ", "", "NA", "?", "null", "a=b", "2020-01-01", "é", "日本", "x\ty", "\u2028", "$", "_"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
)  # fmt: skip


@st.composite
def tables(draw: Any) -> bytes:
    """A table written as CSV, now and then damaged by a few bytes."""
    width, height = draw(st.integers(2, 4)), draw(st.integers(0, 6))
    kinds = [draw(st.sampled_from([plain, numbers, words])) for _ in range(width)]
    names = draw(
        st.sampled_from([["a", "b", "y", "d"], ["y", " a ", "b b", "c"], ["y", "a", "a", ""]])
    )
    rows = [[draw(kind) for kind in kinds] for _ in range(height)]
    text = io.StringIO()
    ends = draw(st.sampled_from(["\n", "\r\n"]))
    csv.writer(text, lineterminator=ends).writerows([names[:width], *rows])
    content = text.getvalue().encode()
    return damaged(
        draw, content, [b'"', b",", b"\n", b"\r", b"\xff", b"\0", b" ", b"1", b"\xef\xbb\xbf"]
    )


def damaged(draw: Any, content: bytes, pieces: list[bytes]) -> bytes:
    """The same, with no, one or two of the pieces put in somewhere."""
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(st.sampled_from(pieces)) + content[at:]
    return content


@st.composite
def svmlight(draw: Any) -> bytes:
    """Lines in LIBSVM format, now and then damaged."""
    lines = []
    for _ in range(draw(st.integers(0, 5))):
        indices = sorted(draw(st.sets(st.integers(0, 30), max_size=4)))
        pairs = [f"{j}:{draw(numbers)}" for j in indices]
        lines.append(" ".join([draw(numbers), *pairs]) + draw(st.sampled_from(["", " # x", "\r"])))
    return damaged(
        draw,
        "\n".join(lines).encode(),
        [b":", b" ", b"\n", b"#", b"_", b"9", b"\t", b"qid:1 ", b"\xff", b"\0"],
    )


beginnings = st.sampled_from([b"", b"y,a\n", b"a,y\n1,1\n"])
raw_csv = st.tuples(beginnings, st.lists(st.sampled_from([b"y", b"a", b",", b",", b"\n", b"\n", b'"', b"1", b"2.5", b"\r", b" ", b";", b"e", b"-", b"\xc3\xa9", b"\xff"]), max_size=40).map(b"".join)).map(b"".join)  # fmt: skip
raw_libsvm = st.lists(st.sampled_from([b"1", b"-1", b" ", b" ", b":", b"1:", b" 2:", b" 3:4", b"0:1", b"\n", b"\n", b"#", b"e", b".", b"_", b"nan", b"qid:1", b",", b"99999999999", b"\t", b"+"]), max_size=30).map(b"".join)  # fmt: skip


def expected(content: bytes) -> list[list[str]] | None:
    """What Python's own reader makes of a CSV text; None where it refuses it."""
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [[value.strip() for value in row] for row in rows if row]
    except (UnicodeDecodeError, csv.Error):
        return None


def arrow(content: bytes, rows: list[list[str]]) -> list[list[str]] | None:
    """What pyarrow makes of it, where it reads a table of that shape at all."""
    try:
        import pyarrow
        from pyarrow import csv as reader
    except ImportError:
        return None
    names = [f"c{k}" for k in range(len(rows[0]))]
    kinds = dict.fromkeys(names, pyarrow.string())
    try:
        table = reader.read_csv(
            pyarrow.BufferReader(content),
            read_options=reader.ReadOptions(column_names=names, use_threads=False),
            parse_options=reader.ParseOptions(newlines_in_values=True),
            convert_options=reader.ConvertOptions(column_types=kinds, strings_can_be_null=False),
        )
    except pyarrow.ArrowException:
        return None
    columns = [[value.strip() for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def check_csv(content: bytes) -> None:
    """Names and values are those of Python's reader; so are the features that they become."""
    try:
        chunks = list(read_csv(io.BytesIO(content), "fuzz", rows=3))
    except InputError:
        SEEN["csv refused"] += 1
        return
    SEEN["csv read"] += 1
    wanted = expected(content)
    assert wanted is not None, "Python's reader refuses it"
    names = [name or f"column {k}" for k, name in enumerate(wanted[0], 1)]
    assert list(chunks[0].columns) == names
    found = [list(row) for chunk in chunks for row in zip(*chunk.columns.values(), strict=True)]
    assert found == wanted[1:]
    other = arrow(content, wanted)
    if other is not None and len(other) == len(wanted):
        SEEN["csv compared with pyarrow"] += 1
        assert other[1:] == wanted[1:]
    check_table(content, names, wanted[1:])


def check_table(content: bytes, names: list[str], rows: list[list[str]]) -> None:
    """Features decode to the values of the text."""
    options = Reading(target="y", standardise=False, impute=len(content) % 2 == 0)
    try:
        X, y, encoding = read_table(read_csv(io.BytesIO(content), "fuzz"), options, "fuzz")
    except InputError:
        SEEN["table refused"] += 1
        return
    SEEN["table read"] += 1
    assert isinstance(encoding, TableEncoding)
    X = X.toarray() if hasattr(X, "toarray") else X
    target = [row[names.index("y")] for row in rows]
    assert [float(t) for t in target] == y.tolist() if y.dtype.kind == "f" else target == y.tolist()
    start = 0
    for part in encoding.columns:
        texts = [row[names.index(part.name)] for row in rows]
        values = X[:, start : start + len(part.features)]
        start += len(part.features)
        levels = getattr(part, "levels", None)
        for text, value in zip(texts, values, strict=True):
            shown = part.fill if text in MISSING else text
            assert shown is not None
            meant = [level == shown for level in levels] if levels is not None else [float(shown)]
            assert value.tolist() == meant
    again = encoding_of(encoding.to_json())
    assert isinstance(again, TableEncoding)
    same = [again.rows(c, unheard) for c in read_csv(io.BytesIO(content), "fuzz", rows=2) if len(c)]
    dense = [x if isinstance(x, np.ndarray) else x.toarray() for x in same]
    np.testing.assert_array_equal(np.vstack(dense), X)


def check_libsvm(content: bytes) -> None:
    """Rows and labels are what a split and a ``float`` say."""
    try:
        with patch("reshuffle.datasets.libsvm_blocks.PIECE", 16):  # a line or two at a time
            blocks = list(libsvm_blocks(io.BytesIO(content), "fuzz"))
    except InputError:
        SEEN["libsvm refused"] += 1
        return
    SEEN["libsvm read"] += 1
    wanted = []
    for line in content.split(b"\n"):
        words = line.split(b"#", 1)[0].split()
        if words:
            pairs = [word.split(b":") for word in words[1:] if not word.startswith(b"qid:")]
            wanted.append((float(words[0]), {int(j): float(v) for j, v in pairs}))
    found = []
    for rows, *_ in blocks:
        stored = list(zip(np.asarray(rows.indices).tolist(), rows.values.tolist(), strict=True))
        ends = np.asarray(rows.indptr).tolist()
        found += [
            (label, dict(stored[ends[i] : ends[i + 1]]))
            for i, label in enumerate(rows.targets.tolist())
        ]
    assert found == wanted
    assert b"_" not in b"".join(line.split(b"#", 1)[0] for line in content.split(b"\n"))


def unheard(note: str) -> None:
    """The same rows hold nothing new."""
    raise AssertionError(note)


@cache
def stored(kind: int) -> bytes:
    """Small tables as pyarrow writes them: packed or not, with dictionaries or without, in one group of rows or several."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(
        {
            "a": [1.5, None, -2.0, 1e300, 0.0, 7.0],
            "b": ["red", "blue", None, "red", "", "é"],
            "n": pyarrow.array([1, 2, 3, 2**62, -5, 0], pyarrow.int64()),
            "y": [True, False, True, None, True, False],
        }
    )
    file = io.BytesIO()
    parquet.write_table(
        table, file, compression=("none", "snappy", "gzip", "zstd")[kind % 4],
        use_dictionary=kind % 2 == 0, row_group_size=(2, 6)[kind // 4 % 2],
    )  # fmt: skip
    return file.getvalue()


@st.composite
def parquets(draw: Any) -> bytes:
    """Such a table with a few bytes changed, cut or moved; mostly in its last part, which says what the others mean."""
    content = bytearray(stored(draw(st.integers(0, 7))))
    for _ in range(draw(st.integers(0, 4))):
        if not content:
            break
        place = draw(st.integers(0, len(content) - 1))
        place = max(place, len(content) - 1 - place) if draw(st.booleans()) else place
        what = draw(st.sampled_from(["change", "change", "change", "cut", "twice"]))
        if what == "change":
            content[place] = draw(st.integers(0, 255))
        elif what == "cut":
            del content[place : place + draw(st.integers(1, 20))]
        else:
            content[place:place] = content[place : place + draw(st.integers(1, 20))]
    return bytes(content)


def check_parquet(content: bytes) -> None:
    """What is read is what pyarrow reads by its own function for whole tables."""
    from pyarrow import parquet

    try:
        chunks = list(read_parquet(io.BytesIO(content), "fuzz", rows=4))
    except InputError:
        SEEN["parquet refused"] += 1
        return
    SEEN["parquet read"] += 1
    whole = parquet.read_table(io.BytesIO(content), use_threads=False)
    for name in chunks[0].columns:
        theirs = whole.column(name).to_pylist()
        ours: list[Any] = [v for chunk in chunks for v in list(chunk.columns[name])]
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            if isinstance(mine, (float, np.floating)):
                assert np.isnan(mine) if other is None or other != other else mine == float(other)
            else:
                assert mine == (None if other is None else str(other).strip())


CHECKS: dict[str, tuple[Any, Callable[[bytes], None]]] = {
    "tables": (tables(), check_csv),
    "bytes as CSV": (raw_csv, check_csv),
    "LIBSVM": (svmlight(), check_libsvm),
    "bytes as LIBSVM": (raw_libsvm, check_libsvm),
    "Parquet": (parquets(), check_parquet),
}


def attack(name: str, inputs: int, number: int | None = None) -> None:
    """So many inputs of one kind: the same ones each time, or others for each ``number``."""
    strategy, check = CHECKS[name]
    options: Any = settings(
        max_examples=inputs, deadline=None, database=None, derandomize=number is None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    drawn: Any = given(strategy)
    attacked = drawn(check)
    options(attacked if number is None else seed(number)(attacked))()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--only", choices=list(CHECKS), action="append")
    given = parser.parse_args()
    names = given.only or list(CHECKS)
    pieces = max(1, given.inputs // (PIECE * len(names)))
    clock = time.process_time()
    for number in range(pieces):
        for name in names:
            attack(name, PIECE, number)
        done = PIECE * len(names) * (number + 1)
        print(f"{done:,} inputs, {time.process_time() - clock:.0f} s: {dict(SEEN)}", flush=True)


if __name__ == "__main__":
    main()
