"""Admin access to devices whose counters are used: Kubernetes refuses it, and `packed` grants it."""

from collections.abc import Sequence
from typing import Any

import pytest

from dradriver.allocator import ORDERED, PACKED, Features, Order, Refusal
from dradriver.allocator.placement import Placer
from dradriver.model.resource.claim import ClaimStatus, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, NODE, claim, devices, request, slice_, try_on

ON = Features(compatibility_groups=True)
SLOTS = {"value": "9", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}
EVERYTHING = request("all", allocationMode="All", adminAccess=True)


def card(*, share: bool = False) -> list[ResourceSlice]:
    """Return a GPU as a full device, as two MIG partitions that fill it, and as a vGPU."""

    def device(name: str, memory: str, *groups: str) -> dict[str, Any]:
        counters = {"memory": {"value": memory}}
        uses = {"counterSet": "gpu-0", "counters": counters, "compatibilityGroups": [*groups]}
        found: dict[str, Any] = {
            "name": name,
            "consumesCounters": [uses],
            "attributes": {"name": {"string": name}},
        }
        if share:
            found |= {"allowMultipleAllocations": True, "capacity": {"slots": SLOTS}}
        return found

    members = [
        device("gpu-0", "40Gi", "mig", "vgpu"),
        device("mig-0", "20Gi", "mig"),
        device("mig-1", "20Gi", "mig"),
        device("vgpu-0", "20Gi", "vgpu"),
    ]
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    return [slice_("devices", *members, count=2), slice_("counters", count=2, sharedCounters=counters)]


def named(name: str, **wish: Any) -> dict[str, Any]:
    return request(name, f"device.attributes['{DRIVER}'].name == '{name}'", **wish)


def held(*names: str) -> ResourceClaim:
    wanted = claim(*(named(name) for name in names), name="user")
    found = try_on(card(), wanted, features=ON)["user"]
    return ResourceClaim(metadata=wanted.metadata, status=ClaimStatus(allocation=found))


def got(
    *wanted: ResourceClaim, users: Sequence[ResourceClaim] = (), order: Order = PACKED, slices: Any = None
) -> list[str] | str:
    """Return the devices that the claims get, or the refusal."""
    try:
        return devices(try_on(slices or card(), *wanted, in_use=users, features=ON, order=order))
    except Refusal as refusal:
        return refusal.text()


@pytest.mark.parametrize("users", [[], [held("mig-0")], [held("mig-0", "mig-1")], [held("gpu-0")]])
def test_packed_gives_a_monitor_all_devices_even_those_in_use(users: list[ResourceClaim]) -> None:
    assert sorted(got(claim(EVERYTHING), users=users)) == ["gpu-0", "mig-0", "mig-1", "vgpu-0"]


def test_ordered_checks_counters_and_groups_as_kubernetes_does() -> None:
    refusal = got(claim(named("gpu-0", adminAccess=True)), users=[held("mig-0")], order=ORDERED)
    assert "counter memory of counter set gpu-0: 40Gi needed, 20Gi left" in refusal
    refusal = got(claim(named("vgpu-0", adminAccess=True)), users=[held("mig-0")], order=ORDERED)
    assert "counter set gpu-0 is used with compatibility groups mig, not vgpu" in refusal
    assert isinstance(got(claim(EVERYTHING), order=ORDERED), str)


def test_under_packed_a_monitor_takes_no_counters_from_the_same_pod() -> None:
    """The two partitions fill the card, and the monitor accesses the full card."""
    monitor, user = claim(EVERYTHING, name="monitor"), claim(named("mig-0"), named("mig-1"), name="user")
    found = got(user, monitor)
    assert (found[:2], sorted(found[2:])) == (["mig-0", "mig-1"], ["gpu-0", "mig-0", "mig-1", "vgpu-0"])


def test_a_device_that_an_earlier_claim_of_the_pod_monitors_is_taken_under_either_order() -> None:
    monitor, user = claim(EVERYTHING, name="monitor"), claim(named("mig-0"), name="user")
    assert "already chosen for another request of the pod" in got(monitor, user)


def test_a_shared_device_that_a_monitor_accesses_consumes_its_counters_with_the_first_share() -> None:
    monitor = claim(named("mig-0", adminAccess=True), name="monitor")
    pair = claim(named("mig-0"), named("vgpu-0"), name="user")
    assert "groups" in got(monitor, pair, slices=card(share=True))
    assert got(monitor, claim(named("mig-0"), name="user"), slices=card(share=True)) == ["mig-0", "mig-0"]


def test_a_placer_chooses_the_same_node_for_the_monitor() -> None:
    placer = Placer(order=PACKED, features=ON)
    placer.put_class(CLASSES["gpu"])
    placer.put_node(NODE)
    for each in card():
        placer.put_slice(each)
    placer.put_claim(held("mig-0", "mig-1"))
    assert placer.place([claim(EVERYTHING)]).node == NODE.name
