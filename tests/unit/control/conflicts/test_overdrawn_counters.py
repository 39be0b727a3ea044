"""Of claims that overdraw a counter together, the newest ones give way."""

from msgspec.structs import replace

from dradriver.control.conflicts.double_allocations import DoubleAllocation, precedence
from dradriver.control.conflicts.overdrawn_counters import PoolCounters, find_overdraft, find_overdrawing
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders
from tests.unit.control.conflicts.allocations import held_by, held_claim, share

MEMORY = "counter memory of counter set gpu-0"


def partition(name: str, memory: int, counter_set: str = "gpu-0") -> Device:
    return Device(name, consumes_counters=[CounterConsumption(counter_set, {"memory": memory})])


def pool(*, memory: int = 4, generation: int = 1, count: int = 2) -> list[ResourceSlice]:
    """Return two GPUs: the first one with a whole device, two halves and four quarters."""
    sets = [CounterSet("gpu-0", {"memory": memory, "engines": 1}), CounterSet("gpu-1", {"memory": 4})]
    devices = [
        partition("whole", 4),
        *(partition(f"half-{number}", 2) for number in range(2)),
        *(partition(f"quarter-{number}", 1) for number in range(4)),
        partition("other", 4, "gpu-1"),
    ]
    return [
        builders.slice_(counter_sets=sets, count=count, generation=generation, name="sets"),
        builders.slice_(*devices, count=count, generation=generation, name="devices"),
    ]


def losers(
    *claims: ResourceClaim, slices: list[ResourceSlice] | None = None, bound: tuple[str, ...] = ()
) -> dict[str, DoubleAllocation]:
    """Return the claims that must give way, by name."""
    counters = PoolCounters.of(pool() if slices is None else slices)
    holders = held_by(claims)
    found = {
        claim.metadata.name: find_overdraft(
            claim,
            lambda _driver, _pool: counters,
            holders,
            lambda each: precedence(each, is_bound=each.metadata.name in bound),
        )
        for claim in claims
    }
    return {name: conflict for name, conflict in found.items() if conflict is not None}


def test_the_whole_device_gives_way_to_an_older_partition() -> None:
    older, newer = held_claim("b", "quarter-0", seconds=1), held_claim("a", "whole", seconds=2)
    assert losers(older, newer) == {"a": DoubleAllocation(MEMORY, "default/b")}


def test_only_the_claims_that_do_not_fit_give_way() -> None:
    claims = [held_claim("a", "half-0"), held_claim("b", "quarter-0"), held_claim("c", "half-1")]
    assert losers(*claims) == {"c": DoubleAllocation(MEMORY, "default/b")}
    assert list(losers(*claims, bound=("c",))) == ["b"]


def test_claims_that_fit_keep_their_devices() -> None:
    claims = [held_claim("a", "half-0"), held_claim("b", "half-1"), held_claim("c", "other")]
    assert not losers(*claims)


def test_shares_of_a_device_consume_its_counters_once() -> None:
    claims = held_claim("a", share("whole", "s1")), held_claim("b", share("whole", "s2"))
    assert not losers(*claims)
    assert not losers(*claims, slices=pool(memory=2)), "without one of the claims, nothing changes"


def test_admin_access_consumes_no_counters() -> None:
    assert not losers(held_claim("a", "whole"), held_claim("b", share("half-0", admin_access=True)))


def test_a_claim_that_overdraws_a_counter_alone_keeps_its_device() -> None:
    """The driver has changed the pool: no other claim has the device."""
    assert not losers(held_claim("a", "whole"), slices=pool(memory=2))


def test_the_newest_generation_counts_if_it_is_complete() -> None:
    claims = [held_claim("a", "half-0"), held_claim("b", "half-1")]
    assert list(losers(*claims, slices=[*pool(), *pool(generation=2, memory=3)])) == ["b"]
    assert not losers(*claims, slices=[*pool(memory=3), *pool(generation=2, memory=3, count=3)])


def test_a_device_that_is_not_in_the_pool_consumes_nothing() -> None:
    assert not losers(held_claim("a", "whole"), held_claim("b", "removed"))


def test_a_counter_that_is_not_published_is_not_summed() -> None:
    counters, devices = pool()
    sets = replace(counters, spec=replace(counters.spec, shared_counters=[CounterSet("gpu-0", {"engines": 1})]))
    assert not losers(held_claim("a", "half-0"), held_claim("b", "half-1"), slices=[sets, devices])


def test_a_pool_without_counters_is_not_summed() -> None:
    assert PoolCounters.of([builders.slice_(builders.device())]) is None
    assert PoolCounters.of([]) is None


def test_the_older_claim_finds_the_claims_with_which_it_overdraws() -> None:
    claims = [held_claim("a", "whole"), held_claim("b", "half-0"), held_claim("c", "other")]
    counters = PoolCounters.of(pool())
    found = find_overdrawing(claims[0], lambda _driver, _pool: counters, held_by(claims))
    assert [claim.metadata.name for claim in found] == ["b"]


def test_a_claim_with_devices_of_two_gpus_is_checked_on_both() -> None:
    both = held_claim("b", "half-0", "other")
    assert list(losers(held_claim("a", share("other", "s")), both)) == []
    assert list(losers(held_claim("a", "whole"), both)) == ["b"]
