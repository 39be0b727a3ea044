"""Devices that conflict with prepared ones are rejected."""

from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity
from dradriver.node.claims.conflicts import find_conflicts, find_unknowns
from dradriver.node.state.records import DeviceHold, HoldingClaim

DRIVER = "gpu.example.com"
SETS = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "40Gi", "slices": 7})}


def device(
    name: str, *, share: str = "", admin: bool = False, pool: str = "pool", **consumes: CounterConsumption
) -> DeviceHold:
    return DeviceHold(DeviceId(DRIVER, pool, name, share), admin, list(consumes.values()))


def takes(memory: str, *groups: str) -> CounterConsumption:
    return CounterConsumption("gpu-0", {"memory": memory}, groups)


def test_different_devices_are_compatible() -> None:
    assert (
        find_conflicts(HoldingClaim("b", [device("gpu-1")]), [HoldingClaim("a", [device("gpu-0")])], {}) == []
    )


def test_the_same_device_is_rejected_with_both_claims() -> None:
    (reason,) = find_conflicts(
        HoldingClaim("ns/b", [device("gpu-0")]), [HoldingClaim("ns/a", [device("gpu-0")])], {}
    )
    assert (
        reason
        == "device gpu.example.com/pool/gpu-0 is prepared for claim ns/a and can't be prepared for claim ns/b"
    )


def test_devices_of_the_same_name_in_two_pools_are_different() -> None:
    held = [HoldingClaim("a", [device("gpu-0", pool="one")])]
    assert find_conflicts(HoldingClaim("b", [device("gpu-0", pool="two")]), held, {}) == []


def test_a_claim_cannot_have_a_device_twice() -> None:
    assert find_conflicts(HoldingClaim("a", [device("gpu-0"), device("gpu-0")]), [], {})


def test_admin_access_is_always_possible_and_blocks_no_other_claim() -> None:
    admin = HoldingClaim("admin", [device("gpu-0", admin=True)])
    user = HoldingClaim("user", [device("gpu-0")])
    assert find_conflicts(admin, [user], {}) == []
    assert find_conflicts(user, [admin], {}) == []


def test_different_shares_of_one_device_are_compatible() -> None:
    held = [HoldingClaim("a", [device("gpu-0", share="1")])]
    assert find_conflicts(HoldingClaim("b", [device("gpu-0", share="2")]), held, {}) == []


def test_a_share_conflicts_with_itself_and_with_the_device() -> None:
    held = [HoldingClaim("a", [device("gpu-0", share="1")])]
    assert find_conflicts(HoldingClaim("b", [device("gpu-0", share="1")]), held, {})
    assert find_conflicts(HoldingClaim("b", [device("gpu-0")]), held, {})


def test_a_counter_may_be_used_up() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert find_conflicts(HoldingClaim("b", [device("mig-1", use=takes("20Gi"))]), held, SETS) == []


def test_a_counter_cannot_be_overdrawn() -> None:
    held = [HoldingClaim("ns/a", [device("mig-0", use=takes("20Gi"))])]
    (reason,) = find_conflicts(HoldingClaim("ns/b", [device("mig-1", use=takes("21Gi"))]), held, SETS)
    assert reason == (
        "counter 'memory' of counter set 'gpu-0' in pool 'pool' would be overdrawn: "
        "claim ns/b and ns/a together consume 41Gi of 40Gi"
    )


def test_a_claim_cannot_overdraw_a_counter_by_itself() -> None:
    wanted = HoldingClaim("a", [device("mig-0", use=takes("30Gi")), device("mig-1", use=takes("30Gi"))])
    assert find_conflicts(wanted, [], SETS)


def test_recorded_consumption_counts_after_the_counter_set_shrank() -> None:
    shrunk = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "10Gi"})}
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert find_conflicts(HoldingClaim("b", [device("mig-1", use=takes("1Gi"))]), held, shrunk)


def test_a_device_without_consumption_ignores_an_overdrawn_counter_set() -> None:
    shrunk = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "10Gi"})}
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert find_conflicts(HoldingClaim("b", [device("nic-0")]), held, shrunk) == []


def test_shares_of_one_device_consume_once() -> None:
    held = [HoldingClaim("a", [device("mig-0", share="1", use=takes("30Gi"))])]
    assert find_conflicts(HoldingClaim("b", [device("mig-0", share="2", use=takes("30Gi"))]), held, SETS) == []


def test_devices_with_a_common_group_are_compatible() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("1Gi", "mig", "any"))])]
    assert find_conflicts(HoldingClaim("b", [device("mig-1", use=takes("1Gi", "mig"))]), held, SETS) == []


def test_devices_without_a_common_group_are_rejected_with_both_claims() -> None:
    held = [HoldingClaim("ns/a", [device("mig-0", use=takes("1Gi", "mig"))])]
    (reason,) = find_conflicts(HoldingClaim("ns/b", [device("vgpu-0", use=takes("1Gi", "vgpu"))]), held, SETS)
    assert "no compatibility group in common" in reason
    assert "ns/a" in reason
    assert "ns/b" in reason


def test_the_group_must_be_common_to_all() -> None:
    held = [
        HoldingClaim("a", [device("d-0", use=takes("1Gi", "x", "y"))]),
        HoldingClaim("b", [device("d-1", use=takes("1Gi", "x", "y"))]),
    ]
    assert find_conflicts(HoldingClaim("c", [device("d-2", use=takes("1Gi", "x"))]), held, SETS) == []
    held.append(HoldingClaim("c", [device("d-2", use=takes("1Gi", "x"))]))
    assert find_conflicts(HoldingClaim("d", [device("d-3", use=takes("1Gi", "y"))]), held, SETS)


def test_a_device_without_groups_is_compatible_only_with_others_without() -> None:
    plain, grouped = takes("1Gi"), takes("1Gi", "mig")
    assert (
        find_conflicts(
            HoldingClaim("b", [device("d-1", use=plain)]), [HoldingClaim("a", [device("d-0", use=plain)])], SETS
        )
        == []
    )
    assert find_conflicts(
        HoldingClaim("b", [device("d-1", use=grouped)]), [HoldingClaim("a", [device("d-0", use=plain)])], SETS
    )
    assert find_conflicts(
        HoldingClaim("b", [device("d-1", use=plain)]), [HoldingClaim("a", [device("d-0", use=grouped)])], SETS
    )


HAS = {("pool", "gpu-0"): {"memory": Capacity(Quantity("40Gi"))}}


def share(name: str, memory: str, device: str = "gpu-0", capacity: str = "memory") -> DeviceHold:
    return DeviceHold(DeviceId(DRIVER, "pool", device, name), consumed_capacity={capacity: Quantity(memory)})


def test_shares_may_use_up_a_capacity() -> None:
    held = [HoldingClaim("a", [share("1", "20Gi")])]
    assert find_conflicts(HoldingClaim("b", [share("2", "20Gi")]), held, {}, HAS) == []


def test_shares_cannot_overdraw_a_capacity_and_both_claims_are_named() -> None:
    held = [HoldingClaim("ns/a", [share("1", "20Gi")]), HoldingClaim("ns/x", [share("9", "40Gi", "gpu-1")])]
    (reason,) = find_conflicts(HoldingClaim("ns/b", [share("2", "21Gi")]), held, {}, HAS)
    assert reason == (
        "capacity gpu.example.com/memory of device pool/gpu-0 would be overdrawn: "
        "claim ns/b and ns/a together consume 41Gi of 40Gi"
    )


def test_shares_of_one_claim_are_added_up() -> None:
    assert find_conflicts(HoldingClaim("a", [share("1", "30Gi"), share("2", "30Gi")]), [], {}, HAS)


def test_a_capacity_counts_once_under_its_short_and_its_full_name() -> None:
    held = [HoldingClaim("a", [share("1", "30Gi", capacity=f"{DRIVER}/memory")])]
    assert find_conflicts(HoldingClaim("b", [share("2", "30Gi")]), held, {}, HAS)


def test_a_second_share_of_an_unknown_capacity_is_rejected() -> None:
    first = HoldingClaim("a", [share("1", "1Gi")])
    assert find_conflicts(first, [], {}, {}) == []
    (reason,) = find_conflicts(HoldingClaim("b", [share("2", "1Gi")]), [first], {}, {})
    assert "capacity gpu.example.com/memory of device pool/gpu-0, whose amount is unknown" in reason


def test_admin_access_takes_no_capacity() -> None:
    admin = DeviceHold(DeviceId(DRIVER, "pool", "gpu-0", "1"), True, (), {"memory": Quantity("40Gi")})
    assert find_conflicts(HoldingClaim("b", [share("2", "40Gi")]), [HoldingClaim("a", [admin])], {}, HAS) == []


NOBODY_KNOWS = DeviceHold(DeviceId(DRIVER, "pool", "gone"), consumes=None)


def test_an_unknown_device_is_rejected_if_the_pool_has_counter_sets() -> None:
    (reason,) = find_unknowns(HoldingClaim("ns/a", [NOBODY_KNOWS]), [], SETS)
    assert "device gpu.example.com/pool/gone is not offered by the driver" in reason
    assert "ns/a" in reason


def test_a_held_device_shows_that_its_pool_has_counter_sets() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("1Gi"))])]
    assert find_unknowns(HoldingClaim("b", [NOBODY_KNOWS]), held, {})
    assert find_unknowns(HoldingClaim("b", [NOBODY_KNOWS]), [HoldingClaim("a", [device("nic-0")])], {}) == []


def test_an_unknown_held_device_keeps_away_claims_that_consume_counters() -> None:
    held = [HoldingClaim("ns/a", [NOBODY_KNOWS])]
    (reason,) = find_unknowns(HoldingClaim("ns/b", [device("mig-0", use=takes("1Gi"))]), held, SETS)
    assert "device gpu.example.com/pool/gone of claim ns/a" in reason
    assert find_unknowns(HoldingClaim("b", [device("nic-0")]), held, SETS) == []


def test_an_unknown_counter_set_is_rejected() -> None:
    (reason,) = find_unknowns(HoldingClaim("ns/b", [device("mig-0", use=takes("1Gi"))]), [], {})
    assert "counter set 'gpu-0' of pool 'pool', which is not offered" in reason


def test_admin_access_ignores_unknown_devices() -> None:
    admin = DeviceHold(DeviceId(DRIVER, "pool", "gone"), admin_access=True, consumes=None)
    assert find_unknowns(HoldingClaim("a", [admin]), [], SETS) == []


def controlled(name: str, *, shareable: bool = False) -> DeviceHold:
    return DeviceHold(DeviceId(DRIVER, "controller/fabric", name), shareable=shareable)


def test_a_controllers_device_is_in_two_claims_only_if_both_are_shareable() -> None:
    shareable, private = controlled("port-0", shareable=True), controlled("port-0")
    assert find_conflicts(HoldingClaim("b", [shareable]), [HoldingClaim("a", [shareable])], {}) == []
    for one, other in ((shareable, private), (private, shareable), (private, private)):
        assert find_conflicts(HoldingClaim("b", [one]), [HoldingClaim("a", [other])], {})
