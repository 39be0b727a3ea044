"""Run in a guest by test_fpga_core_of_the_kernel.py: its devices, states and uevents are the kernel's own."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dradriver_fpga.card import Bitstream, FpgaHardware, ManagerState
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.card_suite import (
    LONG,
    Benches,
    ChangeSuite,
    DiscoverySuite,
    ProgrammingSuite,
    can_program,
    card,
    region,
    until,
)
from tests.drivers.fpga.guest.controls import MODEL, GuestControls
from tests.drivers.fpga.guest.machine import FIRMWARE


@dataclass
class GuestBench:
    host: FpgaHost
    controls: GuestControls = field(default_factory=GuestControls)

    def __post_init__(self) -> None:
        self.hardware = RealFpgas(self.host)

    def another(self) -> FpgaHardware:
        return RealFpgas(self.host)


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[list[GuestBench]]:
    made: list[GuestBench] = []
    yield made
    for bench in made:
        bench.hardware.close()
        bench.controls.unplug_all()


@pytest.fixture
def benches(guests: list[GuestBench], tmp_path: Path) -> Benches:
    def make(*models: str) -> GuestBench:
        bench = GuestBench(FpgaHost(records=tmp_path / "records.json", firmware=FIRMWARE, largest=1 << 20))
        guests.append(bench)
        for model in models:
            bench.controls.plug(model)
        bench.hardware.open()
        return bench

    return make


@pytest.fixture
def bench(benches: Benches, guests: list[GuestBench]) -> GuestBench:
    benches(MODEL)
    return guests[0]


class TestDiscoveryInTheGuest(DiscoverySuite):
    pass


class TestProgrammingByTheFpgaCore(ProgrammingSuite):
    pass


class TestUeventsOfTheFpgaCore(ChangeSuite):
    pass


def test_the_bits_that_arrive_are_those_of_the_file(bench: GuestBench, tmp_path: Path) -> None:
    bitstream = Bitstreams(tmp_path).fitting(MODEL)
    bench.hardware.program(region(bench).id, bitstream, timeout=LONG)
    assert bench.controls.written(card(bench).id) == bitstream.path.read_bytes()
    assert list(FIRMWARE.iterdir()) == []


def test_a_region_is_programmed_as_a_part_and_a_card_as_a_whole(bench: GuestBench, tmp_path: Path) -> None:
    bitstream = Bitstreams(tmp_path).fitting(MODEL)
    for target, partial in ((region(bench).id, True), (card(bench).id, False)):
        bench.hardware.program(target, bitstream, timeout=LONG)
        assert bench.controls.was_partial(card(bench).id) is partial


def test_a_process_that_dies_while_it_programs_leaves_nothing_certain(
    bench: GuestBench, tmp_path: Path
) -> None:
    target, bitstream = region(bench).id, Bitstreams(tmp_path).fitting(MODEL)
    bench.hardware.program(target, bitstream, timeout=LONG)
    bench.controls.hang_next(target)
    process = multiprocessing.get_context("spawn").Process(target=program, args=(bench.host, target, bitstream))
    process.start()
    until(lambda: card(bench).managers[0].state is ManagerState.WRITE)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert region(bench).bitstream == ""
    # The kernel ends a write that it began: the process is there until then.
    bench.controls.release(target)
    process.join()
    until(lambda: can_program(bench, target, bitstream))
    assert region(bench).bitstream == bitstream.sha256


def program(host: FpgaHost, target: str, bitstream: Bitstream) -> None:
    """Programs, as another process."""
    RealFpgas(host).program(target, bitstream, timeout=LONG)
