"""Tables from files: what becomes of columns, and what is refused with a sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from reshuffle.datasets import Reading, load_data, stream
from reshuffle.datasets.rows_encoding import encoding_of
from reshuffle.errors import InputError

PEOPLE = "colour,age,city,buys\nred,30,Oslo,yes\nblue,40.5,Oslo,no\nred,-1e1,Bergen,no\n"


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(folder: Path, text: str, **options: Any) -> Any:
    options = {"target": "buys", "standardise": False, **options}
    return load_data(written(folder, text), Reading(**options))


def test_categories_become_features_with_names(tmp_path: Path) -> None:
    X, y, encoding = read(tmp_path, PEOPLE)
    assert encoding.feature_names == [
        "colour=blue",
        "colour=red",
        "age",
        "city=Bergen",
        "city=Oslo",
    ]
    assert y.tolist() == ["yes", "no", "no"]
    assert X.tolist() == [[0, 1, 30, 0, 1], [1, 0, 40.5, 0, 1], [0, 1, -10, 1, 0]]


def test_numbers_are_standardised_unless_raw(tmp_path: Path) -> None:
    X, _, encoding = read(tmp_path, PEOPLE, standardise=True)
    age = np.array([30, 40.5, -10])
    np.testing.assert_allclose(X[:, 2], (age - age.mean()) / age.std(), rtol=1e-15)
    again = encoding_of(encoding.to_json())
    assert again == encoding
    rows = list(stream(tmp_path / "t.csv", again, pytest.fail))
    np.testing.assert_array_equal(np.vstack(rows), X)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_packed_files_are_known_by_their_bytes(tmp_path: Path, pack: Any) -> None:
    path = written(tmp_path, pack(PEOPLE.encode()), "anything")
    X, _, _ = load_data(path, Reading(target="buys", standardise=False))
    assert X.shape == (3, 5)


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(PEOPLE.encode())))

    monkeypatch.setattr(sys, "stdin", Pipe())
    assert load_data("-", Reading(target="buys")).X.shape == (3, 5)


def test_rare_features_make_a_sparse_matrix(tmp_path: Path) -> None:
    lines = [f"u{k % 40},{k % 7},{k % 2}" for k in range(200)]
    X, y, _ = read(tmp_path, "user,v,buys\n" + "\n".join(lines))
    assert X.format == "csr"
    assert y.tolist()[:3] == [0.0, 1.0, 0.0]
    dense = np.asarray(X.todense())
    assert dense[:, :40].sum(axis=1).tolist() == [1.0] * 200
    assert dense[:, 40].tolist() == [k % 7 for k in range(200)]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (PEOPLE + "red,31,Oslo\n", {}, r"line 5 has 3 values where there are 4 columns: 'red,31,Oslo'"),
    (PEOPLE.replace("30", ""), {}, r"line 2: column 'age' has no value\. .*--impute"),
    (PEOPLE.replace("Bergen", "NA"), {}, r"line 4: column 'city' has no value"),
    (PEOPLE.replace("30", "1_0"), {}, r"line 2: column 'age' holds '1_0', where 2 of 3 values"),
    (PEOPLE.replace("30", "inf"), {}, r"line 2: column 'age' holds 'inf'"),
    (PEOPLE.replace("30", "1e999"), {}, r"line 2: column 'age' holds '1e999'"),
    (PEOPLE.replace("30", "030"), {}, r"'030', where 2 of 3 .*--categorical age"),
    (PEOPLE.replace("yes", ""), {}, r"line 2: the target 'buys' has no value"),
    (PEOPLE, {"target": "bys"}, r"--target must name a column .* got 'bys'; its columns are colour"),
    (PEOPLE, {"target": None, "format": "csv"}, r"--target must name the column .* to predict; its"),
    (PEOPLE, {"drop": ("x",)}, r"--drop must name a column .* got 'x'; its columns"),
    (PEOPLE, {"drop": ("colour,age",)}, r"got 'colour,age'; give the option once for each column; its"),
    (PEOPLE.replace("city", "age"), {}, "two columns have the name 'age'"),
    (PEOPLE.replace("colour", ""), {}, r"gives column 1 no name \(an index that pandas wrote\?\)"),
    (PEOPLE.replace(",", ";"), {}, r"if ';' separates the columns, give --separator ';'"),
    ("1,2\n3,4\n", {}, r"must name the columns, got numbers: '1,2'; .*--no-header"),
    ("buys,a\n", {}, "has names of columns, and no rows"),
    ("", {}, "is empty"),
    ("buys\n1\n", {}, "no column beside the target"),
    ('a,buys\n"x,1\n', {}, "line 2: a quotation mark is opened and not closed"),
    ('a,buys\n"x"y,1\n', {}, "line 2: a quotation mark stands inside a value"),
    ("a,buys\nx\0,1\n", {}, "line 2 holds a zero byte"),
    ("a,buys\r1,1\r2,2\r", {}, "a carriage return stands inside a line"),
    ("d,buys\n2020-01-31,1\n2021-02-01,0\n", {}, r"'d' holds dates or times .*--drop d"),
    ("d,buys\n12:30,1\n13:45,0\n", {}, r"'d' holds dates or times"),
    ("d,buys\n" + "".join(f"a text {k},1\n" for k in range(50)), {}, r"free text or names: 50 different"),
    ("d,buys\n" + "".join(f"text {k},1\n" for k in range(3000)), {}, r"free text or names: more than 1,000"),
    ('d,buys\n"5,1",1\n"3,2",0\n7,1\n', {}, r"numbers that are not plainly written \('5,1', .*line 2\)"),
    ("d,buys\n$5,1\n$7.50,0\n", {}, "numbers that are not plainly written"),
    ("d,buys\n5%,1\n7%,0\n", {}, "numbers that are not plainly written"),
    ("d,buys\n,1\n,2\n", {"impute": True}, r"column 'd' holds no value at all; .*--drop d"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "sentence"), REFUSED)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, text: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, text, **options)


def test_long_values_do_not_take_long(tmp_path: Path) -> None:
    """A pattern that goes back and forth would take hours here."""
    long = "1," * 60_000
    for value in (long + "x", long, "1" * 120_000 + "x"):
        assert read(tmp_path, f'v,buys\n"{value}",1\n"{value}",0\n').X.shape == (2, 1)
    for value in ("1" * 120_000, "1e999"):
        with pytest.raises(InputError, match="not plainly written") as refused:
            read(tmp_path, f"v,buys\n{value},1\n{value},0\n")
        assert len(str(refused.value)) < 1000


def test_codes_with_leading_zeros_are_categories(tmp_path: Path) -> None:
    _, _, encoding = read(tmp_path, "code,buys\n007,1\n012,0\n007,1\n")
    assert encoding.feature_names == ["code=007", "code=012"]


def test_text_that_is_not_utf8_is_refused_by_line(tmp_path: Path) -> None:
    path = written(tmp_path, b"a,buys\n1,2\n" + "æ,3\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 3 is not UTF-8 text: '�,3'"):
        load_data(path, Reading(target="buys"))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_damaged_packed_files_are_refused(tmp_path: Path, pack: Any) -> None:
    whole = pack(("a,buys\n" + "1,2\n" * 3000).encode())
    for content in (whole[:-9], whole[:20] + b"\xff" * 9 + whole[29:]):
        with pytest.raises(InputError, match=r"cannot read|not UTF-8|values where"):
            load_data(written(tmp_path, content), Reading(target="buys"))


def test_a_byte_order_mark_quotes_and_blank_lines(tmp_path: Path) -> None:
    text = '\ufeffbuys,"a, b"\r\n1,"x ""y"""\r\n\r\n0, two\nlines\n'.replace(
        "two\nlines", '"two\nlines"'
    )
    X, y, encoding = read(tmp_path, text.replace(', "two', ',"two'))
    assert y.tolist() == [1.0, 0.0]
    assert encoding.feature_names == ["a, b=two\nlines", 'a, b=x "y"']
    assert X.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_lines_are_counted_through_quoted_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 4 has 1 values"):
        read(tmp_path, 'a,buys\n"two\nlines",1\nx\n')


def test_missing_values_are_filled_now_and_later(tmp_path: Path) -> None:
    text = "c,v,buys\nred,1,1\nred,,0\n?,5,1\nblue,9,0\n"
    X, _, encoding = read(tmp_path, text, impute=True)
    assert X.tolist() == [[0, 1, 1], [0, 1, 5], [0, 1, 5], [1, 0, 9]]
    new = written(tmp_path, "v,c\n,NA\n", "new.csv")
    assert next(iter(stream(new, encoding_of(encoding.to_json()), pytest.fail))).tolist() == [
        [0, 1, 5]
    ]


def test_every_value_of_a_named_column_is_a_category(tmp_path: Path) -> None:
    text = "c,n,buys\nNA,1,1\nNO,2,0\n?,1,1\n"
    X, _, encoding = read(tmp_path, text, categorical=("c", "n"))
    assert encoding.feature_names == ["c=?", "c=NA", "c=NO", "n=1", "n=2"]
    rows = list(stream(tmp_path / "t.csv", encoding_of(encoding.to_json()), pytest.fail))
    np.testing.assert_array_equal(np.vstack(rows), X)


def test_numbers_at_the_ends_of_their_range(tmp_path: Path) -> None:
    text = "v,w,buys\n1.7e308,5e-324,1\n1.7e308,,0\n-1.7e308,1e-320,1\n"
    X, _, _ = read(tmp_path, text, impute=True)
    assert X[:, 0].tolist() == [1.7e308, 1.7e308, -1.7e308]
    X, _, encoding = read(tmp_path, text, impute=True, standardise=True)
    assert np.isfinite(X).all()
    assert X[:, 0].std() == pytest.approx(1.0)
    assert encoding_of(encoding.to_json()) == encoding


def test_new_rows_by_name_in_any_order_with_unknown_categories(tmp_path: Path) -> None:
    _, _, encoding = read(tmp_path, PEOPLE)
    notes: list[str] = []
    new = written(tmp_path, "more,city,age,colour\n1,Oslo,2,mauve\n2,Bergen,3,red\n", "new.csv")
    rows = np.vstack(list(stream(new, encoding, notes.append)))
    assert rows.tolist() == [[0, 0, 2, 0, 1], [0, 1, 3, 1, 0]]
    assert len(notes) == 1
    assert "'colour' holds 'mauve'" in notes[0]
    assert "line 2" in notes[0]
    for text, sentence in (
        ("city,age\nOslo,2\n", "lacks 'colour', which the model reads"),
        ("city,age\n", "lacks 'colour', which the model reads"),
        ("city,age,colour\nOslo,old,red\n", "line 2: column 'age' must hold a number, got 'old'"),
        ("city,age,colour\nOslo,,red\n", "line 2: column 'age' has no value"),
    ):
        with pytest.raises(InputError, match=sentence):
            list(stream(written(tmp_path, text, "new.csv"), encoding, notes.append))


def test_many_different_numbers_and_late_surprises(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(40_000)
    lines = [f"{v!r},{k % 2}" for k, v in enumerate(values.tolist())]
    X, _, _ = read(tmp_path, "v,buys\n" + "\n".join(lines))
    np.testing.assert_array_equal(X[:, 0], values)  # to the bit
    lines[39_000] = "oops,1"
    with pytest.raises(
        InputError, match=r"line 39002: column 'v' holds 'oops', where 39,999 of 40,000"
    ):
        read(tmp_path, "v,buys\n" + "\n".join(lines))


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install "reshuffle\[tables\]"'):
        load_data(written(tmp_path, b"PAR1....PAR1"), Reading(target="y"))


def test_parquet_reads_as_the_same_table_does_in_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "colour": pa.array(["red", "blue", None, "red"]).dictionary_encode(),
            "n": pa.array([1, 2, None, 4], pa.int32()),
            "flag": [True, False, True, None],
            "buys": ["a", "b", "a", "b"],
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    X, y, encoding = load_data(path, Reading(target="buys", impute=True, standardise=False))
    text = "colour,n,flag,buys\nred,1,True,a\nblue,2,False,b\n,,True,a\nred,4,,b\n"
    same = read(tmp_path, text, impute=True)
    assert encoding.feature_names == same.encoding.feature_names
    np.testing.assert_array_equal(X, same.X)
    assert y.tolist() == same.y.tolist()
    with pytest.raises(InputError, match="row 3: column 'colour' has no value"):
        load_data(path, Reading(target="buys"))
    index = pa.table({"v": [1.0, 2.0], "y": ["a", "b"], "__index_level_0__": [0, 1]})
    pq.write_table(index, path)  # as pandas writes row numbers
    assert load_data(path, Reading(target="y")).encoding.feature_names == ["v"]
    pq.write_table(pa.table({"when": pa.array([1, 2], pa.timestamp("s")), "y": [1, 2]}), path)
    with pytest.raises(InputError, match="'when' holds dates or times"):
        load_data(path, Reading(target="y"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="not a Parquet file, or is damaged"):
        load_data(path, Reading(target="y"))


def test_a_sparse_matrix_with_targets_inside_or_beside(tmp_path: Path) -> None:
    X: Any = sp.random(20, 7, 0.3, "csr", random_state=0)
    y = np.arange(20) % 3
    sp.save_npz(tmp_path / "x.npz", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "y.txt").write_text("".join(f"c{k}\n" for k in y))
    for name, wanted in (("y.npy", y.tolist()), ("y.txt", [f"c{k}" for k in y])):
        found = load_data(tmp_path / "x.npz", Reading(target=str(tmp_path / name)))
        assert abs(found.X - X).max() == 0
        assert found.y.tolist() == wanted
    inside: dict[str, Any] = {
        "data": X.data,
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": X.shape,
    }
    np.savez(tmp_path / "both.npz", format=b"csr", y=y, **inside)
    assert load_data(tmp_path / "both.npz").y.tolist() == y.tolist()
    with pytest.raises(InputError, match="--target must name an array in"):
        load_data(tmp_path / "x.npz")
    inside["indices"] = inside["indices"] + 9
    np.savez(tmp_path / "bad.npz", format=b"csr", y=y, **inside)
    with pytest.raises(InputError, match="not a sparse matrix as scipy"):
        load_data(tmp_path / "bad.npz")
    np.savez(tmp_path / "pickled.npz", data=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="an array holds objects of Python"):
        load_data(tmp_path / "pickled.npz")


LIBSVM = [
    ("+1 1:2\nx 1:1\n", r"line 2 is not in LIBSVM format .*: 'x 1:1'"),
    ("+1 1:2\n1 3:1 2:1\n", "line 2 is not in LIBSVM format"),
    ("+1 1:2\n1 1:1_0\n", "line 2 is not in LIBSVM format"),
    ("nan 1:2\n1 1:1\n", r"line 1 is not in LIBSVM format .*: 'nan 1:2'"),
    ("1 1:inf\n", "line 1 is not in LIBSVM format"),
    ("1 1:1\n1 1:1e999\n", "line 2 has a value that is too large"),
    ("1 4294967297:1\n", "line 1"),
    ("1 2147483646:1\n", "line 1 has a feature index beyond 10,000,000"),
    ("<html>\n", "line 1 is not in LIBSVM format"),
    ("\n", "is empty"),
    ("1\n2\n", "labels and no features"),
]


@pytest.mark.parametrize(("text", "sentence"), LIBSVM)
def test_wrong_lines_of_libsvm_are_shown(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_data(written(tmp_path, text, "data.svm"))


def test_libsvm_keeps_labels_and_first_index(tmp_path: Path) -> None:
    X, y, encoding = load_data(written(tmp_path, "2 1:5 3:1 # six\n7 2:1\n", "d"))
    assert (y.tolist(), X.toarray().tolist()) == ([2.0, 7.0], [[5, 0, 1], [0, 1, 0]])
    assert encoding.feature_names == ["feature 1", "feature 2", "feature 3"]
    notes: list[str] = []
    new = list(stream(written(tmp_path, "0 2:1 9:1\n", "new"), encoding, notes.append))
    assert new[0].toarray().tolist() == [[0, 1, 0]]
    assert "feature index 9; the model knows those up to 3" in notes[0]
    with pytest.raises(InputError, match="has the feature index 0"):
        list(stream(written(tmp_path, "0 0:1\n", "new"), encoding, notes.append))
    with pytest.raises(InputError, match="fitted on rows without names"):
        list(stream(written(tmp_path, "a\n1\n", "new.csv"), encoding, notes.append))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        load_data(tmp_path / "no.csv", Reading(target="y"))
    with pytest.raises(InputError, match="is a folder"):
        load_data(tmp_path, Reading(target="y"))
    with pytest.raises(InputError, match="no data file 'nonsense'"):
        load_data("nonsense")


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (["1 139", "12 450", "1 139 000"], "not plainly written"),
        (["1 Jan 2024", "2 February 2024", "13-Mar-24"], "dates or times"),
        (["Jan 3, 2024", "March 14, 2023", "May 1, 2022"], "dates or times"),
    ],
)
def test_spaces_between_thousands_and_names_of_months(
    tmp_path: Path, values: list[str], word: str
) -> None:
    lines = [f'"{values[k % 3]}",{k % 2}' for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]))
    with pytest.raises(InputError, match=word):
        load_data(tmp_path / "t.csv", Reading(target="y"))


def test_a_parquet_file_with_a_text_that_is_none(tmp_path: Path) -> None:
    """A text that is no UTF-8 is found only when somebody looks at it."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"word": ["red", "blue", "red"], "y": [1.0, 2.0, 3.0]})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"blue", b"b\xffue"))
    with pytest.raises(InputError, match="is not a Parquet file, or is damaged"):
        load_data(path, Reading(target="y"))
