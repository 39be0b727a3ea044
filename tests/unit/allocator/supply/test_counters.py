"""The counters of a pool in one row."""

from dradriver.allocator.supply.counters import CounterTable
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device

SETS = {name: CounterSet(name, {"memory": "40Gi", "units": 7}) for name in ("gpu-0", "gpu-1", "gpu-2")}


def consumer(name: str, *sets: str) -> Device:
    return Device(name, consumes_counters=[CounterConsumption(s, {"memory": "10Gi"}) for s in sets])


def test_sets_that_a_device_consumes_together_are_one_component() -> None:
    table = CounterTable(SETS, [consumer("pair", "gpu-2", "gpu-0"), consumer("single", "gpu-1")])
    assert table.sets == ["gpu-0", "gpu-2", "gpu-1"]
    assert [component.sets for component in table.components] == [(0, 2), (2, 3)]
    assert [component.counters for component in table.components] == [(0, 4), (4, 6)]


def test_consumption_has_indexes_into_the_row() -> None:
    device = consumer("single", "gpu-1")
    table = CounterTable(SETS, [device])
    consumption = table.consumption(device)
    [(place, nano)] = consumption.counters
    assert table.names[place] == ("gpu-1", "memory")
    assert (nano, table.amounts[place]) == (10 * 2**30 * 10**9, 40 * 2**30 * 10**9)
    assert consumption.component == 1


def test_a_device_without_consumption_has_no_component() -> None:
    assert CounterTable(SETS, []).consumption(Device("plain")).component is None


def test_amounts_are_written_in_the_format_of_the_counter_set() -> None:
    table = CounterTable(SETS, [])
    assert table.amount(0, 10 * 2**30 * 10**9) == "10Gi"
    assert table.amount(1, -2 * 10**9) == "-2"
