"""Rounds over very many clients on a graphics card: kernels in CUDA C++, and the arrays that they take."""

from reshuffle.gpu.clients import DeviceClients, LocalPasses
from reshuffle.gpu.cuda import CudaDevice
from reshuffle.gpu.device import Device, Kernels, Launch
from reshuffle.gpu.rounds import DeviceRounds
from reshuffle.gpu.source import kernel_source

__all__ = [
    "CudaDevice",
    "Device",
    "DeviceClients",
    "DeviceRounds",
    "Kernels",
    "Launch",
    "LocalPasses",
    "kernel_source",
]
