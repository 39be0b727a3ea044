"""Nodes with GPUs: the slices that the SDK publishes, with a placeholder for the node's name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.layout import layout
from tests.conformance.allocator.a100 import PROFILES

__all__ = [
    "CARD_MEBIBYTES",
    "DRIVER",
    "PLACEHOLDER",
    "Template",
    "card_name",
    "mig_node",
    "partition_name",
    "plain_node",
    "slices_of",
]

DRIVER: Final = "gpu.example.com"
PLACEHOLDER: Final = "node-name-here"
"""Placeholder for the node's name in slices. It is a valid name itself."""

_WHOLE: Final = "7g.40gb"
CARD_MEBIBYTES: Final = PROFILES[_WHOLE][0]
"""Memory of a card, in MiB."""

_SHARED_PROFILES: Final = tuple(profile for profile in PROFILES if "+me" not in profile)
_VGPUS: Final = 4
_VGPU_MEMORY: Final = f"{CARD_MEBIBYTES // _VGPUS}Mi"


class Template:
    """The JSON texts of slices with placeholders.

    Args:
        slices: the slices.
    """

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._texts = tuple(map(encode, slices))

    def fill(self, node: str, more: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Yield the texts for a node.

        Args:
            node: the node's name.
            more: other texts to replace, with their replacements.
        """
        replacements = {PLACEHOLDER: node, **(more or {})}
        for text in self._texts:
            for old, new in replacements.items():
                text = text.replace(old.encode(), new.encode())  # noqa: PLW2901
            yield text


def card_name(node: str, card: int) -> str:
    """Return the value of the attribute `parent` of all devices of a card."""
    return f"{node}-gpu-{card}"


def partition_name(card: int, profile: str, start: int) -> str:
    """Return the name of a MIG device."""
    return f"gpu-{card}-mig-{profile.replace('.', '-')}-{start}"


def plain_node(gpus: int) -> tuple[ResourceSlice, ...]:
    """Return the slices of a node with whole GPUs."""
    return slices_of(Pool(devices=tuple(_gpu(number) for number in range(gpus))))


def mig_node(gpus: int, *, grouped: bool = False, firmware: str = "") -> tuple[ResourceSlice, ...]:
    """Return the slices of a node with A100s of 40 GB.

    Each GPU is offered as a whole and as every placement of every MIG profile: 19 devices. Each device has an
    attribute `parent`, which contains the node's name.

    Args:
        gpus: number of GPUs.
        grouped: whether MIG devices have the compatibility group `mig`, and each GPU can also be four vGPUs of
            the group `vgpu`.
        firmware: an attribute of every device; empty: the devices do not have it.
    """
    numbers = range(gpus)
    more = {"firmware": firmware} if firmware else {}
    devices = [_gpu(number, CounterConsumption(_set(number), _amounts(_WHOLE, 0)), more) for number in numbers]
    devices += [device for number in numbers for device in _partitions(number, more, grouped=grouped)]
    if grouped:
        devices += [_vgpu(number, part) for number in numbers for part in range(_VGPUS)]
    counter_sets = tuple(CounterSet(_set(number), _amounts(_WHOLE, 0)) for number in numbers)
    return slices_of(Pool(devices=tuple(devices), counter_sets=counter_sets))


def slices_of(pool: Pool, driver: str = DRIVER, node: str | None = PLACEHOLDER) -> tuple[ResourceSlice, ...]:
    """Return the slices of a pool, as the SDK publishes them.

    Args:
        pool: the pool.
        driver: the driver's name.
        node: the node of a node-local pool; None for a pool of the cluster.
    """
    return tuple(
        ResourceSlice(
            api_version="resource.k8s.io/v1",
            kind="ResourceSlice",
            metadata=ObjectMeta(name=f"{pool.name or node}-{driver}-{number}"),
            spec=spec,
        )
        for number, spec in enumerate(layout(pool, driver, node))
    )


def _gpu(
    number: int, consumes: CounterConsumption | None = None, more: Mapping[str, str] | None = None
) -> Device:
    attributes = {"type": "gpu", "model": "A100", "uuid": f"GPU-{PLACEHOLDER}-{number}", **(more or {})}
    return Device(
        f"gpu-{number}",
        {**attributes, "parent": card_name(PLACEHOLDER, number)},
        {"memory": f"{CARD_MEBIBYTES}Mi", "multiprocessors": PROFILES[_WHOLE][1]},
        (consumes,) if consumes else (),
    )


def _partitions(gpu: int, more: Mapping[str, str], *, grouped: bool) -> Iterator[Device]:
    parent = card_name(PLACEHOLDER, gpu)
    groups = ["mig"] if grouped else []
    for profile in _SHARED_PROFILES:
        memory, multiprocessors, *_, starts = PROFILES[profile]
        for start in starts:
            yield Device(
                partition_name(gpu, profile, start),
                {"type": "mig", "profile": profile, "parent": parent, **more},
                {"memory": f"{memory}Mi", "multiprocessors": multiprocessors},
                [CounterConsumption(_set(gpu), _amounts(profile, start), groups)],
            )


def _vgpu(gpu: int, part: int) -> Device:
    return Device(
        f"gpu-{gpu}-vgpu-{part}",
        {"type": "vgpu", "parent": card_name(PLACEHOLDER, gpu)},
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
