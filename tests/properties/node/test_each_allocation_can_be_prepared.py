"""The conflict check of a node accepts each allocation of both orders, including admin access."""

import dataclasses

import pytest

from dradriver.allocator import ORDERED, PACKED, Order
from dradriver.model.resource.claim import DeviceId
from dradriver.node.claims.conflicts import find_conflicts, find_unknowns
from dradriver.node.state.records import DeviceHold, HoldingClaim
from tests.conformance.allocator.brute_force import World
from tests.properties.allocator.test_search_agrees_with_brute_force import run_search, tight


def holders(
    found: list[tuple[str, str, tuple[str, str, str]]], admin: set[tuple[str, str]], world: World
) -> list[HoldingClaim]:
    consumed = {each.name: each.device.consumes_counters for each in world.offered}
    by_claim: dict[str, list[DeviceHold]] = {}
    for claim, request, name in found:
        hold = DeviceHold(DeviceId(*name), (claim, request) in admin, consumed[name])
        by_claim.setdefault(claim, []).append(hold)
    return [HoldingClaim(claim, holds) for claim, holds in by_claim.items()]


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_each_allocation_can_be_prepared(order: Order) -> None:
    looked = 0
    for seed in range(7000, 7150):
        world, wanted = tight(seed)
        world = dataclasses.replace(world, admin_consumes=order.admin_consumes)
        found = run_search(wanted, world, order)
        admin = {
            (c.metadata.uid, r.name)
            for c in wanted
            for r in c.spec.devices.requests
            if r.exactly and r.exactly.admin_access
        }
        sets = {
            (source.spec.pool.name, each.name): each
            for source in world.slices
            for each in source.spec.shared_counters
        }
        prepared = holders([("holder", "r", name) for name in sorted(world.held)], set(), world)
        for holder in holders(found or [], admin, world):
            assert [*find_conflicts(holder, prepared, sets), *find_unknowns(holder, prepared, sets)] == [], seed
            prepared.append(holder)
            looked += sum(hold.admin_access for hold in holder.holds)
    assert looked > 10
