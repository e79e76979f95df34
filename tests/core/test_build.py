"""The compiled core: which variant is taken, and what the build asks for where something is missing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import build_core
import pytest

from reshuffle.core import variant

X86 = platform.machine() in ("x86_64", "AMD64")
# What the psABI calls x86-64-v3 beyond v2, as Linux names it; osxsave shows as avx.
V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}


def name_of_core(**environment: str) -> str:
    code = "from reshuffle.core import native; print(native.__name__)"
    env = {key: value for key, value in os.environ.items() if key != "RESHUFFLE_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | environment, capture_output=True, text=True
    )
    return (done.stdout + done.stderr).splitlines()[-1]


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux says what a processor has")
def test_the_probe_agrees_with_the_operating_system() -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    assert variant.runnable("v3") == (set(flags) >= V3)
    assert variant.runnable("base")


def test_a_variant_can_be_named() -> None:
    best = "v3" if variant.built("v3") and variant.runnable("v3") else "base"
    assert name_of_core() == f"reshuffle.core._{best}"
    assert name_of_core(RESHUFFLE_CORE="base") == "reshuffle.core._base"
    assert "there are v3, base, san" in name_of_core(RESHUFFLE_CORE="v4")
    assert variant.built("v3") == X86


@pytest.mark.parametrize(
    ("there", "able", "wanted", "answer"),
    [
        ({"v3", "base"}, True, None, "v3"),
        ({"v3", "base"}, False, None, "base"),
        ({"base"}, True, None, "base"),
        ({"v3", "base", "san"}, True, "san", "san"),
        ({"v3", "base", "san"}, True, "base", "base"),
        ({"v3", "base"}, False, "v3", "this processor cannot run it .*AVX2"),
        ({"v3", "base"}, True, "san", "this variant was not built here"),
        ({"v3"}, False, None, "no compiled core for this processor.*pip install -e ."),
        (set(), True, None, "core is not there.*pip install -e ."),
    ],
)
def test_which_variant_is_chosen(
    there: set[str], able: bool, wanted: str | None, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = there | {"probe"} if there else set()
    monkeypatch.setattr(variant, "built", lambda name: name in present)
    monkeypatch.setattr(variant, "runnable", lambda name: name != "v3" or able)
    if answer in (*variant.VARIANTS, variant.SANITIZED):
        assert variant.chosen(wanted) == answer
    else:
        with pytest.raises(ImportError, match=answer):
            variant.chosen(wanted)


@pytest.mark.skipif(sys.platform == "win32", reason="CMake looks for Visual Studio by itself")
class TestCompiler:
    @pytest.fixture(autouse=True)
    def nothing_in_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)

    def compiler(self, folder: Path, status: int) -> None:
        file = folder / "c++"
        file.write_text(f"#!/bin/sh\nexit {status}\n")
        file.chmod(0o755)

    def test_pip_brings_one_where_there_is_none(self) -> None:
        assert build_core.requirements() == [build_core.ZIG]

    def test_or_none_that_knows_the_language(self, tmp_path: Path) -> None:
        self.compiler(tmp_path, status=1)
        assert build_core.requirements() == [build_core.ZIG]

    def test_not_where_there_is_one(self, tmp_path: Path) -> None:
        self.compiler(tmp_path, status=0)
        assert build_core.requirements() == []

    def test_not_where_one_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "/opt/some/compiler")
        assert build_core.requirements() == []

    def test_zig_is_not_told_of_this_processor(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without -mcpu=baseline zig compiles for the processor at hand."""
        monkeypatch.setenv("CMAKE_ARGS", "-DONE=1")
        monkeypatch.setattr(build_core, "find_spec", lambda _: type("S", (), {"origin": "/z/i.py"}))
        with build_core.compiler(tmp_path / "a folder"):
            script = Path(os.environ["CXX"])
            assert script.read_text() == (
                '#!/bin/sh\nexec /z/zig c++ -mcpu=baseline -fno-sanitize=undefined "$@"\n'
            )
            assert os.access(script, os.X_OK)
            assert f"'-DCMAKE_AR={tmp_path}/a folder/ar'" in os.environ["CMAKE_ARGS"]
            assert os.environ["CMAKE_ARGS"].startswith("-DONE=1 ")
        assert "CXX" not in os.environ
        assert os.environ["CMAKE_ARGS"] == "-DONE=1"

    def test_without_the_wheel_the_message_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(build_core, "find_spec", lambda _: None)
        with (
            pytest.raises(SystemExit, match="install g\\+\\+ or clang"),
            build_core.compiler(tmp_path),
        ):
            pass
