"""Taints of devices whose hardware is not healthy."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import FabricHealth
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.offer.offers import FabricOffer

__all__ = ["make_taints"]

_SOURCE: Final = f"{DRIVER}/fabric-health"
_HOST: Final = f"{DRIVER}/host-health"
_NODE: Final = f"{DRIVER}/unhealthy"
_MAX_VALUE: Final = 63
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+")


def make_taints(
    offer: FabricOffer, name: str, nodes: Iterable[str], reports: Mapping[str, dra.NodeReport]
) -> list[dra.Taint]:
    """Return the taints of a device.

    A node is believed about devices that it can use. It is not believed about a domain as a whole: the failure
    of one share is no failure of the others.

    Args:
        offer: the device.
        name: name of the device.
        nodes: the nodes that can use it.
        reports: reports of the nodes by node.
    """
    taints = list(_make_health_taints(_SOURCE, offer.source.health))
    if offer.host is not None:
        taints += _make_health_taints(_HOST, offer.host.health)
    if offer.mebibytes or not offer.is_memory:
        reasons = (reports[node].unhealthy.get(name) for node in nodes)
        if reason := next((each for each in reasons if each is not None), None):
            taints.append(dra.Taint(key=_NODE, effect="NoExecute", value=_make_value(reason)))
    return taints


def _make_health_taints(key: str, health: FabricHealth) -> Iterator[dra.Taint]:
    if health is FabricHealth.WARNING:
        yield dra.Taint(key=key, effect="NoSchedule", value="warning")
    elif health is FabricHealth.CRITICAL:
        yield dra.Taint(key=key, effect="NoExecute", value="critical")


def _make_value(reason: str) -> str:
    """Return the text as a label value, for people who list the taints."""
    return _OTHER.sub("-", reason).strip("-")[:_MAX_VALUE].strip("-")
