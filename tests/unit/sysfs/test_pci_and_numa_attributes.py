"""`resource.kubernetes.io/pciBusID`, `pcieRoot` and `numaNode`, as drivers in Go publish them."""

from pathlib import Path

import pytest

import dradriver as dra
from dradriver.errors import NotFoundError
from tests.unit.sysfs.machine import Machine

PREFIX = "resource.kubernetes.io/"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_pci_device_has_its_bus_id_root_complex_and_numa_node(machine: Machine) -> None:
    bus_id = machine.add_pci("0000:65:00.0", node=2)
    assert dra.pci_attributes(bus_id, sysfs=machine.sysfs) == {
        f"{PREFIX}pciBusID": "0000:65:00.0",
        f"{PREFIX}pcieRoot": "pci0000:64",
        f"{PREFIX}numaNode": 2,
    }


def test_the_list_has_the_device_s_node_first_and_then_its_neighbors_on_the_socket(machine: Machine) -> None:
    bus_id = machine.add_pci("0000:65:00.0", node=3)
    attributes = dra.pci_attributes(bus_id, numa_form="list", sysfs=machine.sysfs)
    assert attributes[f"{PREFIX}numaNode"] == [3, 2]


def test_a_device_on_the_root_itself_has_that_root(machine: Machine) -> None:
    bus_id = machine.add_pci("0000:00:1f.0", place="pci0000:00")
    assert dra.pci_attributes(bus_id, sysfs=machine.sysfs)[f"{PREFIX}pcieRoot"] == "pci0000:00"


@pytest.mark.parametrize("node", [-1, None])
def test_a_device_near_no_node_has_no_numa_node(machine: Machine, node: int | None) -> None:
    """-1 would match all other devices near no node."""
    bus_id = machine.add_pci("0000:65:00.0", node=node)
    assert f"{PREFIX}numaNode" not in dra.pci_attributes(bus_id, sysfs=machine.sysfs)


def test_a_device_on_no_root_complex_has_no_root(machine: Machine) -> None:
    bus_id = machine.add_pci("1234:00:00.0", place="LNXSYSTM:00/VMBUS:00")
    assert f"{PREFIX}pcieRoot" not in dra.pci_attributes(bus_id, sysfs=machine.sysfs)


@pytest.mark.parametrize(
    "bus_id", ["", "65:00.0", "00000000:65:00.0", "0000:6A:00.0", "0000:65:00.0\n", "../.."]
)
def test_a_bus_id_of_another_form_is_rejected(machine: Machine, bus_id: str) -> None:
    with pytest.raises(dra.DriverError, match="with lowercase digits"):
        dra.pci_attributes(bus_id, sysfs=machine.sysfs)


def test_a_missing_device_is_named(machine: Machine) -> None:
    with pytest.raises(NotFoundError, match=r"PCI device 0000:65:00\.0: not found: .*No such file"):
        dra.pci_attributes("0000:65:00.0", sysfs=machine.sysfs)


def test_other_devices_than_pci_pass_their_node(machine: Machine) -> None:
    assert dra.numa_attribute(1, sysfs=machine.sysfs) == {f"{PREFIX}numaNode": 1}
    assert dra.numa_attribute(1, form="list", sysfs=machine.sysfs) == {f"{PREFIX}numaNode": [1, 0]}


@pytest.mark.parametrize("node", [-1, 1024])
def test_an_invalid_node_is_rejected(node: int) -> None:
    with pytest.raises(dra.DriverError, match="must be between 0 and 1023"):
        dra.numa_attribute(node)


@pytest.mark.parametrize("row", ["", "10", "10 x 21 21"])
def test_without_distances_the_list_has_only_the_node(machine: Machine, row: str) -> None:
    machine.write("devices/system/node/node1/distance", row)
    assert dra.numa_attribute(1, form="list", sysfs=machine.sysfs) == {f"{PREFIX}numaNode": [1]}


def test_nodes_of_another_socket_are_omitted_at_the_same_distance(machine: Machine) -> None:
    machine.write("devices/system/node/node0/distance", "10 12 12 12")
    assert dra.numa_attribute(0, form="list", sysfs=machine.sysfs) == {f"{PREFIX}numaNode": [0, 1]}


def test_memory_without_cpus_is_kept(machine: Machine) -> None:
    machine.write("devices/system/node/node0/distance", "10 12 12 12")
    machine.write("devices/system/node/node3/cpulist", "")
    assert dra.numa_attribute(0, form="list", sysfs=machine.sysfs) == {f"{PREFIX}numaNode": [0, 1, 3]}


def test_a_cpu_belongs_to_a_node(machine: Machine) -> None:
    assert dra.numa_node_of_cpu(9, sysfs=machine.sysfs) == 2
    with pytest.raises(NotFoundError, match="CPU 99: has no NUMA node"):
        dra.numa_node_of_cpu(99, sysfs=machine.sysfs)


def test_the_values_are_valid_attributes_of_a_device(machine: Machine) -> None:
    bus_id = machine.add_pci("0000:65:00.0", node=0)
    attributes = dra.pci_attributes(bus_id, numa_form="list", sysfs=machine.sysfs)
    device = dra.Device("gpu-0", attributes={**attributes, "model": "x"})
    assert device.attributes[f"{PREFIX}numaNode"].value == (0, 1)
    assert device.attributes[f"{PREFIX}pcieRoot"].value == "pci0000:64"
