"""An offer as a device: attributes, capacity, counters, nodes and conditions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import Accelerator, MemoryDomain
from dradriver_fabric_cxl.names import ATTACH_FAILED, ATTACHED, NOT_READY, READY, TIMED_OUT
from dradriver_fabric_cxl.offer.offers import FabricOffer
from dradriver_fabric_cxl.offer.sizes import round_up

__all__ = ["ATTACHMENTS", "MEBIBYTES", "MEMORY", "make_device", "select_nodes"]

MEBIBYTES: Final = "mebibytes"
"""Counter of a memory domain."""
MEMORY: Final = "memory"
"""Capacity of memory."""
ATTACHMENTS: Final = "attachments"
"""Counter of a host."""
_HOSTNAME: Final = "kubernetes.io/hostname"
_MAX_LABEL_VALUE: Final = 63
_MAX_TEXT: Final = 64
"""Maximum number of characters of an attribute."""


def make_device(
    offer: FabricOffer,
    name: str,
    *,
    available: int,
    consumes: Iterable[dra.CounterConsumption],
    nodes: Mapping[str, Any],
    taints: Iterable[dra.Taint],
    waits: bool = True,
) -> dra.Device:
    """Return an offer as a device.

    Args:
        offer: the offer.
        name: name of the device.
        available: for a domain as a whole, the mebibytes that claims can share.
        consumes: consumption of counters.
        nodes: fields of the device that select its nodes, from `select_nodes`; empty: the pool selects them.
        taints: taints of the device.
        waits: whether pods wait for the device with binding conditions.

    Source:
        KEP-4815, counters; KEP-5007, binding conditions; KEP-5075, request policies.
    """
    fields: dict[str, Any] = dict(nodes)
    if offer.mebibytes:
        fields["capacity"] = {MEMORY: f"{offer.mebibytes}Mi"}
    elif isinstance(offer.source, MemoryDomain):
        fields["capacity"] = {MEMORY: _share_capacity(offer.source, available)}
        fields["allow_multiple_allocations"] = True
    return dra.Device(
        name,
        attributes=_attributes(offer),
        consumes_counters=consumes,
        taints=taints,
        binding_conditions=[ATTACHED, READY] if waits else [],
        binding_failure_conditions=[ATTACH_FAILED, NOT_READY, TIMED_OUT] if waits else [],
        binds_to_node=True if waits and offer.host is None else None,
        **fields,
    )


def select_nodes(nodes: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a device or pool that select nodes; empty if there is no node to select.

    Several nodes are selected by their label `kubernetes.io/hostname`, because a selector can name one node
    only. The label must be the node's name. Nodes whose name is too long for a label are left out.

    Args:
        nodes: names of the nodes.
    """
    named = sorted(each for each in set(nodes) if len(each) <= _MAX_LABEL_VALUE)
    if not named:
        return {}
    requirement = dra.NodeSelectorRequirement(_HOSTNAME, "In", named)
    return {"node_selector": dra.NodeSelector([dra.NodeSelectorTerm(match_expressions=[requirement])])}


def _share_capacity(domain: MemoryDomain, available: int) -> dra.Capacity:
    smallest, step = round_up(domain, domain.minimum), domain.increment
    largest = smallest + max(0, available - smallest) // step * step
    policy = dra.CapacityRequestPolicyRange(
        min=f"{smallest}Mi", max=f"{largest}Mi", step=f"{step}Mi" if largest > smallest else None
    )
    return dra.Capacity(f"{largest}Mi", dra.CapacityRequestPolicy(default=f"{smallest}Mi", valid_range=policy))


def _attributes(offer: FabricOffer) -> dict[str, str]:
    # An attribute is published even if its value is unknown, because a selector fails on a missing attribute.
    source = offer.source
    if isinstance(source, Accelerator):
        properties = {"vendor": source.vendor, "device": source.device}
    else:
        properties = {"domain": source.id, "switch": source.switch}
    return {"type": "memory" if offer.is_memory else "accelerator"} | {
        key: text[:_MAX_TEXT] for key, text in properties.items()
    }
