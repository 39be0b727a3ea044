"""Refusals: their data and their texts."""

import pytest

from dradriver.allocator import Features, Reason, Refusal
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import (
    Allocation,
    ClaimStatus,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import DRIVER, a100, claim, profile, request, slice_, try_on


def refusal(slices: list[ResourceSlice], *claims: ResourceClaim, **options: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        try_on(slices, *claims, **options)  # type: ignore[arg-type]
    return caught.value


def test_the_sentence_is_short_and_the_text_is_complete() -> None:
    found = refusal([slice_("a", *(f"gpu-{n}" for n in range(6)))], claim(request(expression="false", count=2)))
    assert str(found) == "cannot allocate all claims"
    assert found.text().splitlines() == [
        "node node-1, claim default/claim, request gpu: cannot allocate all claims",
        "  2 devices are needed, 0 can be used",
        f"  6 devices: selector 1 of the request is false ({DRIVER}/pool/gpu-0, {DRIVER}/pool/gpu-1, "
        f"{DRIVER}/pool/gpu-2, {DRIVER}/pool/gpu-3 and 2 more)",
    ]


def test_reasons_are_data() -> None:
    found = refusal([slice_("a", "x", "y")], claim(request(expression="false")))
    assert (found.kind, found.claim, found.request, found.node) == ("node", "default/claim", "gpu", "node-1")
    assert [(r.code, [d.device for d in r.devices]) for r in found.reasons] == [
        ("too-few", []),
        ("selector", ["x", "y"]),
    ]


def test_the_holder_of_a_device_is_named() -> None:
    result = DeviceResult(request="r", driver=DRIVER, pool="pool", device="x")
    holder = ResourceClaim(
        metadata=ObjectMeta(name="holder", namespace="other"),
        status=ClaimStatus(allocation=Allocation(devices=DeviceAllocation(results=[result]))),
    )
    found = refusal([slice_("a", "x")], claim(request()), in_use=[holder])
    assert "1 device: in use by claim other/holder" in found.text()


def test_the_brief_text_names_no_claim_if_several_claims_hold_devices() -> None:
    holders = [
        ResourceClaim(
            metadata=ObjectMeta(name=f"holder-{device}", namespace="other"),
            status=ClaimStatus(
                allocation=Allocation(
                    devices=DeviceAllocation(
                        results=[DeviceResult(request="r", driver=DRIVER, pool="pool", device=device)]
                    )
                )
            ),
        )
        for device in "xy"
    ]
    one, both = (
        refusal([slice_("a", "x", "y")], claim(request(count=2)), in_use=used)
        for used in (holders[:1], holders)
    )
    assert "1 device: in use by claim other/holder-x" in one.brief()
    assert "2 devices: in use by other claims" in both.brief()


def test_the_brief_text_begins_with_the_most_informative_reason() -> None:
    reasons = [Reason("selector", "a"), Reason("node", "b"), Reason("too-few", "c"), Reason("counter", "d")]
    assert Refusal("node", "no", reasons=reasons).brief() == "no: d; c; a"


@pytest.mark.parametrize("name", ["x", "x" * 300])
def test_the_brief_text_is_bounded(name: str) -> None:
    found = Refusal(
        "node", "cannot allocate all claims", claim=f"default/{name}", reasons=[Reason("counter", name)]
    )
    assert found.brief().startswith("cannot allocate all claims: claim default/x")
    assert len(found.brief()) <= 240


def test_the_request_to_blame_is_the_one_that_no_device_satisfies() -> None:
    found = refusal([slice_("a", "x", "y")], claim(request("fine"), request("bad", "false")))
    assert found.request == "bad"


def test_a_counter_that_the_requests_exhaust_together_is_named_with_its_numbers() -> None:
    wanted = [request("four", profile("4g.20gb")), *(request(f"two-{n}", profile("2g.10gb")) for n in range(2))]
    found = refusal(a100(1), claim(*wanted))
    assert (
        "counter copy-engines: the requests need at least 8 together, 7 is left in all counter sets"
        in found.text()
    )


def test_devices_chosen_before_are_a_separate_obstacle() -> None:
    wanted = [request("three", profile("3g.20gb")), request("whole", profile("7g.40gb"))]
    blocked = refusal(a100(1), claim(*wanted), features=Features())
    assert "counter" in {reason.code for reason in blocked.reasons}


def test_a_reason_in_the_sentence_is_not_repeated() -> None:
    found = refusal([slice_("a", "gpu-0")], claim(request(count=99)))
    assert found.text().count(found.claim) == 1


def test_binding_conditions_without_their_gate_are_named() -> None:
    waiting = {"name": "x", "bindingConditions": ["a/b"], "bindingFailureConditions": ["a/c"]}
    found = refusal([slice_("a", waiting)], claim(request()), features=Features(binding_conditions=False))
    assert "1 device: has binding conditions and DRADeviceBindingConditions is off" in found.text()


@pytest.mark.parametrize(
    ("features", "wish", "gate"),
    [
        (Features(admin_access=False), request(adminAccess=True), "DRAAdminAccess"),
        (
            Features(prioritized_list=False),
            {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
            "DRAPrioritizedList",
        ),
    ],
)
def test_a_request_of_a_feature_that_is_off_is_wrong(
    features: Features, wish: dict[str, object], gate: str
) -> None:
    found = refusal([slice_("a", "x")], claim(wish), features=features)
    assert found.kind == "claim"
    assert f"but the {gate} feature is disabled" in str(found)


def test_an_unknown_constraint_is_wrong() -> None:
    found = refusal([slice_("a", "x")], claim(request(), constraints=[{"requests": ["gpu"]}]))
    assert (found.kind, str(found)) == (
        "claim",
        "claim default/claim, constraint 1: empty constraint (unsupported constraint type?)",
    )


def test_all_of_more_than_a_claim_can_hold_does_not_fit_here() -> None:
    crowd = slice_("a", *(f"gpu-{n}" for n in range(33)))
    found = refusal([crowd], claim(request(allocationMode="All")))
    assert found.kind == "node"
    assert "number of requested devices 33 exceeds the claim limit of 32" in str(found)


def test_a_selector_error_behind_a_request_that_fails_is_not_reported() -> None:
    """Kubernetes' search would not reach this device, and on another node the error may not matter."""
    odd = slice_("a", "x", "y")
    found = refusal(
        [odd], claim(request("none", "false"), request("odd", "device.attributes['d.example.com'].a == 1"))
    )
    assert (found.kind, found.request) == ("node", "none")


def test_a_counter_is_described_that_a_pool_without_devices_here_has_too() -> None:
    def counters(pool: str, amount: str) -> ResourceSlice:
        sets = [{"name": "set", "counters": {"cores": {"value": amount}}}]
        return slice_(f"{pool}-counters", pool=pool, count=2, sharedCounters=sets)

    consumes = [{"counterSet": "set", "counters": {"cores": {"value": "3"}}}]
    devices = [{"name": name, "consumesCounters": consumes} for name in "xy"]
    slices = [
        counters("a", "0"),
        slice_("elsewhere", *devices, pool="a", count=2, nodeName="node-2"),
        counters("b", "5"),
        slice_("here", *devices, pool="b", count=2),
    ]
    found = refusal(slices, claim(request(count=2)))
    assert "counter cores: the requests need at least 6 together, 5 is left in all counter sets" in found.text()
