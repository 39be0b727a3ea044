"""What a driver returns is checked, and becomes an allocation that the API server and kubelets accept."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import dradriver as dra
from dradriver.classic.results import build_allocation, check_allocated, check_uids, check_unsuitable
from dradriver.cluster.rules import find_problems
from dradriver.model.classic.controlled_claims import ControlledClaim, ControlledRequest, resolve
from dradriver.model.classic.handles import join_handle
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import canonical, from_builtins
from dradriver.model.resource.claim import Allocation, ClaimStatus, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from tests.unit.classic.shelf import CLASS, PLUGIN, claim_of, class_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOT = dra.ControllerDevice("slot", PLUGIN, "shelf.example.com/node-1", "slot-1")
NIC = dra.ControllerDevice("slot", "nic.example.com", "nics", "nic-1")
PENDING = dra.PendingClaim("uid-1", "default", "claim-1")


def controlled(
    claim: dict[str, Any] | None = None, device_class: dict[str, Any] | None = None
) -> ControlledClaim:
    made = from_builtins(ResourceClaim, claim or claim_of(), "claim")
    meta = msgspec.structs.replace(made.metadata, uid="4f6a5f0e-0000-4000-8000-000000000001")
    found = resolve(msgspec.structs.replace(made, metadata=meta), classes(device_class))
    assert found is not None
    assert isinstance(found.requests[0], ControlledRequest)
    return found


def classes(device_class: dict[str, Any] | None = None) -> dict[str, DeviceClass]:
    return {CLASS: from_builtins(DeviceClass, device_class or class_of(), "class")}


def build(*devices: dra.ControllerDevice, of: ControlledClaim | None = None, **result: Any) -> Allocation:
    made = dra.ControllerAllocationResult(devices, **result)
    return build_allocation(of or controlled(), made, "node-1", NOW, classes())


def problems_of(*devices: dra.ControllerDevice, **result: Any) -> list[str]:
    with pytest.raises(dra.InvalidObjectError) as refused:
        build(*devices, **result)
    return [str(each) for each in refused.value.problems]


def test_a_claim_with_two_kubelet_plugins_has_a_handle_for_each() -> None:
    """The N3000's combined setup: an FPGA block and a network interface in one claim."""
    of = controlled()
    allocation = build(SLOT, NIC, of=of, handles={PLUGIN: b"block", "nic.example.com": b"x" * 16384})
    uid = of.claim.metadata.uid
    for driver, data in ((PLUGIN, b"block"), ("nic.example.com", b"x" * 16384)):
        handle = join_handle(allocation.devices.config, driver, uid)
        assert handle is not None
        assert (handle.data, handle.shareable) == (data, False)
    written = msgspec.structs.replace(of.claim, status=ClaimStatus(allocation=allocation))
    assert list(find_problems("ResourceClaim", canonical(written))) == []


def test_a_node_bound_result_selects_exactly_the_node() -> None:
    assert build(SLOT).node_selector == NodeSelector.for_node("node-1")
    assert build(SLOT, on_any_node=True).node_selector is None
    zone = NodeSelector(
        [dra.NodeSelectorTerm(match_expressions=[dra.NodeSelectorRequirement("zone", "Exists")])]
    )
    assert build(SLOT, node_selector=zone).node_selector == zone


def test_an_empty_allocation_is_allowed() -> None:
    allocation = build()
    assert (allocation.devices.results, allocation.devices.config) == ([], [])
    assert allocation.allocation_timestamp == NOW


def test_a_shareable_claim_says_so_in_a_handle_of_each_plugin() -> None:
    of = controlled()
    config = build(SLOT, NIC, of=of, shareable=True).devices.config
    handles = [join_handle(config, driver, of.claim.metadata.uid) for driver in (PLUGIN, "nic.example.com")]
    assert [(each.data, each.shareable) for each in handles if each] == [(b"", True), (b"", True)]


def test_opaque_configuration_for_the_plugins_is_copied_around_the_handles() -> None:
    for_plugin = {"opaque": {"driver": PLUGIN, "parameters": {"kind": "Mine"}}}
    claim, device_class = claim_of(), class_of()
    claim["spec"]["devices"]["config"].append({**for_plugin, "requests": ["slot"]})
    device_class["spec"]["config"].append(for_plugin)
    of = controlled(claim, device_class)
    made = dra.ControllerAllocationResult([SLOT], {PLUGIN: b"h"})
    allocation = build_allocation(of, made, "node-1", NOW, classes(device_class))
    found = [
        (each.source, each.requests, b"Mine" in bytes(each.opaque.parameters))
        for each in allocation.devices.config
        if each.opaque
    ]
    assert found == [
        ("FromClass", ["slot"], True),
        ("FromClass", [], False),
        ("FromClaim", ["slot"], True),
    ]


def test_all_problems_of_a_result_are_listed() -> None:
    wrong = dra.ControllerDevice("other", "Plugin", "pool", "Slot")
    request, driver, name, twice = problems_of(wrong, SLOT, SLOT)
    assert request == "devices[0].request: 'other' must be a request of the claim: slot"
    assert driver.startswith("devices[0].driver: 'Plugin' is not a DNS subdomain")
    assert name.startswith("devices[0].name: 'Slot' is not a DNS label")
    assert twice == "devices[2]: is in the result twice"


def test_a_handle_needs_a_device_and_has_a_maximum_size() -> None:
    assert problems_of(SLOT, handles={"nic.example.com": b"", PLUGIN: b"x" * 16385}) == [
        "handles[nic.example.com]: has no device in the result, so its kubelet plugin is not called",
        f"handles[{PLUGIN}]: 16385 bytes: must be at most 16384 bytes",
    ]


def test_more_devices_than_the_api_server_accepts_are_refused() -> None:
    many = [dra.ControllerDevice("slot", PLUGIN, "pool", f"slot-{number}") for number in range(33)]
    assert problems_of(*many) == ["devices: 33 devices: must be at most 32"]


@pytest.mark.parametrize(
    "selector",
    [
        NodeSelector.for_node("node-2"),
        NodeSelector(),
        NodeSelector(
            [
                dra.NodeSelectorTerm(
                    match_expressions=[dra.NodeSelectorRequirement("zone", "Exists")],
                    match_fields=[dra.NodeSelectorRequirement("metadata.name", "In", ["node-2"])],
                )
            ]
        ),
    ],
    ids=["another node", "no node", "another node with a label"],
)
def test_a_selector_must_select_the_selected_node(selector: NodeSelector) -> None:
    """Otherwise the claim is allocated, and the pod never runs."""
    rule = "node_selector: must select the node node-1, for which the claim is allocated"
    assert problems_of(SLOT, node_selector=selector) == [rule]
    made = dra.ControllerAllocationResult([SLOT], node_selector=selector)
    assert build_allocation(controlled(), made, None, NOW, classes()).node_selector == selector


def test_a_selector_and_any_node_exclude_each_other() -> None:
    zone = NodeSelector.for_node("node-2")
    rule = "on_any_node: must not be True together with node_selector"
    assert problems_of(SLOT, on_any_node=True, node_selector=zone) == [rule]


def test_a_claim_that_is_missing_from_the_result_was_not_allocated() -> None:
    result = check_allocated("d", {}, [PENDING])["uid-1"]
    assert isinstance(result, dra.AllocationError)
    assert str(result) == "allocate() returned no result for the claim"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "NoneType, must be a mapping by UID of the claim"),
        ([], "list, must be a mapping by UID of the claim"),
        (
            {"uid-2": dra.ControllerAllocationResult()},
            "a result for 'uid-2', which is the UID of no given claim",
        ),
        ({"uid-1": True}, "True for claim default/claim-1 (UID uid-1), must be a ControllerAllocationResult"),
    ],
)
def test_a_wrong_value_of_allocate_is_an_error(returned: object, message: str) -> None:
    with pytest.raises(dra.DriverError) as refused:
        check_allocated("d", returned, [PENDING])
    assert f"driver d: allocate() returned {message}" in str(refused.value)


def test_unsuitable_nodes_keep_the_order_of_the_question() -> None:
    found = check_unsuitable("d", {"uid-1": {"c", "a", "elsewhere"}}, [PENDING], ["a", "b", "c"])
    assert found == {"uid-1": ["a", "c"]}
    assert check_unsuitable("d", {}, [PENDING], ["a"]) == {"uid-1": []}


@pytest.mark.parametrize("returned", [None, {"uid-1": "node-1"}, {"uid-1": None}, {"other": []}])
def test_a_wrong_value_of_unsuitable_nodes_is_an_error(returned: object) -> None:
    with pytest.raises(dra.DriverError, match=r"driver d: unsuitable_nodes\(\) returned"):
        check_unsuitable("d", returned, [PENDING], ["node-1"])


@pytest.mark.parametrize("returned", ["uid", {"uid": 1}, 3, [""], [4]])
def test_a_wrong_value_of_allocations_is_an_error(returned: object) -> None:
    with pytest.raises(dra.DriverError, match=r"driver d: allocations\(\) returned"):
        check_uids("d", returned)


def test_a_driver_without_a_record_has_no_leftovers() -> None:
    assert check_uids("d", None) == set()
    assert check_uids("d", iter(["a", "b"])) == {"a", "b"}
