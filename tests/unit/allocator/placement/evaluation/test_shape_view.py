"""The independent parts of claims on a node that sees pools of its own and shared pools."""

from typing import Any

import pytest

from dradriver.allocator import Features
from dradriver.allocator.meter import DEVICES
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.shape_view import Part, ShapeView, view_shape
from tests.unit.allocator.placement.fleets import evaluator_of, fleet_of, gpu, own, parsed, reads, shared
from tests.unit.allocator.worlds import DRIVER, Json, request

NEAR = reads("place", "== 'near'")
FAR = reads("place", "== 'far'")
ONE = request("one", NEAR)
OTHER = request("other", FAR)
EITHER = request("either")


def view(*requests: Json, with_shared: bool = True, **fields: Any) -> ShapeView:
    """Return the claim with these requests on a node with a near device and a far device."""
    slices = [own("a", *(gpu(f"x{n}", place="near", rack="r") for n in range(2)))]
    slices += [shared(gpu("y", place="far", rack="r"))] if with_shared else []
    fleet = fleet_of(*slices)
    member, evaluator = fleet.members["a"], evaluator_of(fleet)
    return view_shape(
        parsed(*requests, **fields),
        NodeSignature(0, member.entries, member.outlook),
        member.node,
        evaluator.candidate_masks,
        evaluator.layout,
        Features(),
    )


def names(part: Part | None) -> list[str] | None:
    """Return the requests of a part."""
    return None if part is None else [each.name for each in part.parsed.requests]


def parts(found: ShapeView) -> tuple[list[str] | None, list[str] | None, bool]:
    return names(found.own), names(found.shared), found.is_whole


def match(*requests: str) -> dict[str, Any]:
    return {"constraints": [{"matchAttribute": f"{DRIVER}/rack", "requests": list(requests)}]}


def test_requests_for_own_and_for_shared_devices_are_independent() -> None:
    assert parts(view(ONE)) == (["one"], None, False)
    assert parts(view(OTHER)) == ([], ["other"], False)
    assert parts(view(OTHER, ONE)) == (["one"], ["other"], False)


def test_each_part_has_only_the_pools_that_serve_it() -> None:
    found = view(ONE, OTHER)
    assert found.shared is not None
    assert sorted((*found.own.positions, *found.shared.positions)) == [0, 1]
    assert [found.own.plain is None, found.shared.plain is None] == [False, False]


def test_a_request_that_own_and_shared_devices_can_serve_keeps_the_claims_whole() -> None:
    assert parts(view(EITHER)) == (["either"], None, True)
    assert parts(view(ONE, EITHER)) == (["one", "either"], None, True)


def test_without_shared_pools_nothing_is_divided() -> None:
    assert parts(view(ONE, EITHER, with_shared=False)) == (["one", "either"], None, False)


def test_a_request_without_candidates_belongs_to_the_own_part() -> None:
    found = view(request("lost", reads("place", "== 'lost'")), OTHER)
    assert parts(found) == (["lost"], ["other"], False)
    assert not found.own.can_fit


@pytest.mark.parametrize("requests", [(), ("one", "other")], ids=["all requests", "both requests"])
def test_a_constraint_on_both_parts_keeps_the_claims_whole(requests: tuple[str, ...]) -> None:
    assert parts(view(ONE, OTHER, **match(*requests))) == (["one", "other"], None, True)


def test_a_constraint_on_one_part_divides_the_claims() -> None:
    assert parts(view(ONE, OTHER, **match("one"))) == (["one"], ["other"], False)


def alternatives(name: str, expression: str, *counts: int) -> Json:
    """Return a request for one of these numbers of devices."""
    selectors = [{"cel": {"expression": expression}}]
    fields: Json = {"deviceClassName": "gpu", "selectors": selectors}
    return {
        "name": name,
        "firstAvailable": [{"name": f"n{count}", "count": count, **fields} for count in counts],
    }


def test_the_claims_stay_whole_if_the_limit_of_results_may_join_the_parts() -> None:
    assert parts(view(alternatives("one", NEAR, 31, 1), OTHER)) == (["one"], ["other"], False)
    assert parts(view(alternatives("one", NEAR, 32, 1), OTHER)) == (["one", "other"], None, True)


@pytest.mark.parametrize("fields", [{"allocationMode": "All"}, {"adminAccess": True}], ids=str)
def test_only_the_full_search_decides_all_devices_and_admin_access(fields: Json) -> None:
    found = view(request("one", NEAR, **fields))
    assert parts(found) == (["one"], None, True)
    assert found.own.plain is None
    assert found.own.bits is None


def test_a_selector_that_may_fail_keeps_the_claims_whole() -> None:
    found = view(request("one", reads("lost", "== 'x'")))
    assert found.fails
    assert parts(found) == (["one"], None, True)


def test_the_values_of_a_constraint_count_as_work() -> None:
    spent = []
    for constraints in ([], [{"matchAttribute": f"{DRIVER}/rack"}]):
        fleet = fleet_of(own("a", *(gpu(f"x{n}", rack="r") for n in range(100))))
        member, evaluator = fleet.members["a"], evaluator_of(fleet)
        view_shape(
            parsed(request(count=2), constraints=constraints),
            NodeSignature(0, member.entries, member.outlook),
            member.node,
            evaluator.candidate_masks,
            evaluator.layout,
            Features(),
        )
        spent.append(evaluator.candidate_masks.meter.spent.get(DEVICES, 0))
    assert spent[1] >= spent[0] + 100 * DEVICES.nanoseconds
