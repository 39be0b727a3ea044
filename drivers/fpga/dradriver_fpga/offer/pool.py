"""The pool of a node: devices with attributes, counters, groups, conditions and taints."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

import dradriver as dra
from dradriver_fpga.offer.offers import Kind, Offer

__all__ = ["DRIVER", "FAILED", "PROGRAMMED", "pool", "safe_without"]

DRIVER: Final = "fpga.example.com"
PROGRAMMED: Final = f"{DRIVER}/programmed"
"""Binding condition: the device has the content that its claim requests."""
FAILED: Final = f"{DRIVER}/program-failed"

_TEXT: Final = 64
"""Largest number of characters of an attribute."""


def pool(offered: Iterable[Sequence[Offer]], taints: Mapping[str, Sequence[dra.Taint]]) -> dra.Pool:
    """Return the pool of a node.

    Args:
        offered: the devices of each card.
        taints: taints by device name.
    """
    devices: list[dra.Device] = []
    sets: list[dra.CounterSet] = []
    for offers in offered:
        units = {unit: 1 for offer in offers for unit in offer.units}
        if units:
            sets.append(dra.CounterSet(_counter_set(offers[0]), units))
        devices += (_device(offer, taints.get(offer.name, ())) for offer in offers)
    return dra.Pool(devices=tuple(devices), counter_sets=tuple(sets))


def safe_without(dropped: Collection[str], whole: dra.Pool, offered: Iterable[Sequence[Offer]]) -> dra.Pool:
    """Return the layout for an API server that drops fields.

    All its devices can be used as that server sees them.

    Without groups, only devices of the present shell are offered. Without counters, only regions are offered,
    which do not overlap, or cards without regions. Without binding conditions, all devices are offered, and
    `prepare` programs them.

    Args:
        dropped: names of the dropped fields.
        whole: the pool for a server that drops nothing.
        offered: the devices of each card.
    """
    counted = not {"consumesCounters", "sharedCounters"} & set(dropped)
    grouped = counted and "compatibilityGroups" not in dropped
    kept = {
        offer.name
        for offers in offered
        for offer in offers
        if (grouped or offer.shell is None) and (counted or _stands_alone(offer))
    }
    change: dict[str, Any] = {}
    if "bindingConditions" in dropped:
        change |= {"binding_conditions": (), "binding_failure_conditions": (), "binds_to_node": None}
    if not counted:
        change["consumes_counters"] = ()
    devices = []
    for device in whole.devices:
        if device.name in kept:
            changed = msgspec.structs.replace(device, **change)
            devices.append(changed if grouped or not counted else _without_groups(changed))
    return dra.Pool(devices=tuple(devices), counter_sets=whole.counter_sets if counted else ())


def _stands_alone(offer: Offer) -> bool:
    return offer.kind is (Kind.REGION if offer.card.regions else Kind.CARD)


def _without_groups(device: dra.Device) -> dra.Device:
    consumed = [dra.CounterConsumption(each.counter_set, each.counters) for each in device.consumes_counters]
    return msgspec.structs.replace(device, consumes_counters=consumed)


def _device(offer: Offer, taints: Iterable[dra.Taint]) -> dra.Device:
    waits = offer.programmable and offer.kind is not Kind.SLOT
    groups = [offer.group] if offer.group else []
    units = dict.fromkeys(offer.units, 1)
    return dra.Device(
        offer.name,
        attributes=_attributes(offer),
        consumes_counters=[dra.CounterConsumption(_counter_set(offer), units, groups)] if units else [],
        # A slot is used with its present content, so no pod waits. The scheduler prefers such devices.
        binding_conditions=[PROGRAMMED] if waits else [],
        binding_failure_conditions=[FAILED] if waits else [],
        binds_to_node=True if waits else None,
        taints=taints,
    )


def _counter_set(offer: Offer) -> str:
    return offer.card.name


def _attributes(offer: Offer) -> dict[str, str | int | bool]:
    card = offer.card
    # Published even if the value is unknown, because a selector fails on a missing attribute.
    own = {
        "vendor": card.vendor,
        "device": card.device,
        "shell": "" if offer.shell else card.shell,
        "interfaceID": offer.interface_id,
        "afuID": offer.afu_id,
        "bitstream": offer.bitstream,
        "card": card.name,
    }
    standard = {
        "resource.kubernetes.io/pciBusID": card.pci_address,
        "resource.kubernetes.io/pcieRoot": card.pcie_root,
    }
    told: dict[str, str | int | bool] = {
        "type": offer.kind.value,
        "programmable": offer.programmable,
        "deviceNodes": len(offer.nodes),
    }
    told |= {name: text[:_TEXT] for name, text in own.items()}
    told |= {name: text for name, text in standard.items() if text}
    if card.numa_node is not None and card.numa_node >= 0:
        told["resource.kubernetes.io/numaNode"] = card.numa_node
    if offer.region is not None:
        told["region"] = offer.region.number
    return told
