"""Of two claims with one device, exactly one gives way."""

import pytest

from dradriver.control.conflicts.double_allocations import (
    DoubleAllocation,
    find_double_allocation,
    precedence,
)
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conflicts.allocations import held_by, held_claim, share

DEVICE = f"device {builders.DRIVER}/{builders.NODE}/device-0"


def losers(*claims: ResourceClaim, bound: tuple[str, ...] = ()) -> dict[str, DoubleAllocation]:
    """Return the claims that must give way, by name."""
    holders = held_by(claims)
    found = {
        claim.metadata.name: find_double_allocation(
            claim, holders, lambda each: precedence(each, is_bound=each.metadata.name in bound)
        )
        for claim in claims
    }
    return {name: conflict for name, conflict in found.items() if conflict is not None}


def test_the_newer_allocation_gives_way() -> None:
    older, newer = held_claim("b", "device-0", seconds=1), held_claim("a", "device-0", seconds=2)
    expected = {"a": DoubleAllocation(DEVICE, "default/b")}
    assert losers(older, newer) == losers(newer, older) == expected
    assert str(expected["a"]) == f"{DEVICE} is also allocated to claim default/b, which takes precedence"


@pytest.mark.parametrize("seconds", [0, None])
def test_the_uid_decides_between_equal_timestamps(seconds: int | None) -> None:
    one, other = held_claim("a", "device-0", seconds=seconds), held_claim("b", "device-0", seconds=seconds)
    assert list(losers(one, other)) == list(losers(other, one)) == ["b"]


def test_an_allocation_without_a_timestamp_counts_as_old() -> None:
    assert list(losers(held_claim("b", "device-0", seconds=None), held_claim("a", "device-0"))) == ["a"]


def test_a_claim_whose_pod_is_bound_keeps_its_device_even_if_its_allocation_is_newer() -> None:
    older, newer = held_claim("a", "device-0", seconds=1), held_claim("b", "device-0", seconds=2)
    assert losers(older, newer, bound=("b",)) == {"a": DoubleAllocation(DEVICE, "default/b")}


def test_of_two_bound_claims_the_newer_one_is_marked_as_bound() -> None:
    older, newer = held_claim("a", "device-0", seconds=1), held_claim("b", "device-0", seconds=2)
    expected = {"b": DoubleAllocation(DEVICE, "default/a", is_bound=True)}
    assert losers(older, newer, bound=("a", "b")) == expected


def test_shares_of_one_device_do_not_conflict() -> None:
    assert not losers(held_claim("a", share("device-0", "s1")), held_claim("b", share("device-0", "s2")))


@pytest.mark.parametrize("other", [share("device-0", "s1"), share("device-0")])
def test_a_share_conflicts_with_the_same_share_and_with_the_whole_device(other: DeviceResult) -> None:
    assert list(losers(held_claim("a", share("device-0", "s1")), held_claim("b", other))) == ["b"]


def test_admin_access_conflicts_with_nothing() -> None:
    monitor = held_claim("b", share("device-0", admin_access=True))
    assert not losers(held_claim("a", "device-0"), monitor, held_claim("c", "device-1"))


def test_two_devices_of_one_claim_do_not_conflict() -> None:
    assert not losers(held_claim("a", share("device-0", "s1"), share("device-0", "s1")))


def test_no_device_is_kept_by_two_of_many_claims() -> None:
    claims = [held_claim(f"c{i}", f"device-{i}", f"device-{i + 1}", seconds=i % 3) for i in range(8)]
    lost = losers(*claims, bound=("c4",))
    kept = [r.id for claim in claims if claim.metadata.name not in lost for r in claim.results]
    assert len(kept) == len(set(kept))
    assert "c4" not in lost
