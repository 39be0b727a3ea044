"""After any history of a cluster, the placer decides about single nodes as `allocate()` does.

More clusters: `CLUSTERS=500 pytest ...`. `SEED` repeats a run.
"""

import os
from collections.abc import Mapping
from random import Random

import pytest

from dradriver.allocator import ORDERED, PACKED, CelSelectors, InUse, Inventory, Meter, Order, Refusal, allocate
from dradriver.allocator.device_choice import choose_devices, parse_claims
from dradriver.allocator.supply.node_supply import Supply, iter_offers
from dradriver.allocator.supply.order import Preference
from dradriver.model.resource.claim import Allocation, ResourceClaim
from tests.properties.allocator.clusters import Cluster
from tests.properties.allocator.random_clusters import MAKERS, make_cluster
from tests.seeds import choose_seed

CLUSTERS = int(os.environ.get("CLUSTERS", "1"))
EVENTS = 10

Answers = dict[str, tuple[Preference, Mapping[str, Allocation]]]


def answers(cluster: Cluster, pod: list[ResourceClaim]) -> Answers:
    """Return, for each node on which the claims fit, the rating and the allocations.

    Raises:
        Refusal: the claims are wrong, or the search gives up on a node.
    """
    inventory, in_use = Inventory.of(cluster.slices.values()), InUse.of(cluster.claims.values())
    wanted = parse_claims(pod, cluster.classes, cluster.features, CelSelectors(), Meter(cluster.budget))
    found: Answers = {}
    for name, node in cluster.nodes.items():
        skips = cluster.order.skips_devices
        offers = iter_offers(node, inventory, in_use, cluster.features, skips_devices=skips)
        try:
            supply = Supply(offers, cluster.features)
            chosen = choose_devices(
                wanted, supply, node, cluster.features, order=cluster.order, meter=Meter(cluster.budget)
            )
            allocated = allocate(
                pod, inventory, cluster.classes, in_use, node,
                features=cluster.features, order=cluster.order, meter=Meter(cluster.budget),
            )  # fmt: skip
        except Refusal as refusal:
            if refusal.kind != "node":
                raise
            continue
        found[name] = chosen.rating, allocated
    return found


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_each_node_and_the_preferred_node(order: Order, kind: str) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    for number in range(CLUSTERS):
        compare(make_cluster(seed + number, order, kind), Random(seed + number))


def compare(cluster: Cluster, chance: Random) -> None:
    for _ in range(EVENTS):
        cluster.apply_event()
    pod = cluster.pod()
    try:
        expected = answers(cluster, pod)
    except Refusal:
        return
    for name in cluster.nodes:
        rating_and_allocations = expected.get(name)
        allocations = None if rating_and_allocations is None else rating_and_allocations[1]
        assert cluster.placer.place_on(name, pod) == allocations, name
    if expected:
        preferred = chance.sample(sorted(cluster.nodes), len(cluster.nodes))
        best = min(expected, key=lambda name: (expected[name][0], preferred.index(name)))
        placement = cluster.placer.place(pod, preferred=preferred)
        assert (placement.node, placement.allocations) == (best, expected[best][1])
