"""The pool of a node: devices with attributes, capacities, counters, compatibility groups and taints."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

import dradriver as dra
from dradriver_gpu_mig.card import Engines, Gpu, GpuInstance, System
from dradriver_gpu_mig.offer.offers import GpuDeviceKind, GpuOffer, VfioFacts, make_gpu_name
from dradriver_gpu_mig.offer.shares import offer_shares
from dradriver_gpu_mig.snapshot import GpuCard

__all__ = ["DRIVER", "PoolFacts", "build_pool", "select_non_overlapping"]

DRIVER: Final = "gpu.nvidia.com"
"""Name of this driver.

NVIDIA's own driver has the same name, so that classes, claims and selectors for NVIDIA's driver also work here.
"""

_FOREIGN: Final = dra.Taint(key=f"{DRIVER}/in-use", effect="NoSchedule", value="foreign")
_HELD: Final = dra.Taint(key=f"{DRIVER}/in-use", effect="NoSchedule", value="later-version")
_GROUPS: Final = {
    GpuDeviceKind.GPU: "whole",
    GpuDeviceKind.VFIO: "vfio",
    GpuDeviceKind.STATIC_MIG: "mig",
    GpuDeviceKind.DYNAMIC_MIG: "mig",
}
_TYPES: Final = {**_GROUPS, GpuDeviceKind.GPU: "gpu"}

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Facts about devices that the cards do not report.

    Attributes:
        taints: taints by device name.
        foreign: GPU instances that this driver did not create, by UUID of the GPU.
        held: names of devices whose record a later version of the driver wrote.
    """

    taints: Mapping[str, Sequence[dra.Taint]] = field(default_factory=dict)
    foreign: Mapping[str, Collection[GpuInstance]] = field(default_factory=dict)
    held: Collection[str] = ()


def build_pool(
    offered: Mapping[str, Sequence[GpuOffer]], system: System, facts: PoolFacts, shares: str | int = "disabled"
) -> dra.Pool:
    """Return the pool of a node.

    Args:
        offered: the devices of each GPU, by its UUID.
        system: the installed driver.
        facts: taints, and instances that this driver did not create.
        shares: whether several claims may have a device, as in the setting `consumableShares`.

    Source:
        KEP-4815, counters of partitionable devices; KEP-5963, compatibility groups; KEP-5075, consumable
        capacity.
    """
    devices: list[dra.Device] = []
    counter_sets: list[dra.CounterSet] = []
    for uuid, offers in offered.items():
        has_partitions = any(offer.kind in {GpuDeviceKind.DYNAMIC_MIG, GpuDeviceKind.VFIO} for offer in offers)
        total = _total_counters(offers[0].card) if has_partitions else {}
        if has_partitions:
            counter_sets.append(dra.CounterSet(_counter_set_name(offers[0].card), _quantities(total)))
        foreign = facts.foreign.get(uuid, ())
        free = _free_counters(offers, total, foreign)
        kinds = {offer.kind for offer in offers}
        for offer in offers:
            consumed = _consumed_counters(offer, total)
            is_blocked = _exceeds_free(consumed, free) or (offer.kind.is_whole and len(foreign) > 0)
            taints = [*facts.taints.get(offer.name, ()), *_list_use_taints(offer, facts, is_blocked=is_blocked)]
            device = _device(offer, system, consumed, taints, has_groups=len(kinds) > 1)
            devices.append(device if offer.vfio is not None else offer_shares(device, shares))
    return dra.Pool(devices=tuple(devices), counter_sets=tuple(counter_sets))


def _list_use_taints(offer: GpuOffer, facts: PoolFacts, *, is_blocked: bool) -> list[dra.Taint]:
    """Return the taint of a device in use. A device has at most one taint with a key and an effect."""
    if offer.name in facts.held:
        return [_HELD]
    return [_FOREIGN] if is_blocked else []


def select_non_overlapping(pool: dra.Pool, allocated: Collection[str], *, groups_only: bool) -> dra.Pool:
    """Return the pool in a layout for an API server that drops compatibility groups or counters.

    If the API server drops only groups, the layout contains all devices. A whole GPU and its MIG devices still
    cannot be in use at the same time, because a whole GPU consumes all counters. If the API server drops
    counters, the layout contains only devices that can all be used at once: each GPU is filled with its
    smallest devices first.

    Args:
        pool: the pool for a server that drops nothing.
        allocated: names of devices that claims have. These devices are selected before all others.
        groups_only: whether the API server drops only compatibility groups.
    """
    if groups_only:
        devices = tuple(_without_groups(each) for each in pool.devices)
        return dra.Pool(devices=devices, counter_sets=pool.counter_sets)
    free = {each.name: {name: c.value for name, c in each.counters.items()} for each in pool.counter_sets}
    names: set[str] = set()
    for device in sorted(pool.devices, key=lambda device: device.name not in allocated):
        requested = [
            (each.counter_set, name, counter.value)
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        ]
        if all(amount <= free[counter_set][name] for counter_set, name, amount in requested):
            for counter_set, name, amount in requested:
                free[counter_set][name] -= amount
            names.add(device.name)
    return dra.Pool(
        devices=tuple(_replace_consumption(each, ()) for each in pool.devices if each.name in names)
    )


def _without_groups(device: dra.Device) -> dra.Device:
    return _replace_consumption(
        device, [dra.CounterConsumption(each.counter_set, each.counters) for each in device.consumes_counters]
    )


def _replace_consumption(device: dra.Device, consumed: Iterable[dra.CounterConsumption]) -> dra.Device:
    return replace(device, consumes_counters=tuple(consumed))


def _device(
    offer: GpuOffer, system: System, consumed: Amounts, taints: Iterable[dra.Taint], *, has_groups: bool
) -> dra.Device:
    groups = [_GROUPS[offer.kind]] if has_groups else []
    consumes = (
        [dra.CounterConsumption(_counter_set_name(offer.card), _quantities(consumed), groups)]
        if consumed
        else []
    )
    return dra.Device(
        offer.name,
        attributes=_attributes(offer, system),
        capacity=_quantities(_capacities(offer)),
        consumes_counters=consumes,
        taints=taints,
    )


# --- attributes and capacity ----------------------------------------------------------------------


def _attributes(offer: GpuOffer, system: System) -> dict[str, str | int | bool | dra.Version]:
    if offer.vfio is not None:
        return _vfio_attributes(offer, offer.vfio)
    gpu = offer.card.gpu
    major, minor = gpu.compute_capability
    attributes: dict[str, str | int | bool | dra.Version] = {
        "type": _TYPES[offer.kind],
        "productName": gpu.name[:64],
        "cudaComputeCapability": dra.Version(f"{major}.{minor}.0"),
        **_location_attributes(gpu),
    }
    texts = {
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "addressingMode": gpu.addressing_mode,
    }
    attributes |= {name: text for name, text in texts.items() if text}
    versions = {"driverVersion": system.driver_version, "cudaDriverVersion": system.cuda_version}
    attributes |= {
        name: dra.Version(version) for name, text in versions.items() if (version := _to_semver(text))
    }
    if offer.profile is None:
        return attributes | {"uuid": gpu.uuid} | _fabric_attributes(gpu)
    attributes |= {"parentUUID": gpu.uuid, "profile": offer.profile.name}
    return attributes | ({"uuid": offer.mig.uuid} if offer.mig is not None else {})


def _vfio_attributes(offer: GpuOffer, facts: VfioFacts) -> dict[str, str | int | bool | dra.Version]:
    """Return the attributes that NVIDIA's driver publishes of a GPU for a virtual machine."""
    gpu = offer.card.gpu
    return {
        "type": _TYPES[offer.kind],
        "uuid": gpu.uuid,
        "productName": gpu.name[:64],
        "vendorID": facts.vendor_id,
        "deviceID": facts.device_id,
        "iommuFDEnabled": facts.has_iommufd,
        **_location_attributes(gpu),
        **_fabric_attributes(gpu),
    }


def _fabric_attributes(gpu: Gpu) -> dict[str, str | int]:
    """Return the NVLink domain and clique of a whole GPU. MIG devices cannot use NVLink."""
    if gpu.fabric is None or not gpu.fabric.cluster_uuid:
        return {}
    return {"clusterUUID": gpu.fabric.cluster_uuid, "cliqueID": gpu.fabric.clique_id}


def _location_attributes(gpu: Gpu) -> dict[str, str | int | bool | dra.Version]:
    attributes: dict[str, str | int | bool | dra.Version] = {"resource.kubernetes.io/pciBusID": gpu.pci_address}
    if gpu.pcie_root:
        attributes["resource.kubernetes.io/pcieRoot"] = gpu.pcie_root
    if gpu.numa_node is not None and gpu.numa_node >= 0:
        attributes["resource.kubernetes.io/numaNode"] = gpu.numa_node
    return attributes


def _to_semver(text: str) -> str:
    """Return a version as semver.org defines it, which Kubernetes requires: `580.82.07` becomes `580.82.7`."""
    numbers = re.findall(r"\d+", text)[:3]
    return ".".join(str(int(number)) for number in [*numbers, *"00"][:3]) if numbers else ""


def _quantities(amounts: Amounts) -> dict[str, dra.Quantity]:
    """Return amounts as quantities. Memory is written in MiB, for example `4864Mi`."""
    mebibytes, rest = divmod(amounts.get("memory", 0), 1 << 20)
    memory = {"memory": dra.Quantity(f"{mebibytes}Mi")} if mebibytes and not rest else {}
    return {name: dra.Quantity(amount) for name, amount in amounts.items()} | memory


def _capacities(offer: GpuOffer) -> Amounts:
    if offer.vfio is not None:
        return {"addressableMemory": offer.vfio.addressable_memory}
    if offer.profile is not None:
        return {"memory": offer.profile.memory, **_engine_amounts(offer.profile.engines)}
    amounts = {"memory": offer.card.gpu.memory}
    engines = [_engine_amounts(profile.engines) for profile in offer.card.profiles]
    return amounts | {name: max(each[name] for each in engines) for name in (engines[0] if engines else ())}


def _engine_amounts(engines: Engines) -> Amounts:
    return {
        "multiprocessors": engines.multiprocessors,
        "copyEngines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpegEngines": engines.jpeg_engines,
        "ofaEngines": engines.ofa_engines,
    }


# --- counters --------------------------------------------------------------------------------------


def _counter_set_name(card: GpuCard) -> str:
    return f"{make_gpu_name(card.gpu)}-counter-set"


def _counter_name(capacity: str) -> str:
    """Return the counter name of a capacity: `copyEngines` becomes `copy-engines`, which is a DNS label."""
    return re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", capacity)


def _total_counters(card: GpuCard) -> Amounts:
    """Return the counters of a GPU: memory slices, and the largest amount of each resource in any profile."""
    total: Amounts = {"memory": card.gpu.memory}
    for profile in card.profiles:
        for name, amount in {"memory": profile.memory, **_engine_amounts(profile.engines)}.items():
            total[_counter_name(name)] = max(amount, total.get(_counter_name(name), 0))
    ends = (place.start + place.size for profile in card.profiles for place in profile.placements)
    slices = max(ends, default=0)
    return total | {f"memory-slice-{number}": 1 for number in range(slices)}


def _consumed_counters(offer: GpuOffer, total: Amounts) -> Amounts:
    """Return the counters that a device consumes; empty on a GPU without counters."""
    if not total or offer.profile is None or offer.placement is None:
        return total
    counters = {_counter_name(name): amount for name, amount in _capacities(offer).items() if amount}
    slices = range(offer.placement.start, offer.placement.start + offer.placement.size)
    return counters | {f"memory-slice-{number}": 1 for number in slices}


def _free_counters(offers: Sequence[GpuOffer], total: Amounts, foreign: Collection[GpuInstance]) -> Amounts:
    """Return the counters of a GPU that foreign instances leave free."""
    free = dict(total)
    card = offers[0].card
    for each in foreign:
        profile = card.profile(each.profile_id)
        occupied = GpuOffer("", card, GpuDeviceKind.DYNAMIC_MIG, profile, each.placement)
        for name, amount in (_consumed_counters(occupied, total) if profile else total).items():
            free[name] = max(0, free[name] - amount)
    return free


def _exceeds_free(consumed: Amounts, free: Amounts) -> bool:
    return any(amount > free[name] for name, amount in consumed.items())
