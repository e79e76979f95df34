"""The shape of the package: imports point down, private names stay at home, abilities instead of classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import reshuffle as rs
from reshuffle import digests

ROOT = Path(rs.__file__).parent
LAYERS: list[set[str]] = [  # from the bottom; a module imports its own layer and those before it
    {
        "arrays",
        "cached",
        "errors",
        "randomness",
        "files",
        "interruption",
        "capacity",
        "html_tables",
    },
    {"npz_archive"},
    {"validation"},
    {"core", "code_identity"},
    {"digests", "labels"},
    {"penalties", "losses"},
    {"rows", "smoothness"},
    {"shards"},
    {"samples", "design"},
    {"datafit"},
    {"disk_visits"},
    {"disk_datafit"},
    {"gpu"},
    {"objective"},
    {"own_loops", "twice_differentiable"},
    {"problem", "oracle", "survival"},
    {"device_problem"},
    {"trace", "callbacks", "orders", "steps", "run_cache", "privacy"},
    {"datasets"},
    {"solvers", "torch"},
    {"inference"},
    {"engines"},
    {"federated"},
    {"bands"},
    {"plotting"},
    {"theory", "testing"},
    {"comparison"},
    {"estimators"},
    {"report"},
    {"experiments"},
    {"cli", "flower", "__main__"},
]
MODULES = sorted(
    path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT
)
PRIVATE_BUT_PUBLIC = {"_replace", "_fields", "_asdict", "_getframe"}
"""Names with an underscore that other libraries document: of named tuples, and of ``sys``."""
OURS = {kind.__name__ for kind in (*rs.penalties.PENALTIES, *rs.losses.LOSSES)} | {
    "Separable", "GroupNorms", "Grouped", "Problem", "OracleProblem", "Loss", "Coordinates", "Groups",
}  # fmt: skip
VALIDATION = {"federated.partition"}
"""Modules that check what a user gave them: the one place for a question about a class."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> int:
    for depth in (2, 1):
        part = ".".join(module.split(".")[:depth])
        for number, names in enumerate(LAYERS):
            if part in names:
                return number
    raise AssertionError(f"{module} belongs to no layer")


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that are imported, inside functions too, but for types alone."""
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in hidden and node.module:
            if node.module == "reshuffle":
                yield from (alias.name for alias in node.names if (ROOT / alias.name).exists())
            elif node.module.startswith("reshuffle."):
                yield node.module.removeprefix("reshuffle.")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    mine = layer_of(name_of(path))
    up = [found for found in imports(ast.parse(path.read_text())) if layer_of(found) > mine]
    assert up == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_private_name_crosses_a_module(path: Path) -> None:
    tree = ast.parse(path.read_text())
    taken = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reshuffle")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    own = {"self", "cls", "other"}
    reached = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in PRIVATE_BUT_PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in own)
        and not ast.unparse(node.value).startswith("super()")
    ]
    private = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)} | {
        t.attr for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Attribute)
    }  # fmt: skip
    assert taken == []
    assert [name for name in reached if name.rpartition(".")[2] not in private] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_a_part_can_do_is_not_asked_of_its_class(path: Path) -> None:
    name = name_of(path)
    if name in VALIDATION or name.split(".")[0] in ("penalties", "losses", "experiments", "cli"):
        return
    asked = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("isinstance", "issubclass")
        and {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & OURS
    ]
    assert asked == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_object_writes_into_the_attributes_of_another(path: Path) -> None:
    """``vars(x)`` may be read; ``cached.keep`` is the one place that writes, into an object that was just made."""
    if name_of(path) == "cached":
        return
    wrong: list[ast.AST] = []
    for node in ast.walk(ast.parse(path.read_text())):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
        wrong += [t for t in targets if isinstance(t, ast.Subscript) and _attributes_of(t.value)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            writes = node.func.attr in ("update", "pop", "setdefault", "clear")
            wrong += [node] if writes and _attributes_of(node.func.value) else []
    assert [ast.unparse(node) for node in wrong] == []


def _attributes_of(node: ast.AST) -> bool:
    """Whether this is ``vars(x)`` or ``x.__dict__`` of anything but ``self``."""
    text = ast.unparse(node)
    found = text.endswith(".__dict__") or text.startswith("vars(")
    return found and text not in ("vars(self)", "self.__dict__")


def test_no_class_name_occurs_in_two_modules() -> None:
    """A name that is read in one place should not mean something else in another.

    ``ProxRR`` is one algorithm for problems of this package and, in ``reshuffle.torch``, for networks.
    """
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(name_of(path))
    assert {name: sorted(found) for name, found in homes.items() if len(found) > 1} == {
        "ProxRR": ["solvers.proxrr", "torch.optimizer"]
    }


def test_there_is_one_digest() -> None:
    """sha256 of a content, as ``reshuffle.digests.digest`` computes it: functions of that name are that one."""
    found = [
        name_of(path)
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "digest"
    ]
    assert found == ["digests"]
    assert rs.engines.digest is digests.digest


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_assert_carries_work(path: Path) -> None:
    """It would be gone under ``python -O``."""
    found = [n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
    assert found == []


@pytest.mark.parametrize("name", [n for n in rs.__all__ if not n.startswith("__")])
def test_every_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(rs, name))
