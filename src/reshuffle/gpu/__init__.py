"""A graphics card: rounds over very many clients, and passes over one large problem, by kernels in CUDA C++."""

from reshuffle.gpu.clients import DeviceClients, LocalPasses
from reshuffle.gpu.cuda import CudaDevice
from reshuffle.gpu.device import Device, Kernels, Launch
from reshuffle.gpu.exact_rounds import DeviceExactRounds, Residual, RoundImage
from reshuffle.gpu.output_placing import outputs_on_device
from reshuffle.gpu.output_samples import DeviceOutputs
from reshuffle.gpu.placing import samples_on_device
from reshuffle.gpu.points import Points, combined
from reshuffle.gpu.rounds import DeviceRounds
from reshuffle.gpu.samples import DeviceSamples
from reshuffle.gpu.shard_placing import samples_of_shards
from reshuffle.gpu.source import kernel_source
from reshuffle.gpu.streamed import StreamedSamples

__all__ = [
    "CudaDevice",
    "Device",
    "DeviceClients",
    "DeviceExactRounds",
    "DeviceOutputs",
    "DeviceRounds",
    "DeviceSamples",
    "Kernels",
    "Launch",
    "LocalPasses",
    "Points",
    "Residual",
    "RoundImage",
    "StreamedSamples",
    "combined",
    "kernel_source",
    "outputs_on_device",
    "samples_of_shards",
    "samples_on_device",
]
