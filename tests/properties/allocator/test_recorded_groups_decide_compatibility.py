"""Recorded groups of claims decide which devices can join a counter set; without a record, the slices do."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any

import pytest

from dradriver.allocator import ORDERED, PACKED, Features, Order, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import (
    Allocation,
    ClaimStatus,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.recorded_groups import record_groups_in_config
from dradriver.model.resource.slices import ResourceSlice
from tests.seeds import choose_seed
from tests.unit.allocator.worlds import CLASSES, DRIVER, NODE, claim, devices, request, slice_, try_on

SETS = ("gpu-0", "gpu-1")
DEVICES = tuple(f"dev-{number}" for number in range(5))
NONE = ("",)
"""Stands for no groups: they go with others that have none only."""

Groups = Mapping[str, Sequence[str]]
"""By counter set."""


def some(chance: Random) -> list[str]:
    return chance.choice(([], [], ["mig"], ["vgpu"], ["mig", "vgpu"]))


def some_sets(chance: Random) -> dict[str, list[str]]:
    return {name: some(chance) for name in chance.sample(SETS, chance.choice((1, 1, 2)))}


def published(now: Mapping[str, Groups]) -> list[ResourceSlice]:
    members = [
        {
            "name": name,
            "attributes": {"name": {"string": name}},
            "consumesCounters": [
                {"counterSet": each, "counters": {"parts": {"value": "1"}}, "compatibilityGroups": groups}
                for each, groups in sets.items()
            ],
        }
        for name, sets in now.items()
    ]
    counters = [{"name": name, "counters": {"parts": {"value": "9"}}} for name in SETS]
    return [slice_("devices", *members, count=2), slice_("counters", count=2, sharedCounters=counters)]


def holder(number: int, held: Mapping[str, Groups], *, in_config: bool) -> ResourceClaim:
    """Return a claim with these devices and recorded groups; both forms of the record mean the same."""
    results = [
        DeviceResult(
            request="r", driver=DRIVER, pool="pool", device=device,
            compatibility_groups={name: list(groups) for name, groups in recorded.items()},
        )
        for device, recorded in held.items()
    ]  # fmt: skip
    allocation = Allocation(devices=DeviceAllocation(results=results))
    return ResourceClaim(
        metadata=ObjectMeta(name=f"held-{number}", namespace="default"),
        status=ClaimStatus(allocation=record_groups_in_config(allocation) if in_config else allocation),
    )


def can_join(candidate: Groups, now: Mapping[str, Groups], held: Sequence[Mapping[str, Groups]]) -> bool:
    """Return the rule's result: all users of a counter set share a group."""
    users: dict[str, list[Sequence[str]]] = {name: [groups] for name, groups in candidate.items()}
    for of_claim in held:
        has_record = any(of_claim.values())
        for device, recorded in of_claim.items():
            live = now.get(device, {})
            used = {**dict.fromkeys(live, ()), **recorded} if has_record else live
            for name, groups in used.items():
                users.setdefault(name, []).append(groups)
    return all(set.intersection(*(set(groups or NONE) for groups in users[name])) for name in candidate)


def is_allocated(
    slices: Sequence[ResourceSlice], name: str, held: Sequence[ResourceClaim], order: Order, on: bool
) -> bool:
    """Return whether the device is allocated; `allocate` and a placer must agree."""
    features = Features(compatibility_groups=on)
    wanted = claim(request(expression=f"device.attributes['{DRIVER}'].name == '{name}'"))
    placer = Placer(order=order, features=features)
    placer.put_class(CLASSES["gpu"])
    placer.put_node(NODE)
    for each in slices:
        placer.put_slice(each)
    for user in held:
        placer.put_claim(user)
    try:
        found = devices(try_on(slices, wanted, in_use=held, features=features, order=order)) == [name]
    except Refusal:
        found = False
    try:
        placed = placer.place([wanted]).node == NODE.name
    except NoNodeFits:
        placed = False
    assert found is placed
    return found


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_recorded_groups_decide_compatibility(order: Order) -> None:
    seed = choose_seed()
    print(f"SEED={seed}")
    answers: Counter[bool] = Counter()
    for number in range(int(os.environ.get("GROUPS", "80"))):
        chance = Random(seed + number)
        on = chance.random() < 0.6
        now: dict[str, Any] = {name: some_sets(chance) for name in DEVICES if chance.random() < 0.9}
        if not on:  # the API server drops the groups of newly written slices
            now = {name: {each: [] for each in sets} for name, sets in now.items()}
        taken = chance.sample(DEVICES, chance.randint(1, 3))
        cut = chance.randint(0, len(taken))
        held = [
            {name: some_sets(chance) if records and chance.random() < 0.7 else {} for name in names}
            for names in (taken[:cut], taken[cut:])
            for records in [chance.random() < 0.7]
        ]
        claims = [holder(at, each, in_config=chance.random() < 0.5) for at, each in enumerate(held)]
        # There are enough counters, so only groups decide about each free device.
        for name in set(now) - set(chain.from_iterable(held)):
            expected = can_join(now[name], now, held)
            assert is_allocated(published(now), name, claims, order, on) is expected, (seed + number, name)
            answers[expected] += 1
    assert min(answers.values()) > 10, answers
