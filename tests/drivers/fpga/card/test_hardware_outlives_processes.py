"""State of the hardware after a process was killed, and how the next process reads it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver_fpga.card import FpgaHardware
from dradriver_fpga.card.real import RealFpgas
from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams
from tests.drivers.fpga.card_suite import LONG, until
from tests.drivers.fpga.kernel.fake import FakeKernel

REGION = "0000:3b:00.0/0"

PROGRAM = """
import os, signal, sys
from pathlib import Path
from dradriver_fpga.card import Bitstream
from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
def hook(call, moment):
    if (call, moment) == (sys.argv[2], sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
hardware = SimulatedFpgas(store=FpgaFileStore(Path(sys.argv[1])), speed=1000.0, hook=hook)
hardware.program(sys.argv[4], Bitstream(Path(sys.argv[5]), sys.argv[6]), timeout=20)
"""


@pytest.mark.parametrize(
    ("call", "moment", "written", "certain"),
    [
        ("program", "before", False, False),
        ("program", "after", True, False),
        ("watch", "after", True, False),
        ("programmed", "before", True, False),
        ("programmed", "after", True, True),
    ],
)
def test_a_killed_process_leaves_hardware_that_goes_on(
    tmp_path: Path, call: str, moment: str, *, written: bool, certain: bool
) -> None:
    files, store = Bitstreams(tmp_path), FpgaFileStore(tmp_path / "cards.json")
    bitstream = files.fitting("pac")
    hardware = SimulatedFpgas(["pac"], store=store, speed=1000.0)
    arguments = [tmp_path / "cards.json", call, moment, REGION, bitstream.path, bitstream.sha256]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], check=False)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not hardware.cards()[0].managers[0].state.is_busy)
    region = hardware.cards()[0].regions[0]
    assert (region.afu_id == AFU, region.bitstream == bitstream.sha256) == (written, certain)
    hardware.program(REGION, bitstream, timeout=LONG)
    assert hardware.cards()[0].regions[0].bitstream == bitstream.sha256


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    kernel = FakeKernel(tmp_path / "node")
    kernel.plug("pac")
    return kernel


def programmed(hardware: FpgaHardware, files: Bitstreams) -> str:
    bitstream = files.fitting("pac")
    hardware.program(REGION, bitstream, timeout=LONG)
    assert hardware.cards()[0].regions[0].bitstream == bitstream.sha256
    return bitstream.sha256


def test_after_a_reboot_nothing_is_certain(kernel: FakeKernel, tmp_path: Path) -> None:
    hardware = RealFpgas(kernel.host, kernel)
    programmed(hardware, Bitstreams(tmp_path))
    (kernel.root / "boot_id").write_text("second")
    assert hardware.cards()[0].regions[0].bitstream == ""


def test_content_that_another_program_wrote_is_unknown(kernel: FakeKernel, tmp_path: Path) -> None:
    hardware, files = RealFpgas(kernel.host, kernel), Bitstreams(tmp_path)
    programmed(hardware, files)
    kernel.tree.write("pci0000:30/0000:3b:00.0/fpga_region/region0/dfl-port.0", "afu_id", "ab" * 16)
    assert hardware.cards()[0].regions[0].bitstream == ""


@pytest.mark.parametrize("damage", [b"", b"{", b'{"x": 1}'])
def test_a_damaged_record_is_no_record(kernel: FakeKernel, tmp_path: Path, damage: bytes) -> None:
    hardware, files = RealFpgas(kernel.host, kernel), Bitstreams(tmp_path)
    programmed(hardware, files)
    kernel.host.records.write_bytes(damage)
    assert hardware.cards()[0].regions[0].bitstream == ""
    programmed(hardware, files)


def test_the_record_of_a_region_is_deleted_before_programming(kernel: FakeKernel, tmp_path: Path) -> None:
    """The moment at which a process may die."""
    hardware, files = RealFpgas(kernel.host, kernel), Bitstreams(tmp_path)
    programmed(hardware, files)
    seen: list[str] = []
    write = kernel.ioctl

    def look(node: Path, request: int, argument: object) -> None:
        seen.append(RealFpgas(kernel.host, kernel).cards()[0].regions[0].bitstream)
        write(node, request, argument)  # type: ignore[arg-type]

    kernel.ioctl = look  # type: ignore[method-assign]
    programmed(hardware, files)
    assert seen == [""]


def test_simulated_cards_in_a_file_are_found_again(tmp_path: Path) -> None:
    one = SimulatedFpgas(["alveo"], store=FpgaFileStore(tmp_path / "cards.json"))
    other = SimulatedFpgas(["pac"], store=FpgaFileStore(tmp_path / "cards.json"))
    assert other.cards() == one.cards()
    other.open()
    one.plug("zynq")
    assert other.wait_change(LONG)
    assert len(other.cards()) == 2
