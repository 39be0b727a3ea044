"""Contract of every implementation of `Accelerators`; subclasses provide the implementation."""

from typing import Protocol

import pytest

from dradriver_fabric_cxl.accelerator import Accelerators

FIRST, SECOND = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210


class AcceleratorSlots(Protocol):
    """Changes of accelerators."""

    def plug(self, serial: int) -> None: ...
    def unplug(self, serial: int) -> None: ...
    def set_driver(self, serial: int, *, has_driver: bool) -> None: ...


class AcceleratorsSuite:
    @pytest.fixture
    def slots(self) -> AcceleratorSlots:
        raise NotImplementedError

    @pytest.fixture
    def accelerators(self) -> Accelerators:
        raise NotImplementedError

    def test_a_node_has_no_accelerator_until_one_is_plugged_in(self, accelerators: Accelerators) -> None:
        assert accelerators.devices() == ()

    def test_accelerators_are_found_by_their_serial_number(
        self, accelerators: Accelerators, slots: AcceleratorSlots
    ) -> None:
        slots.plug(SECOND)
        slots.plug(FIRST)
        first, second = accelerators.devices()
        assert (first.serial, second.serial) == (FIRST, SECOND)
        assert first.address != second.address
        assert not set(first.nodes) & set(second.nodes)

    def test_an_accelerator_has_a_device_node_that_containers_can_get(
        self, accelerators: Accelerators, slots: AcceleratorSlots
    ) -> None:
        slots.plug(FIRST)
        (found,) = accelerators.devices()
        assert not found.problem
        (node,) = found.nodes
        assert (node.path, node.major, node.minor) == ("/dev/dri/renderD128", 226, 128)

    def test_a_pulled_accelerator_is_missing(self, accelerators: Accelerators, slots: AcceleratorSlots) -> None:
        slots.plug(FIRST)
        slots.plug(SECOND)
        slots.unplug(FIRST)
        (left,) = accelerators.devices()
        assert left.serial == SECOND

    def test_an_accelerator_without_a_driver_cannot_be_used_yet(
        self, accelerators: Accelerators, slots: AcceleratorSlots
    ) -> None:
        slots.plug(FIRST)
        slots.set_driver(FIRST, has_driver=False)
        (found,) = accelerators.devices()
        assert found.address in found.problem
        slots.set_driver(FIRST, has_driver=True)
        assert not accelerators.devices()[0].problem
