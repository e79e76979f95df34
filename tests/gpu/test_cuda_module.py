"""What a module of CuPy is told, without CuPy."""

from __future__ import annotations

from typing import Any, ClassVar

from reshuffle.gpu import Launch
from reshuffle.gpu.cuda import STATIC, CudaModule


class Kernel:
    """Wrappers of one function of CUDA share its limit."""

    limits: ClassVar[dict[str, int]] = {}

    def __init__(self, name: str) -> None:
        self.__dict__["name"] = name

    def __setattr__(self, attribute: str, value: int) -> None:
        assert attribute == "max_dynamic_shared_size_bytes"
        self.limits[self.__dict__["name"]] = value

    def __call__(self, blocks: Any, threads: Any, given: Any, shared_mem: int) -> None:
        assert shared_mem <= self.limits.get(self.__dict__["name"], STATIC)


class Module:
    def get_function(self, name: str) -> Kernel:
        return Kernel(name)


def test_the_memory_of_one_problem_is_no_limit_for_another() -> None:
    """Problems with the same settings, but different numbers of columns, share a module."""
    shared = Module()
    one, other = CudaModule(shared, 200_000), CudaModule(shared, 200_000)
    for module, memory in ((one, 150_000), (other, 60_000), (one, 150_000), (one, 1000)):
        module.run("whole_pass", Launch(1, 128, memory), None)
