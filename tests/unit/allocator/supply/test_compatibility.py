"""The rolling intersection of compatibility groups (KEP-5963), as bits."""

import pytest

from dradriver.allocator.supply.compatibility import ANY, GroupBits
from dradriver.model.resource.counters import CounterConsumption


def may_join(*users: list[str]) -> bool:
    """Return whether the last of these devices may join the others on one counter set."""
    groups, state = GroupBits(), ANY
    for user in users[:-1]:
        state &= groups.bits(CounterConsumption("set", {"c": 1}, user))
    return bool(state & groups.bits(CounterConsumption("set", {"c": 1}, users[-1])))


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([[]], True),
        ([["mig"]], True),
        ([[], []], True),
        ([[], ["mig"]], False),
        ([["mig"], []], False),
        ([["mig"], ["mig"]], True),
        ([["mig"], ["vgpu"]], False),
        ([["foo", "foobar"], ["bar", "foobar"]], True),
        ([["foo", "foobar"], ["bar", "foobar"], ["foo"]], False),
        ([["foo", "foobar"], ["bar", "foobar"], ["foobar"]], True),
    ],
)
def test_a_device_may_join_devices_that_share_a_group_with_it(users: list[list[str]], expected: bool) -> None:
    assert may_join(*users) is expected


def test_no_device_may_join_users_with_disjoint_groups() -> None:
    """A driver changed the groups of devices in use."""
    assert not may_join(["mig"], ["vgpu"], ["mig"])
    assert not may_join(["mig"], [], [])


def test_a_state_is_described_by_the_possible_groups() -> None:
    groups = GroupBits()
    foo, bar = (
        groups.bits(CounterConsumption("s", {"c": 1}, names)) for names in (["foo", "all"], ["bar", "all"])
    )
    assert [groups.text(bits) for bits in (foo, foo & bar, foo & bar & ~foo)] == [
        "foo, all", "all", "none in common",
    ]  # fmt: skip
    assert groups.text(groups.bits(CounterConsumption("s", {"c": 1}))) == "no groups"
