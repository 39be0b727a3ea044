"""Which devices are refused beside those that are prepared."""

from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity
from dradriver.node.claims.conflicts import refusals, unknowns
from dradriver.node.state.device_holds import DeviceHold, HoldingClaim

DRIVER = "gpu.example.com"
SETS = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "40Gi", "slices": 7})}


def device(
    name: str, *, share: str = "", admin: bool = False, pool: str = "pool", **consumes: CounterConsumption
) -> DeviceHold:
    return DeviceHold(DeviceId(DRIVER, pool, name, share), admin, list(consumes.values()))


def takes(memory: str, *groups: str) -> CounterConsumption:
    return CounterConsumption("gpu-0", {"memory": memory}, groups)


def test_different_devices_go_together() -> None:
    assert refusals(HoldingClaim("b", [device("gpu-1")]), [HoldingClaim("a", [device("gpu-0")])], {}) == []


def test_the_same_device_is_refused_with_both_claims() -> None:
    (reason,) = refusals(HoldingClaim("ns/b", [device("gpu-0")]), [HoldingClaim("ns/a", [device("gpu-0")])], {})
    assert reason == "device gpu.example.com/pool/gpu-0 is prepared for claim ns/a, so not for claim ns/b"


def test_devices_of_the_same_name_in_two_pools_are_different() -> None:
    held = [HoldingClaim("a", [device("gpu-0", pool="one")])]
    assert refusals(HoldingClaim("b", [device("gpu-0", pool="two")]), held, {}) == []


def test_a_claim_cannot_have_a_device_twice() -> None:
    assert refusals(HoldingClaim("a", [device("gpu-0"), device("gpu-0")]), [], {})


def test_admin_access_is_always_possible_and_keeps_nobody_away() -> None:
    admin = HoldingClaim("admin", [device("gpu-0", admin=True)])
    user = HoldingClaim("user", [device("gpu-0")])
    assert refusals(admin, [user], {}) == []
    assert refusals(user, [admin], {}) == []


def test_shares_of_one_device_go_together() -> None:
    held = [HoldingClaim("a", [device("gpu-0", share="1")])]
    assert refusals(HoldingClaim("b", [device("gpu-0", share="2")]), held, {}) == []


def test_one_share_does_not_go_twice_nor_with_the_whole_device() -> None:
    held = [HoldingClaim("a", [device("gpu-0", share="1")])]
    assert refusals(HoldingClaim("b", [device("gpu-0", share="1")]), held, {})
    assert refusals(HoldingClaim("b", [device("gpu-0")]), held, {})


def test_a_counter_may_be_used_up() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert refusals(HoldingClaim("b", [device("mig-1", use=takes("20Gi"))]), held, SETS) == []


def test_a_counter_cannot_be_overdrawn() -> None:
    held = [HoldingClaim("ns/a", [device("mig-0", use=takes("20Gi"))])]
    (reason,) = refusals(HoldingClaim("ns/b", [device("mig-1", use=takes("21Gi"))]), held, SETS)
    assert reason == (
        "counter 'memory' of counter set 'gpu-0' in pool 'pool' would be overdrawn: "
        "claim ns/b and ns/a together take 41Gi of 40Gi"
    )


def test_a_claim_cannot_overdraw_a_counter_by_itself() -> None:
    wanted = HoldingClaim("a", [device("mig-0", use=takes("30Gi")), device("mig-1", use=takes("30Gi"))])
    assert refusals(wanted, [], SETS)


def test_what_was_recorded_counts_although_the_counter_set_shrank_since() -> None:
    shrunk = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "10Gi"})}
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert refusals(HoldingClaim("b", [device("mig-1", use=takes("1Gi"))]), held, shrunk)


def test_a_device_that_takes_nothing_is_free_of_an_overdrawn_set() -> None:
    shrunk = {("pool", "gpu-0"): CounterSet("gpu-0", {"memory": "10Gi"})}
    held = [HoldingClaim("a", [device("mig-0", use=takes("20Gi"))])]
    assert refusals(HoldingClaim("b", [device("nic-0")]), held, shrunk) == []


def test_shares_of_one_device_consume_once() -> None:
    held = [HoldingClaim("a", [device("mig-0", share="1", use=takes("30Gi"))])]
    assert refusals(HoldingClaim("b", [device("mig-0", share="2", use=takes("30Gi"))]), held, SETS) == []


def test_devices_with_a_common_group_go_together() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("1Gi", "mig", "any"))])]
    assert refusals(HoldingClaim("b", [device("mig-1", use=takes("1Gi", "mig"))]), held, SETS) == []


def test_devices_without_a_common_group_are_refused_with_both_claims() -> None:
    held = [HoldingClaim("ns/a", [device("mig-0", use=takes("1Gi", "mig"))])]
    (reason,) = refusals(HoldingClaim("ns/b", [device("vgpu-0", use=takes("1Gi", "vgpu"))]), held, SETS)
    assert "no compatibility group in common" in reason
    assert "ns/a" in reason
    assert "ns/b" in reason


def test_the_group_must_be_common_to_all() -> None:
    held = [
        HoldingClaim("a", [device("d-0", use=takes("1Gi", "x", "y"))]),
        HoldingClaim("b", [device("d-1", use=takes("1Gi", "x", "y"))]),
    ]
    assert refusals(HoldingClaim("c", [device("d-2", use=takes("1Gi", "x"))]), held, SETS) == []
    held.append(HoldingClaim("c", [device("d-2", use=takes("1Gi", "x"))]))
    assert refusals(HoldingClaim("d", [device("d-3", use=takes("1Gi", "y"))]), held, SETS)


def test_no_groups_go_only_with_no_groups() -> None:
    plain, grouped = takes("1Gi"), takes("1Gi", "mig")
    assert (
        refusals(
            HoldingClaim("b", [device("d-1", use=plain)]), [HoldingClaim("a", [device("d-0", use=plain)])], SETS
        )
        == []
    )
    assert refusals(
        HoldingClaim("b", [device("d-1", use=grouped)]), [HoldingClaim("a", [device("d-0", use=plain)])], SETS
    )
    assert refusals(
        HoldingClaim("b", [device("d-1", use=plain)]), [HoldingClaim("a", [device("d-0", use=grouped)])], SETS
    )


HAS = {("pool", "gpu-0"): {"memory": Capacity(Quantity("40Gi"))}}


def share(name: str, memory: str, device: str = "gpu-0", capacity: str = "memory") -> DeviceHold:
    return DeviceHold(DeviceId(DRIVER, "pool", device, name), consumed_capacity={capacity: Quantity(memory)})


def test_shares_may_use_up_a_capacity() -> None:
    held = [HoldingClaim("a", [share("1", "20Gi")])]
    assert refusals(HoldingClaim("b", [share("2", "20Gi")]), held, {}, HAS) == []


def test_shares_cannot_overdraw_a_capacity_and_both_claims_are_named() -> None:
    held = [HoldingClaim("ns/a", [share("1", "20Gi")]), HoldingClaim("ns/x", [share("9", "40Gi", "gpu-1")])]
    (reason,) = refusals(HoldingClaim("ns/b", [share("2", "21Gi")]), held, {}, HAS)
    assert reason == (
        "capacity gpu.example.com/memory of device pool/gpu-0 would be overdrawn: "
        "claim ns/b and ns/a together take 41Gi of 40Gi"
    )


def test_shares_of_one_claim_are_added_up_too() -> None:
    assert refusals(HoldingClaim("a", [share("1", "30Gi"), share("2", "30Gi")]), [], {}, HAS)


def test_a_capacity_counts_once_under_its_short_and_its_full_name() -> None:
    held = [HoldingClaim("a", [share("1", "30Gi", capacity=f"{DRIVER}/memory")])]
    assert refusals(HoldingClaim("b", [share("2", "30Gi")]), held, {}, HAS)


def test_a_second_share_of_a_capacity_that_is_not_known_is_refused() -> None:
    first = HoldingClaim("a", [share("1", "1Gi")])
    assert refusals(first, [], {}, {}) == []
    (reason,) = refusals(HoldingClaim("b", [share("2", "1Gi")]), [first], {}, {})
    assert reason.startswith("it is not known how much capacity gpu.example.com/memory device pool/gpu-0 has")


def test_admin_access_takes_no_capacity() -> None:
    admin = DeviceHold(DeviceId(DRIVER, "pool", "gpu-0", "1"), True, (), {"memory": Quantity("40Gi")})
    assert refusals(HoldingClaim("b", [share("2", "40Gi")]), [HoldingClaim("a", [admin])], {}, HAS) == []


NOBODY_KNOWS = DeviceHold(DeviceId(DRIVER, "pool", "gone"), consumes=None)


def test_a_device_of_which_nothing_is_known_is_refused_where_the_pool_has_counter_sets() -> None:
    (reason,) = unknowns(HoldingClaim("ns/a", [NOBODY_KNOWS]), [], SETS)
    assert "the driver offers no device gpu.example.com/pool/gone" in reason
    assert "ns/a" in reason


def test_a_held_device_tells_that_its_pool_has_counter_sets() -> None:
    held = [HoldingClaim("a", [device("mig-0", use=takes("1Gi"))])]
    assert unknowns(HoldingClaim("b", [NOBODY_KNOWS]), held, {})
    assert unknowns(HoldingClaim("b", [NOBODY_KNOWS]), [HoldingClaim("a", [device("nic-0")])], {}) == []


def test_a_held_device_of_which_nothing_is_known_keeps_away_who_takes_counters() -> None:
    held = [HoldingClaim("ns/a", [NOBODY_KNOWS])]
    (reason,) = unknowns(HoldingClaim("ns/b", [device("mig-0", use=takes("1Gi"))]), held, SETS)
    assert "device gpu.example.com/pool/gone of claim ns/a" in reason
    assert unknowns(HoldingClaim("b", [device("nic-0")]), held, SETS) == []


def test_a_counter_set_that_is_not_known_is_refused() -> None:
    (reason,) = unknowns(HoldingClaim("ns/b", [device("mig-0", use=takes("1Gi"))]), [], {})
    assert "the driver offers no counter set 'gpu-0' in pool 'pool'" in reason


def test_who_only_looks_need_not_know() -> None:
    admin = DeviceHold(DeviceId(DRIVER, "pool", "gone"), admin_access=True, consumes=None)
    assert unknowns(HoldingClaim("a", [admin]), [], SETS) == []
