"""Run by test_uevents_are_received.py in a network namespace: changes that the uevents of the kernel report."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dradriver_fpga.card import FpgaCards, FpgaHardware
from dradriver_fpga.card.real import RealFpgas
from dradriver_fpga.card.real.uevents import Uevents as Listener
from tests.drivers.fpga.card_suite import Benches, ChangeSuite
from tests.drivers.fpga.kernel.bench import KernelBench, kernel_bench
from tests.drivers.fpga.kernel.fake import FakeKernel
from tests.drivers.fpga.kernel.uevents import Uevents

MORE_THAN_FIT = 100
"""More uevents than fit into the queue after `shrink_receive_buffer`."""


@pytest.fixture
def uevents() -> Iterator[Uevents]:
    sender = Uevents()
    yield sender
    sender.close()


@pytest.fixture
def benches(tmp_path: Path, uevents: Uevents) -> Iterator[Benches]:
    made: list[KernelBench] = []

    def make(*models: str) -> KernelBench:
        made.append(kernel_bench(FakeKernel(tmp_path / "node", uevents.send), *models))
        return made[-1]

    yield make
    for bench in made:
        bench.hardware.close()


class TestUeventsOfTheKernel(ChangeSuite):
    pass


def test_changes_of_other_devices_are_not_reported(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    uevents.send("add", "devices/virtual/block/zram0", "block")
    assert not bench.hardware.wait_change(0.05)


def test_an_unreadable_uevent_is_reported_as_a_change(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    uevents.send("nonsense", "devices/pci0000:30/0000:3b:00.0", "pci")
    assert bench.hardware.wait_change(1)
    assert not bench.hardware.wait_change(0)


def test_lost_uevents_are_reported_as_a_change(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    shrink_receive_buffer(bench.hardware)
    for number in range(MORE_THAN_FIT):
        uevents.send("change", f"devices/virtual/block/zram{number}", "block")
    assert bench.hardware.wait_change(1)
    assert not bench.hardware.wait_change(0)


async def test_cards_are_right_after_an_overflow(benches: Benches, uevents: Uevents) -> None:
    bench = benches("pac")
    assert isinstance(bench, KernelBench)
    hardware = RealFpgas(bench.controls.host)
    async with FpgaCards(hardware, rescan=1e6) as cards:
        shrink_receive_buffer(hardware)
        changes = cards.changes()
        assert len(await anext(changes)) == 1
        for number in range(MORE_THAN_FIT):
            uevents.send("change", f"devices/virtual/block/zram{number}", "block")
        bench.controls.plug("alveo")
        assert len(await anext(changes)) == 2
        await changes.aclose()


def shrink_receive_buffer(hardware: FpgaHardware) -> None:
    """Leaves its queue room for a few uevents."""
    assert isinstance(hardware, RealFpgas)
    assert isinstance(hardware._uevents, Listener)
    hardware._uevents._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
