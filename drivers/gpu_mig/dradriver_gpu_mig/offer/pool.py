"""The pool of a node: devices with attributes, capacities, counters, compatibility groups and taints."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Engines, GpuInstance, System
from dradriver_gpu_mig.offer.offers import Kind, Offer, gpu_name
from dradriver_gpu_mig.snapshot import Card

__all__ = ["DRIVER", "Marks", "non_overlapping", "pool"]

DRIVER: Final = "gpu.nvidia.com"
"""Name of NVIDIA's own driver, so that classes, claims and selectors written for it work."""

_FOREIGN: Final = dra.Taint(key=f"{DRIVER}/in-use", effect="NoSchedule", value="foreign")
_WHOLE, _MIG = "whole", "mig"

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Facts about devices that the cards do not report.

    Attributes:
        taints: taints by device name.
        foreign: GPU instances that this driver did not create, by UUID of the GPU.
    """

    taints: Mapping[str, Sequence[dra.Taint]] = field(default_factory=dict)
    foreign: Mapping[str, Collection[GpuInstance]] = field(default_factory=dict)


def pool(offered: Mapping[str, Sequence[Offer]], system: System, marks: Marks) -> dra.Pool:
    """Return the pool of a node.

    Args:
        offered: the devices of each GPU, by its UUID.
        system: the installed driver.
        marks: taints, and instances that this driver did not create.
    """
    devices: list[dra.Device] = []
    sets: list[dra.CounterSet] = []
    for uuid, offers in offered.items():
        divisible = any(offer.kind is Kind.PLACE for offer in offers)
        total = _total(offers[0].card) if divisible else {}
        if divisible:
            sets.append(dra.CounterSet(_counter_set(offers[0].card), _quantities(total)))
        foreign = marks.foreign.get(uuid, ())
        left = _left(offers, total, foreign)
        modes = {offer.kind for offer in offers}
        for offer in offers:
            consumed = _consumed(offer, total)
            taken = _exceeds(consumed, left) or (offer.kind is Kind.WHOLE and len(foreign) > 0)
            taints = [*marks.taints.get(offer.name, ()), *([_FOREIGN] if taken else ())]
            devices.append(_device(offer, system, consumed, taints, several_modes=len(modes) > 1))
    return dra.Pool(devices=tuple(devices), counter_sets=tuple(sets))


def non_overlapping(whole: dra.Pool, held: Collection[str], *, groups_only: bool) -> dra.Pool:
    """Return the layout for an API server that drops counters or groups: all its devices can be used at once.

    If only groups are dropped, counters alone keep whole GPUs and MIG devices apart, because a whole GPU
    consumes all counters. Without counters, each GPU is filled with the smallest devices first.

    Args:
        whole: the pool for a server that drops nothing.
        held: names of devices that claims have. They are placed before all others.
        groups_only: only compatibility groups are dropped.
    """
    if groups_only:
        devices = tuple(_without_groups(each) for each in whole.devices)
        return dra.Pool(devices=devices, counter_sets=whole.counter_sets)
    left = {each.name: {name: c.value for name, c in each.counters.items()} for each in whole.counter_sets}
    chosen: set[str] = set()
    for device in sorted(whole.devices, key=lambda device: device.name not in held):
        taken = [
            (each.counter_set, name, counter.value)
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        ]
        if all(amount <= left[counter_set][name] for counter_set, name, amount in taken):
            for counter_set, name, amount in taken:
                left[counter_set][name] -= amount
            chosen.add(device.name)
    return dra.Pool(devices=tuple(_replaced(each, ()) for each in whole.devices if each.name in chosen))


def _without_groups(device: dra.Device) -> dra.Device:
    return _replaced(
        device, [dra.CounterConsumption(each.counter_set, each.counters) for each in device.consumes_counters]
    )


def _replaced(device: dra.Device, consumed: Iterable[dra.CounterConsumption]) -> dra.Device:
    return dra.Device(
        device.name, device.attributes, device.capacity, consumes_counters=consumed, taints=device.taints
    )


def _device(
    offer: Offer, system: System, consumed: Amounts, taints: Iterable[dra.Taint], *, several_modes: bool
) -> dra.Device:
    groups = [_WHOLE if offer.kind is Kind.WHOLE else _MIG] if several_modes else []
    consumes = (
        [dra.CounterConsumption(_counter_set(offer.card), _quantities(consumed), groups)] if consumed else []
    )
    return dra.Device(
        offer.name,
        attributes=_attributes(offer, system),
        capacity=_quantities(_capacity(offer)),
        consumes_counters=consumes,
        taints=taints,
    )


# --- attributes and capacity ----------------------------------------------------------------------


def _attributes(offer: Offer, system: System) -> dict[str, str | int | dra.Version]:
    gpu = offer.card.gpu
    major, minor = gpu.compute_capability
    told: dict[str, str | int | dra.Version] = {
        "type": "gpu" if offer.kind is Kind.WHOLE else "mig",
        "productName": gpu.name[:64],
        "cudaComputeCapability": dra.Version(f"{major}.{minor}.0"),
        "resource.kubernetes.io/pciBusID": gpu.pci_address,
    }
    texts = {
        "brand": gpu.brand,
        "architecture": gpu.architecture,
        "resource.kubernetes.io/pcieRoot": gpu.pcie_root,
    }
    told |= {name: text for name, text in texts.items() if text}
    versions = {"driverVersion": system.driver_version, "cudaDriverVersion": system.cuda_version}
    told |= {name: dra.Version(version) for name, text in versions.items() if (version := _semantic(text))}
    if gpu.numa_node is not None and gpu.numa_node >= 0:
        told |= {"resource.kubernetes.io/numaNode": gpu.numa_node}
    if offer.profile is None:
        return told | {"uuid": gpu.uuid}
    told |= {"parentUUID": gpu.uuid, "profile": offer.profile.name}
    return told | ({"uuid": offer.mig.uuid} if offer.mig is not None else {})


def _semantic(text: str) -> str:
    """Return a version as semver.org defines it, which Kubernetes requires: `580.82.07` becomes `580.82.7`."""
    numbers = re.findall(r"\d+", text)[:3]
    return ".".join(str(int(number)) for number in [*numbers, *"00"][:3]) if numbers else ""


def _quantities(amounts: Amounts) -> dict[str, dra.Quantity]:
    """Return amounts as quantities. Memory is written in MiB, for example `4864Mi`."""
    mebibytes, rest = divmod(amounts.get("memory", 0), 1 << 20)
    memory = {"memory": dra.Quantity(f"{mebibytes}Mi")} if mebibytes and not rest else {}
    return {name: dra.Quantity(amount) for name, amount in amounts.items()} | memory


def _capacity(offer: Offer) -> Amounts:
    if offer.profile is not None:
        return {"memory": offer.profile.memory, **_counted(offer.profile.engines)}
    amounts = {"memory": offer.card.gpu.memory}
    every = [_counted(profile.engines) for profile in offer.card.profiles]
    return amounts | {name: max(each[name] for each in every) for name in (every[0] if every else ())}


def _counted(engines: Engines) -> Amounts:
    return {
        "multiprocessors": engines.multiprocessors,
        "copyEngines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpegEngines": engines.jpeg_engines,
        "ofaEngines": engines.ofa_engines,
    }


# --- counters --------------------------------------------------------------------------------------


def _counter_set(card: Card) -> str:
    return f"{gpu_name(card.gpu)}-counter-set"


def _counter(capacity: str) -> str:
    """Return the counter name of a capacity: `copyEngines` becomes `copy-engines`, which is a DNS label."""
    return re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", capacity)


def _total(card: Card) -> Amounts:
    """Return the counters of a GPU: the largest amount of each resource in any profile, and memory slices."""
    total: Amounts = {"memory": card.gpu.memory}
    for profile in card.profiles:
        for name, amount in {"memory": profile.memory, **_counted(profile.engines)}.items():
            total[_counter(name)] = max(amount, total.get(_counter(name), 0))
    slices = max(place.start + place.size for profile in card.profiles for place in profile.placements)
    return total | {f"memory-slice-{number}": 1 for number in range(slices)}


def _consumed(offer: Offer, total: Amounts) -> Amounts:
    """Return the counters that a device consumes; empty on a GPU without counters."""
    if not total or offer.profile is None or offer.placement is None:
        return total
    taken = {_counter(name): amount for name, amount in _capacity(offer).items() if amount}
    slices = range(offer.placement.start, offer.placement.start + offer.placement.size)
    return taken | {f"memory-slice-{number}": 1 for number in slices}


def _left(offers: Sequence[Offer], total: Amounts, foreign: Collection[GpuInstance]) -> Amounts:
    """Return the counters of a GPU that foreign instances leave free."""
    left = dict(total)
    card = offers[0].card
    for each in foreign:
        profile = card.profile(each.profile_id)
        shadow = Offer("", card, Kind.PLACE, profile, each.placement)
        for name, amount in (_consumed(shadow, total) if profile else total).items():
            left[name] = max(0, left[name] - amount)
    return left


def _exceeds(consumed: Amounts, left: Amounts) -> bool:
    return any(amount > left[name] for name, amount in consumed.items())
