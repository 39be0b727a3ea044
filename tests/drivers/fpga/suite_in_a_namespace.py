"""Run in a network namespace of its own by test_uevents_are_heard.py: what is told by the kernel's uevents."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dradriver_fpga.card import Cards, Hardware
from dradriver_fpga.card.real import RealHardware
from dradriver_fpga.card.real.uevents import Uevents as Listener
from tests.drivers.fpga.card_suite import Benches, ChangeSuite
from tests.drivers.fpga.kernel.bench import KernelBench, kernel_bench
from tests.drivers.fpga.kernel.fake import FakeKernel
from tests.drivers.fpga.kernel.uevents import Uevents

MORE_THAN_FIT = 100
"""Uevents that nobody takes off a queue that `narrow` made small."""


@pytest.fixture
def uevents() -> Iterator[Uevents]:
    sender = Uevents()
    yield sender
    sender.close()


@pytest.fixture
def benches(tmp_path: Path, uevents: Uevents) -> Iterator[Benches]:
    made: list[KernelBench] = []

    def make(*models: str) -> KernelBench:
        made.append(kernel_bench(FakeKernel(tmp_path / "node", uevents.tell), *models))
        return made[-1]

    yield make
    for bench in made:
        bench.hardware.close()


class TestUeventsOfTheKernel(ChangeSuite):
    pass


def test_what_does_not_concern_fpgas_is_not_told(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    uevents.tell("add", "devices/virtual/block/zram0", "block")
    assert not bench.hardware.wait_change(0.05)


def test_a_uevent_that_cannot_be_read_is_told_as_a_change(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    uevents.tell("nonsense", "devices/pci0000:30/0000:3b:00.0", "pci")
    assert bench.hardware.wait_change(1)
    assert not bench.hardware.wait_change(0)


def test_lost_uevents_are_told_as_a_change(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    narrow(bench.hardware)
    for number in range(MORE_THAN_FIT):
        uevents.tell("change", f"devices/virtual/block/zram{number}", "block")
    assert bench.hardware.wait_change(1)
    assert not bench.hardware.wait_change(0)


async def test_cards_are_right_after_an_overflow(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    assert isinstance(bench, KernelBench)
    hardware = RealHardware(bench.hand.host)
    async with Cards(hardware, rescan=1e6) as cards:
        narrow(hardware)
        changes = cards.changes()
        assert len(await anext(changes)) == 1
        for number in range(MORE_THAN_FIT):
            uevents.tell("change", f"devices/virtual/block/zram{number}", "block")
        bench.hand.plug("alveo")
        assert len(await anext(changes)) == 2
        await changes.aclose()


def narrow(hardware: Hardware) -> None:
    """Leaves its queue room for a few uevents."""
    assert isinstance(hardware, RealHardware)
    assert isinstance(hardware._uevents, Listener)
    hardware._uevents._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
