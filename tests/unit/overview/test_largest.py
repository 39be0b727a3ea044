"""The largest devices of a pool that claims can still get."""

from dradriver.allocator import Inventory
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.overview import LargestDevices, largest_devices
from dradriver.testing.builders import allocated, claim, slice_


def part(name: str, *hosts: int, group: str = "a") -> Device:
    """Return a slice of a board of four hosts."""
    return Device(name, consumes_counters=[CounterConsumption("board", {f"h{n}": 4 for n in hosts}, [group])])


def largest(*held: ResourceClaim, extra: Device | None = None) -> LargestDevices:
    counters = slice_(
        counter_sets=[CounterSet("board", {f"h{n}": 4 for n in range(4)})], count=2, name="slice-0"
    )
    devices = [
        part("h-0", 0),
        part("h-3", 3),
        part("upper", 0, 1),
        part("lower", 2, 3),
        part("all", 0, 1, 2, 3),
    ]
    devices += [extra] if extra else []
    (found,) = largest_devices(Inventory.of([counters, slice_(*devices, count=2, name="slice-1")]), held)
    return found


def test_an_unused_pool_has_its_whole_device() -> None:
    found = largest()
    assert (found.size, found.devices) == (100, ("all",))
    assert found.line() == "driver.example.com/node-1 on node node-1: 1 of size 100 %: all"


def test_devices_of_the_largest_size_count_if_they_fit_together() -> None:
    found = largest(allocated(claim(name="held"), "h-0"), extra=part("middle", 1, 2))
    assert (found.size, found.devices) == (50, ("lower",))


def test_devices_without_a_common_group_do_not_fit_together() -> None:
    assert largest(extra=part("also-all", 0, 1, 2, 3, group="b")).devices == ("all",)
    assert largest(allocated(claim(name="held"), "upper"), extra=part("h-2", 2, group="b")).devices == (
        "lower",
    )


def test_a_full_pool_has_none() -> None:
    found = largest(allocated(claim(name="held"), "all"))
    assert found.line() == "driver.example.com/node-1 on node node-1: none"


def test_devices_without_counters_are_whole() -> None:
    pool = slice_(*(Device(f"gpu-{n}") for n in range(6)))
    (found,) = largest_devices(Inventory.of([pool]), [allocated(claim(name="held"), "gpu-0")])
    assert found.line().endswith(": 5 of size 100 %: gpu-1, gpu-2, gpu-3, gpu-4 and 1 more")
