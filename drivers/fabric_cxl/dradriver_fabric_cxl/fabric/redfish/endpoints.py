"""Endpoints of a fabric, and what is behind them, as values. Pure.

Source: Redfish schemas Endpoint, ComputerSystem, Processor.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from dradriver_fabric_cxl.fabric.redfish.answers import follow
from dradriver_fabric_cxl.fabric.redfish.resources import parse_health
from dradriver_fabric_cxl.fabric.values import Accelerator

__all__ = [
    "find_device",
    "find_system",
    "is_accelerator",
    "is_host",
    "parse_accelerator",
    "parse_accelerator_serial",
]

_ACCELERATORS: Final = frozenset({"Processor", "AccelerationFunction"})
_EIGHT_BYTES: Final = re.compile("[0-9A-Fa-f]{2}([-:]?[0-9A-Fa-f]{2}){7}")


def is_host(body: Mapping[str, Any]) -> bool:
    """Return whether an endpoint is the port of a computer.

    Args:
        body: the endpoint.
    """
    return any(entity.get("EntityRole") in {"Initiator", "Both"} for entity in _entities(body))


def is_accelerator(body: Mapping[str, Any]) -> bool:
    """Return whether an endpoint is an accelerator.

    Args:
        body: the endpoint.
    """
    return any(
        entity.get("EntityRole") == "Target" and entity.get("EntityType") in _ACCELERATORS
        for entity in _entities(body)
    )


def find_system(body: Mapping[str, Any]) -> str:
    """Return the path of the computer system of a host's endpoint; "" if it is unknown.

    Args:
        body: the endpoint. It may name a part of the system, for example a processor.
    """
    for entity in _entities(body):
        before, found, after = follow(entity.get("EntityLink")).partition("/Systems/")
        if found:
            return before + found + after.partition("/")[0]
    return ""


def find_device(body: Mapping[str, Any]) -> str:
    """Return the path of the processor or device behind an accelerator's endpoint; "" if it is unknown.

    Args:
        body: the endpoint.
    """
    links = (
        follow(each.get("EntityLink")) for each in _entities(body) if each.get("EntityType") in _ACCELERATORS
    )
    return next((path for path in links if path), "")


def parse_accelerator(body: Mapping[str, Any]) -> Accelerator:
    """Return an accelerator.

    Args:
        body: the endpoint.
    """
    ids = [
        entity["EntityPciId"] for entity in _entities(body) if isinstance(entity.get("EntityPciId"), Mapping)
    ]
    pci = ids[0] if ids else {}
    return Accelerator(
        follow(body).rpartition("/")[2] or str(body.get("Id", "")),
        str(pci.get("VendorId") or ""),
        str(pci.get("DeviceId") or ""),
        parse_health(body),
    )


def parse_accelerator_serial(device: Mapping[str, Any]) -> int | None:
    """Return the serial number of an accelerator's PCI device, which the host reads from it; None if unknown.

    Args:
        device: the processor or device. Its `SerialNumber` is used only if it is written as the 8 bytes of the
            PCI capability: `00-00-00-ac-ce-1e-00-01`. A maker's other numbers are not on the device.
    """
    text = str(device.get("SerialNumber") or "")
    return int(re.sub("[-:]", "", text), 16) if _EIGHT_BYTES.fullmatch(text) else None


def _entities(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entities = body.get("ConnectedEntities")
    return [each for each in entities if isinstance(each, Mapping)] if isinstance(entities, list) else []
