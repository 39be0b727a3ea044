"""Nodes of the workloads: the slices that the SDK publishes, with a placeholder for the node's name."""

from collections.abc import Iterator
from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.layout import layout
from tests.conformance.allocator_a100 import PROFILES

__all__ = ["DRIVER", "PLACEHOLDER", "mig_node", "plain_node"]

DRIVER: Final = "gpu.example.com"
PLACEHOLDER: Final = "node-name-here"
"""Placeholder for the node's name in slices. It is a valid name itself."""

_WHOLE: Final = "7g.40gb"
_SHARED_PROFILES: Final = tuple(profile for profile in PROFILES if "+me" not in profile)
_VGPUS: Final = 4
_VGPU_MEMORY: Final = f"{PROFILES[_WHOLE][0] // _VGPUS}Mi"


def plain_node(gpus: int) -> tuple[ResourceSlice, ...]:
    """Return the slices of a node with whole GPUs."""
    return _slices(Pool(devices=tuple(_gpu(number) for number in range(gpus))))


def mig_node(gpus: int, *, grouped: bool = False) -> tuple[ResourceSlice, ...]:
    """Return the slices of a node with A100s of 40 GB.

    Each GPU is offered as a whole and as every placement of every MIG profile: 19 devices.

    Args:
        gpus: number of GPUs.
        grouped: whether MIG devices have the compatibility group `mig`, and each GPU can also be four vGPUs of
            the group `vgpu`.
    """
    numbers = range(gpus)
    devices = [_gpu(number, CounterConsumption(_set(number), _amounts(_WHOLE, 0))) for number in numbers]
    devices += [device for number in numbers for device in _partitions(number, grouped=grouped)]
    if grouped:
        devices += [_vgpu(number, part) for number in numbers for part in range(_VGPUS)]
    counter_sets = tuple(CounterSet(_set(number), _amounts(_WHOLE, 0)) for number in numbers)
    return _slices(Pool(devices=tuple(devices), counter_sets=counter_sets))


def _slices(pool: Pool) -> tuple[ResourceSlice, ...]:
    return tuple(
        ResourceSlice(
            api_version="resource.k8s.io/v1",
            kind="ResourceSlice",
            metadata=ObjectMeta(name=f"{PLACEHOLDER}-{DRIVER}-{number}"),
            spec=spec,
        )
        for number, spec in enumerate(layout(pool, DRIVER, PLACEHOLDER))
    )


def _gpu(number: int, *consumes: CounterConsumption) -> Device:
    attributes = {"type": "gpu", "model": "A100", "uuid": f"GPU-{PLACEHOLDER}-{number}"}
    memory, multiprocessors = PROFILES[_WHOLE][:2]
    return Device(
        f"gpu-{number}",
        attributes,
        {"memory": f"{memory}Mi", "multiprocessors": multiprocessors},
        consumes,
    )


def _partitions(gpu: int, *, grouped: bool) -> Iterator[Device]:
    for profile in _SHARED_PROFILES:
        memory, multiprocessors, *_, starts = PROFILES[profile]
        for start in starts:
            groups = ["mig"] if grouped else []
            yield Device(
                f"gpu-{gpu}-mig-{profile.replace('.', '-')}-{start}",
                {"type": "mig", "profile": profile, "parentUUID": f"GPU-{PLACEHOLDER}-{gpu}"},
                {"memory": f"{memory}Mi", "multiprocessors": multiprocessors},
                [CounterConsumption(_set(gpu), _amounts(profile, start), groups)],
            )


def _vgpu(gpu: int, part: int) -> Device:
    return Device(
        f"gpu-{gpu}-vgpu-{part}",
        {"type": "vgpu", "parentUUID": f"GPU-{PLACEHOLDER}-{gpu}"},
        {"memory": _VGPU_MEMORY},
        [CounterConsumption(_set(gpu), {"memory": _VGPU_MEMORY}, ["vgpu"])],
    )


def _set(gpu: int) -> str:
    return f"gpu-{gpu}"


def _amounts(profile: str, start: int) -> dict[str, str | int]:
    memory, multiprocessors, copy_engines, decoders, engines, size, _ = PROFILES[profile]
    return {
        "memory": f"{memory}Mi",
        "multiprocessors": multiprocessors,
        "copy-engines": copy_engines,
        "decoders": decoders,
        "jpeg-engines": engines,
        "ofa-engines": engines,
        **{f"memory-slice-{number}": 1 for number in range(start, start + size)},
    }
