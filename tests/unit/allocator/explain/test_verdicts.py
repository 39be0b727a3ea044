"""`explain_allocation`: why a node suits claims or not, request by request."""

from collections.abc import Sequence

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, allocate
from dradriver.allocator.explain.verdicts import NodeVerdict, explain_allocation
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, a100, claim, profile, request, slice_


def judged(
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    in_use: Sequence[ResourceClaim] = (),
    features: Features | None = None,
) -> NodeVerdict:
    return explain_allocation(
        lambda reporter: allocate(
            claims,
            Inventory.of(slices),
            CLASSES,
            InUse.of(in_use),
            AllocationNode("node-1"),
            reporter=reporter,
            features=features or Features(),
        )
    )


def texts_of(verdict: NodeVerdict) -> dict[str, list[str]]:
    return {each.request: [reason.full_text() for reason in each.reasons] for each in verdict.requests}


def test_each_request_has_its_own_verdict() -> None:
    verdict = judged(
        [slice_("a", "x", "y")], claim(request("fine"), request("bad", "false"), request("all", count=9))
    )
    assert texts_of(verdict) == {
        "fine": [],
        "bad": [
            "1 device is needed, 0 can be used",
            f"2 devices: selector 1 of the request is false ({DRIVER}/pool/x, {DRIVER}/pool/y)",
        ],
        "all": [],
    }
    assert [len(each.candidates) for each in verdict.requests] == [2, 0, 2]


def test_the_verdict_has_the_allocations_if_the_claims_fit() -> None:
    verdict = judged([slice_("a", "x", "y")], claim(request("gpu")))
    assert (verdict.refusal, [result.device for result in verdict.results]) == (None, ["x"])


def test_unusable_pools_are_reported_apart_from_requests() -> None:
    verdict = judged([slice_("a", "x", count=2)], claim(request("gpu")))
    assert [reason.code for reason in verdict.pools] == ["pool-incomplete"]
    assert texts_of(verdict) == {"gpu": ["1 device is needed, 0 can be used"]}


def test_each_alternative_has_its_own_verdict() -> None:
    large = {"name": "large", "deviceClassName": "gpu", "count": 3}
    small = {"name": "small", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": "false"}}]}
    verdict = judged([slice_("a", "x", "y")], claim({"name": "gpu", "firstAvailable": [large, small]}))
    assert set(texts_of(verdict)) == {"gpu/large", "gpu/small"}
    assert "3 devices are needed, 2 can be used" in texts_of(verdict)["gpu/large"]


def test_the_device_that_breaks_a_constraint_is_named() -> None:
    devices = [{"name": name, "attributes": {"numa": {"int": numa}}} for name, numa in (("x", 0), ("y", 1))]
    wanted = claim(
        request("one", f'device.attributes["{DRIVER}"].numa == 0'),
        request("two", f'device.attributes["{DRIVER}"].numa == 1'),
        constraints=[{"matchAttribute": f"{DRIVER}/numa"}],
    )
    verdict = judged([slice_("a", *devices)], wanted)
    assert (
        f"1 device: matchAttribute {DRIVER}/numa: the devices chosen before differ: {DRIVER}/pool/x "
        f"({DRIVER}/pool/y)"
    ) in [text for texts in texts_of(verdict).values() for text in texts]


def test_an_exhausted_counter_is_reported_with_its_numbers() -> None:
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0-mig-3g-20gb-0"}
    held = from_builtins(ResourceClaim, {"status": {"allocation": {"devices": {"results": [result]}}}})
    verdict = judged(a100(1), claim(request("whole", profile("7g.40gb"))), in_use=[held])
    assert (
        "1 device: counter copy-engines of counter set gpu-0-counter-set: 7 needed, 4 left "
        "(gpu.nvidia.com/node-1/gpu-0)"
    ) in texts_of(verdict)["whole"]


def test_a_counter_that_the_requests_exhaust_together_is_reported_for_one_of_them() -> None:
    verdict = judged(a100(1), claim(request("three", profile("3g.20gb")), request("whole", profile("7g.40gb"))))
    assert any("the requests need at least" in text for texts in texts_of(verdict).values() for text in texts)
