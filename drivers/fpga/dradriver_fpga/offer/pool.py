"""The pool of a node: devices with attributes, counters, groups, conditions and taints."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

import dradriver as dra
from dradriver_fpga.names import NO_NAMES, FriendlyNames
from dradriver_fpga.offer.offers import FpgaDeviceKind, FpgaOffer

__all__ = ["DRIVER", "FAILED", "PROGRAMMED", "build_pool", "select_safe_without"]

DRIVER: Final = "fpga.example.com"
PROGRAMMED: Final = f"{DRIVER}/programmed"
"""Binding condition: the device has the content that its claim requests."""
FAILED: Final = f"{DRIVER}/program-failed"

_CLAIMS: Final = "claims"
"""Capacity of a shared device: the number of claims that may use it."""
_OTHER_INTERFACES: Final = (2, 3)
"""Numbers of the attributes for further interfaces. All devices have them, because a selector fails without.

A bitstream for a fourth interface is written too, but no selector finds its device.
"""
_MAX_TEXT: Final = 64
"""Maximum number of characters of an attribute."""


def build_pool(
    offered: Iterable[Sequence[FpgaOffer]],
    taints: Mapping[str, Sequence[dra.Taint]],
    names: FriendlyNames = NO_NAMES,
) -> dra.Pool:
    """Return the pool of a node.

    Args:
        offered: the devices of each card.
        taints: taints by device name.
        names: the operator's names for interfaces and functions.

    Source:
        KEP-4815, counters; KEP-5007, binding conditions; KEP-5963, compatibility groups; KEP-5075, shared
        devices.
    """
    devices: list[dra.Device] = []
    counter_sets: dict[str, dict[str, int]] = {}
    for offers in offered:
        for offer in offers:
            counter_sets.setdefault(offer.counter_set, {}).update(dict.fromkeys(offer.counter_names, 1))
        devices += (_device(offer, taints.get(offer.name, ()), names) for offer in offers)
    return dra.Pool(
        devices=tuple(devices), counter_sets=[dra.CounterSet(*each) for each in counter_sets.items()]
    )


def select_safe_without(
    dropped: Collection[str], pool: dra.Pool, offered: Iterable[Sequence[FpgaOffer]]
) -> dra.Pool:
    """Return a layout whose devices can all be used at once, for an API server that drops fields.

    If the API server drops groups, only devices of the present shell are offered. If it drops counters, only
    regions, which do not overlap, and cards without regions are offered. If it drops binding conditions, all
    devices are offered, and `prepare` programs them. If it drops sharing, one claim gets a shared slot.

    Args:
        dropped: names of the dropped fields.
        pool: the pool for a server that drops nothing.
        offered: the devices of each card.
    """
    keeps_counters = not {"consumesCounters", "sharedCounters"} & set(dropped)
    keeps_groups = keeps_counters and "compatibilityGroups" not in dropped
    names = {
        offer.name
        for offers in offered
        for offer in offers
        if (keeps_groups or offer.shell is None) and (keeps_counters or _is_disjoint(offer))
    }
    change: dict[str, Any] = {}
    if "bindingConditions" in dropped:
        change |= {"binding_conditions": (), "binding_failure_conditions": (), "binds_to_node": None}
    if not keeps_counters:
        change["consumes_counters"] = ()
    if "allowMultipleAllocations" in dropped:
        change |= {"allow_multiple_allocations": None, "capacity": {}}
    devices = []
    for device in pool.devices:
        if device.name in names:
            changed = msgspec.structs.replace(device, **change)
            devices.append(changed if keeps_groups or not keeps_counters else _without_groups(changed))
    return dra.Pool(devices=tuple(devices), counter_sets=pool.counter_sets if keeps_counters else ())


def _is_disjoint(offer: FpgaOffer) -> bool:
    if offer.kind is FpgaDeviceKind.FUNCTION:
        return True
    if offer.kind is FpgaDeviceKind.CARD and offer.functions:
        return False
    return offer.kind is (FpgaDeviceKind.REGION if offer.card.regions else FpgaDeviceKind.CARD)


def _without_groups(device: dra.Device) -> dra.Device:
    consumed = [dra.CounterConsumption(each.counter_set, each.counters) for each in device.consumes_counters]
    return msgspec.structs.replace(device, consumes_counters=consumed)


def _device(offer: FpgaOffer, taints: Iterable[dra.Taint], names: FriendlyNames) -> dra.Device:
    needs_programming = offer.programmable and offer.kind is not FpgaDeviceKind.SLOT
    groups = [offer.group] if offer.group else []
    counter_names = dict.fromkeys(offer.counter_names, 1)
    return dra.Device(
        offer.name,
        attributes=_attributes(offer, names),
        capacity={_CLAIMS: _make_share(offer.claims)} if offer.is_shared else {},
        consumes_counters=[dra.CounterConsumption(offer.counter_set, counter_names, groups)]
        if counter_names
        else [],
        # A slot is used with its present content, so no pod waits for programming. The scheduler prefers
        # devices without binding conditions.
        binding_conditions=[PROGRAMMED] if needs_programming else [],
        binding_failure_conditions=[FAILED] if needs_programming else [],
        binds_to_node=True if needs_programming else None,
        taints=taints,
        allow_multiple_allocations=True if offer.is_shared else None,
    )


def _make_share(claims: int) -> dra.Capacity:
    """Return a capacity of which each claim takes exactly 1."""
    return dra.Capacity(claims, dra.CapacityRequestPolicy(default=1, valid_values=(1,)))


def _attributes(offer: FpgaOffer, names: FriendlyNames) -> dict[str, str | int | bool]:
    card = offer.card
    # The attribute is published even if its value is unknown, because a selector fails on a missing attribute.
    properties = {
        "vendor": card.vendor,
        "device": card.device,
        "shell": "" if offer.shell else card.shell,
        "interfaceID": offer.interface_id,
        "afuID": offer.afu_id,
        "bitstream": offer.bitstream,
        "card": card.name,
        "serial": card.serial,
        "interface": names.find_interface(offer.interface_ids),
        "function": names.find_function(offer.afu_id),
    }
    for number in _OTHER_INTERFACES:
        others = offer.interface_ids[number - 1 : number]
        properties[f"interfaceID{number}"] = others[0] if others else ""
    standard = {
        "resource.kubernetes.io/pciBusID": card.pci_address,
        "resource.kubernetes.io/pcieRoot": card.pcie_root,
    }
    attributes: dict[str, str | int | bool] = {
        "type": offer.kind.value,
        "programmable": offer.programmable,
        "deviceNodes": len(offer.nodes),
    }
    attributes |= {name: text[:_MAX_TEXT] for name, text in properties.items()}
    attributes |= {name: text for name, text in standard.items() if text}
    if card.numa_node is not None and card.numa_node >= 0:
        attributes["resource.kubernetes.io/numaNode"] = card.numa_node
    if offer.region is not None:
        attributes["region"] = offer.region.number
    return attributes
