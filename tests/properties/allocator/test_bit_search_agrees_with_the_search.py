"""On any node, the search on bit sets decides what the full search decides, or gives up."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from dradriver.allocator import ORDERED, PACKED, AllocationNode, Features, InUse, Inventory, Order, Refusal
from dradriver.allocator.device_choice import ParsedClaims, choose_devices, parse_claims
from dradriver.allocator.meter import Meter
from dradriver.allocator.placement.evaluation.verdicts import REFUSED
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.supply.node_supply import Supply, iter_offers
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.interop.allocator.random_worlds import NODE, random_mig_node, random_plain_world, random_world
from tests.seeds import choose_seed
from tests.unit.allocator.bit_nodes import BitNode

Json = dict[str, Any]

WORLDS = int(os.environ.get("WORLDS", "10"))
MAKERS = {"anything": random_world, "partitions": random_mig_node, "plain": random_plain_world}
PARTITIONS = [
    f"device.attributes['gpu.nvidia.com'].?profile.orValue('') == '{profile}'"
    for profile in ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
]
CONDITIONS = [
    "true",
    "true",
    "device.driver == 'gpu.example.com'",
    "device.driver == 'nic.example.org'",
    "device.attributes[device.driver].?model.orValue('') != 'a'",
    "device.attributes[device.driver].?parent.orValue('') == 'p0'",
    "device.attributes[device.driver].?size.orValue(0) > 1",
]
DRIVERS = ("gpu.example.com", "nic.example.org")
ATTRIBUTES = [f"{driver}/{name}" for driver in DRIVERS for name in ("parent", "model", "numa")]


@dataclass
class World:
    """A node with used devices, and the claims of a pod."""

    node: AllocationNode
    features: Features
    inventory: Inventory
    held: Sequence[ResourceClaim]
    parsed: ParsedClaims


def random_claims(chance: Random, kind: str) -> list[Json]:
    """Return claims with several plain requests."""
    claims = []
    attributes = (
        ["gpu.nvidia.com/parentUUID"] if kind == "partitions" else [*ATTRIBUTES, "dra.example.net/rack"]
    )
    for number in range(chance.choice((1, 1, 1, 2))):
        requests = [_request(chance, f"r{at}", kind) for at in range(chance.randint(1, 4))]
        devices: Json = {"requests": requests}
        if chance.random() < 0.5:
            attribute = chance.choice(attributes)
            covered = chance.choice(([], [], [chance.choice(requests)["name"]]))
            rule = chance.choice(("matchAttribute", "distinctAttribute"))
            devices["constraints"] = [{rule: attribute, "requests": covered}]
        name = f"c{number}"
        metadata = {"name": name, "namespace": "default", "uid": name}
        claims.append({"metadata": metadata, "spec": {"devices": devices}})
    return claims


def _request(chance: Random, name: str, kind: str) -> Json:
    def alternative() -> Json:
        condition = chance.choice(PARTITIONS if kind == "partitions" else CONDITIONS)
        return {
            "deviceClassName": "any",
            "allocationMode": "ExactCount",
            "count": chance.choice((1, 1, 1, 2, 3)),
            "selectors": [{"cel": {"expression": condition}}],
        }

    if chance.random() < 0.25:
        several = [{"name": f"a{at}", **alternative()} for at in range(2)]
        return {"name": name, "firstAvailable": several}
    return {"name": name, "exactly": alternative()}


def worlds(seed: int, kind: str) -> Iterator[World]:
    """Yield worlds: pods for random hardware."""
    for number in range(seed, seed + WORLDS):
        raw = MAKERS[kind](number)
        chance = Random(number)
        features = Features.of_gates(raw["gates"])
        classes = {"any": from_builtins(DeviceClass, {"metadata": {"name": "any"}, "spec": {}})}
        classes |= {each["metadata"]["name"]: from_builtins(DeviceClass, each) for each in raw["classes"]}
        metadata = raw["node"]["metadata"]
        node = AllocationNode(NODE, metadata["labels"], frozenset(raw["node"]["status"]["declaredFeatures"]))
        inventory = Inventory.of(from_builtins(ResourceSlice, each) for each in raw["slices"])
        held = [from_builtins(ResourceClaim, each) for each in raw["held"]]
        if chance.random() < 0.9:
            held = possible_holders(held, node, inventory, features)
        for claims in filter(None, (raw["claims"], *(random_claims(chance, kind) for _ in range(3)))):
            pod = [from_builtins(ResourceClaim, claim) for claim in claims]
            try:
                parsed = parse_claims(pod, classes, features, CelSelectors(), Meter())
            except Refusal:
                continue
            yield World(node, features, inventory, held, parsed)


def possible_holders(
    claims: Iterable[ResourceClaim], node: AllocationNode, inventory: Inventory, features: Features
) -> list[ResourceClaim]:
    """Return claims that leave no counter below zero."""
    held: list[ResourceClaim] = []
    for claim in claims:
        offers = iter_offers(node, inventory, InUse.of([*held, claim]), features)
        if not Supply(offers, features).overdrawn:
            held.append(claim)
    return held


def full_search(world: World, order: Order) -> object:
    """Return the rating and the devices, or the kind of the refusal."""
    offers = iter_offers(
        world.node, world.inventory, InUse.of(world.held), world.features, skips_devices=order.skips_devices
    )
    supply = Supply(offers, world.features)
    try:
        found = choose_devices(
            world.parsed, supply, world.node, world.features, order=order, meter=Meter(10_000_000)
        )
    except Refusal as refusal:
        return refusal.kind
    return found.rating, [(plan.subrequest, supply.devices[position].id) for plan, position in found.picks]


def small_search(world: World, order: Order) -> object:
    """Return the rating and the devices, or the kind of the refusal; None if it gives up."""
    node = BitNode(world.node, world.inventory, world.held, world.features, order)
    decided = node.decide(world.parsed)
    return "node" if decided is REFUSED else decided


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_on_random_nodes(order: Order, kind: str) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    answers: Counter[tuple[str, str]] = Counter()
    for world in worlds(seed, kind):
        decided, expected = small_search(world, order), full_search(world, order)
        assert decided is None or decided == expected, seed
        gave_up = "gave up" if decided is None else "decided"
        answers[gave_up, expected if isinstance(expected, str) else "placed"] += 1
    print(answers)
    if kind != "anything":
        assert answers["decided", "placed"] > answers["gave up", "placed"]
        assert answers["decided", "node"] > answers["gave up", "node"]
