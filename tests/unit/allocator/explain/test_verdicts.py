"""`verdict`: why a node suits claims or not, request by request."""

from collections.abc import Sequence

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, allocate
from dradriver.allocator.explain.verdicts import NodeVerdict, verdict
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
    return verdict(
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


def told(found: NodeVerdict) -> dict[str, list[str]]:
    return {each.request: [reason.in_full() for reason in each.reasons] for each in found.requests}


def test_each_request_has_its_own_answer() -> None:
    found = judged(
        [slice_("a", "x", "y")], claim(request("fine"), request("bad", "false"), request("all", count=9))
    )
    assert told(found) == {
        "fine": [],
        "bad": [
            "1 device is needed, 0 can be used",
            f"2 devices: selector 1 of the request is false ({DRIVER}/pool/x, {DRIVER}/pool/y)",
        ],
        "all": [],
    }
    assert [len(each.candidates) for each in found.requests] == [2, 0, 2]


def test_where_the_claims_fit_it_has_the_allocations() -> None:
    found = judged([slice_("a", "x", "y")], claim(request("gpu")))
    assert (found.refusal, [result.device for result in found.results]) == (None, ["x"])


def test_pools_that_cannot_be_used_are_told_apart_from_requests() -> None:
    found = judged([slice_("a", "x", count=2)], claim(request("gpu")))
    assert [reason.code for reason in found.pools] == ["pool-incomplete"]
    assert told(found) == {"gpu": ["1 device is needed, 0 can be used"]}


def test_alternatives_are_answered_one_by_one() -> None:
    large = {"name": "large", "deviceClassName": "gpu", "count": 3}
    small = {"name": "small", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": "false"}}]}
    found = judged([slice_("a", "x", "y")], claim({"name": "gpu", "firstAvailable": [large, small]}))
    assert set(told(found)) == {"gpu/large", "gpu/small"}
    assert "3 devices are needed, 2 can be used" in told(found)["gpu/large"]


def test_the_device_that_breaks_a_constraint_is_named() -> None:
    devices = [{"name": name, "attributes": {"numa": {"int": numa}}} for name, numa in (("x", 0), ("y", 1))]
    wanted = claim(
        request("one", f'device.attributes["{DRIVER}"].numa == 0'),
        request("two", f'device.attributes["{DRIVER}"].numa == 1'),
        constraints=[{"matchAttribute": f"{DRIVER}/numa"}],
    )
    found = judged([slice_("a", *devices)], wanted)
    assert (
        f"1 device: matchAttribute {DRIVER}/numa: the devices chosen before differ: {DRIVER}/pool/x "
        f"({DRIVER}/pool/y)"
    ) in [text for texts in told(found).values() for text in texts]


def test_a_counter_that_is_exhausted_has_its_numbers() -> None:
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0-mig-3g-20gb-0"}
    held = from_builtins(ResourceClaim, {"status": {"allocation": {"devices": {"results": [result]}}}})
    found = judged(a100(1), claim(request("whole", profile("7g.40gb"))), in_use=[held])
    assert (
        "1 device: counter copy-engines of counter set gpu-0-counter-set: 7 needed, 4 left "
        "(gpu.nvidia.com/node-1/gpu-0)"
    ) in told(found)["whole"]


def test_what_the_requests_exhaust_together_is_told_of_one_of_them() -> None:
    found = judged(a100(1), claim(request("three", profile("3g.20gb")), request("whole", profile("7g.40gb"))))
    assert any("the requests need at least" in text for texts in told(found).values() for text in texts)
