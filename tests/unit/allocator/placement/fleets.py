"""Small fleets for the tests of the placer."""

from collections.abc import Mapping
from typing import Any

from dradriver.allocator import ORDERED, AllocationNode, CelSelectors, Features, Meter, Order
from dradriver.allocator.device_choice import ParsedClaims, parse_claims
from dradriver.allocator.placement import Placer
from dradriver.allocator.placement.classes.lens import Lens
from dradriver.allocator.placement.evaluation.candidate_masks import CandidateMasks
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.fleet.fleet import Fleet
from dradriver.allocator.placement.shapes.claim_shapes import ClaimShape
from dradriver.allocator.placement.shapes.own_verdicts import OwnVerdicts
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, Json, claim, request, slice_

__all__ = [
    "SLOW",
    "evaluator_of",
    "fleet_of",
    "gpu",
    "holder",
    "memory",
    "own",
    "parsed",
    "placer_of",
    "reads",
    "shared",
    "takes_memory",
    "verdicts_of",
    "zone",
]

SLOW: Json = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
"""The fields of a device with binding conditions."""


def gpu(name: str, /, *bodies: Json, **attributes: str) -> Json:
    """Return a device with these fields and attributes."""
    device: Json = {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}
    for body in bodies:
        device |= body
    return device


def memory(amount: str, called: str = "gpu") -> list[Json]:
    """Return a counter set with one counter, as the field `sharedCounters`."""
    return [{"name": called, "counters": {"memory": {"value": amount}}}]


def takes_memory(amount: str, called: str = "gpu") -> Json:
    """Return the fields of a device that consumes from this counter set."""
    return {"consumesCounters": [{"counterSet": called, "counters": {"memory": {"value": amount}}}]}


def own(node: str, *members: str | Json, name: str = "", **spec: Any) -> ResourceSlice:
    """Return a slice of a node's pool. The pool has the node's name."""
    return slice_(name or node, *members, pool=node, nodeName=node, **spec)


def shared(*members: str | Json, name: str = "fabric", **spec: Any) -> ResourceSlice:
    """Return a slice of the pool `fabric`. Without `spec` all nodes reach it."""
    return slice_(name, *members, pool="fabric", **{"nodeName": None, **(spec or {"allNodes": True})})


def zone(value: str) -> Json:
    """Return the field that selects the nodes of a zone."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


def holder(pool: str, device: str) -> ResourceClaim:
    """Return a claim that holds a device."""
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
    return from_builtins(ResourceClaim, {
        "metadata": {"name": f"{pool}-{device}", "namespace": "default"}, "spec": {"devices": {}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    })  # fmt: skip


def reads(attribute: str, comparison: str) -> str:
    """Return a selector that compares an attribute: `reads("model", "== 'big'")`."""
    return f"device.attributes['{DRIVER}'].{attribute} {comparison}"


def fleet_of(*slices: ResourceSlice, **nodes: Mapping[str, str]) -> Fleet:
    """Return a fleet of nodes, each with its labels. The nodes that the slices name need not be given."""
    fleet = Fleet(Features(), skips_devices=False)
    _put_all(fleet, slices, nodes)
    fleet.update_all()
    return fleet


def placer_of(
    *slices: ResourceSlice, order: Order = ORDERED, budget: int = 250_000, **nodes: Mapping[str, str]
) -> Placer:
    """Return a placer with such a fleet."""
    placer = Placer(order=order, budget=budget)
    placer.put_class(CLASSES["gpu"])
    _put_all(placer, slices, nodes)
    return placer


def _put_all(
    target: Fleet | Placer, slices: tuple[ResourceSlice, ...], nodes: Mapping[str, Mapping[str, str]]
) -> None:
    named: dict[str, Mapping[str, str]] = {each.spec.node_name: {} for each in slices if each.spec.node_name}
    for name, labels in (named | dict(nodes)).items():
        target.put_node(AllocationNode(name, labels))
    for source in slices:
        target.put_slice(source)


def evaluator_of(fleet: Fleet, order: Order = ORDERED) -> PartEvaluator:
    """Return an evaluator for the nodes of a fleet."""
    masks = CandidateMasks(Features(), CelSelectors())
    return PartEvaluator(fleet, masks, Features(), order)


def parsed(*requests: Json, **fields: Any) -> ParsedClaims:
    """Return the parsed claim with these requests."""
    return parse_claims([claim(*requests, **fields)], CLASSES, Features(), CelSelectors(), Meter())


def verdicts_of(order: Order, **sizes: int) -> tuple[OwnVerdicts, Lens, Meter]:
    """Return the verdicts for a request for two devices, on nodes with so many devices, and the meter."""
    fleet = fleet_of(*[own(node, *(f"gpu-{n}" for n in range(size))) for node, size in sizes.items()])
    evaluator = evaluator_of(fleet, order)
    lens = Lens(fleet, frozenset(), frozenset(), distinguishes_holders=False)
    lens.update(Meter())
    shape = ClaimShape(parsed(request(count=2)), lens, evaluator)
    return OwnVerdicts(shape.view, evaluator), lens, evaluator.meter
