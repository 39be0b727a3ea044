"""Programming of cards: cases that the suite for all cards does not contain."""

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dradriver_fpga.card import (
    CardGoneError,
    CardKind,
    FpgaError,
    FpgaNotSupportedError,
    FpgaPermissionError,
    ManagerFailedError,
    Mechanism,
    ToolFailedError,
)
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.real.card_locks import CardLock
from dradriver_fpga.card.real.mechanisms import Kernel, Tool, reconfigure_port, run_tool, write_firmware
from dradriver_fpga.card.verified_files import VerifiedFile
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.card_suite import LONG
from tests.drivers.fpga.kernel.fake import FakeKernel

ALVEO, ZYNQ, PAC = "0000:af:00.1", "axi/f8007000.devcfg", "0000:3b:00.0"


@pytest.fixture
def files(tmp_path: Path) -> Bitstreams:
    return Bitstreams(tmp_path)


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    kernel = FakeKernel(tmp_path / "node")
    for model in ("alveo", "zynq", "pac"):
        kernel.plug(model)
    return kernel


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[CardLock]:
    lock = CardLock(tmp_path / "card.lock", "x")
    yield lock
    lock.release()


@pytest.fixture
def verified(tmp_path: Path, files: Bitstreams) -> Iterator[VerifiedFile]:
    file = VerifiedFile(files.file(b"bits"), 100, tmp_path / "copy")
    yield file
    file.close()


def test_the_error_of_a_failed_program_contains_its_output(kernel: FakeKernel, files: Bitstreams) -> None:
    hardware = RealFpgas(kernel.host, kernel)
    kernel.fail_next_tool()
    message = r"xbutil for 0000:af:00\.1 failed with exit status 7: ERROR: refused"
    with pytest.raises(ToolFailedError, match=message):
        hardware.program(f"{ALVEO}/0", files.fitting("alveo"), timeout=LONG)
    hardware.program(f"{ALVEO}/0", files.fitting("alveo"), timeout=LONG)


def test_the_result_of_a_program_is_verified(kernel: FakeKernel, files: Bitstreams) -> None:
    hardware = RealFpgas(replace(kernel.host, region_tools=(("true",),)), kernel)
    with pytest.raises(FpgaError, match=r"has AFU ID 0{32} after"):
        hardware.program(f"{ALVEO}/0", files.fitting("alveo"), timeout=LONG)
    assert RealFpgas(kernel.host).cards()[1].regions[0].bitstream == ""


def test_without_the_program_the_card_cannot_be_programmed(kernel: FakeKernel, files: Bitstreams) -> None:
    hardware = RealFpgas(replace(kernel.host, region_tools=(("xbutil-is-not-here", "{file}"),)), kernel)
    with pytest.raises(FpgaNotSupportedError, match=ALVEO):
        hardware.program(f"{ALVEO}/0", files.fitting("alveo"), timeout=LONG)


def test_the_first_installed_program_is_used(kernel: FakeKernel, files: Bitstreams) -> None:
    """XRT renamed `xbutil` to `xrt-smi`; a node may have either."""
    said = kernel.root / "said"
    old = ("sh", "-c", f"echo $0 > {said}; exit 1", "old")
    tools = (("xrt-smi-is-not-here", "{file}"), old, ("true",))
    with pytest.raises(ToolFailedError):
        RealFpgas(replace(kernel.host, region_tools=tools), kernel).program(
            f"{ALVEO}/0", files.fitting("alveo"), timeout=LONG
        )
    assert said.read_text().strip() == "old"


def test_xrt_smi_is_preferred_to_xbutil() -> None:
    arguments = ("program", "--device", "{card}", "--user", "{file}")
    assert FpgaHost(Path("x")).region_tools == (("xrt-smi", *arguments), ("xbutil", *arguments))


def test_a_program_that_writes_a_region_and_does_not_end_is_killed(lock: CardLock) -> None:
    with pytest.raises(ToolFailedError, match="sleep for x was killed"):
        run_tool(Tool(("sleep", "{file}"), "x", timeout=0.05), Path("60"), lock)


def test_a_missing_program_is_reported(lock: CardLock) -> None:
    with pytest.raises(ToolFailedError, match="nothing-of-that-name cannot be run: No such file"):
        run_tool(Tool(("nothing-of-that-name",), "x", timeout=1), Path("y"), lock)


def test_an_operators_own_program_may_write_a_shell(kernel: FakeKernel, files: Bitstreams) -> None:
    """Of cards whose shells only the vendor's update and a reboot of the card bring."""
    said = kernel.root / "said"
    command = ("sh", "-c", f"echo $0 > {said}; cat $1 >> {said}", "{card}", "{file}")
    hardware = RealFpgas(replace(kernel.host, shell_tools={CardKind.DFL: command}), kernel)
    assert next(card for card in hardware.cards() if card.id == PAC).mechanism is Mechanism.VENDOR_TOOL
    bitstream = files.shell("pac", 1)
    hardware.program(PAC, bitstream, timeout=LONG)
    assert said.read_bytes() == f"{PAC}\n".encode() + bitstream.path.read_bytes()


def test_firmware_is_there_for_the_manager_only(kernel: FakeKernel, files: Bitstreams) -> None:
    RealFpgas(kernel.host, kernel).program(ZYNQ, files.fitting("zynq"), timeout=LONG)
    assert list(kernel.host.firmware.iterdir()) == []


@pytest.mark.parametrize(("regions", "flags"), [(False, "0"), (True, "1")])
def test_a_manager_gets_the_flag_for_partial_programming(
    kernel: FakeKernel, files: Bitstreams, *, regions: bool, flags: str
) -> None:
    if regions:
        kernel.tree.add("platform/axi/axi:region", "platform")
        kernel.tree.add("platform/axi/axi:region/fpga_region/region7", "fpga_region")
    RealFpgas(kernel.host, kernel).program(f"{ZYNQ}/0", files.fitting("zynq"), timeout=LONG)
    manager = kernel.tree.path(f"platform/{ZYNQ}/fpga_manager/fpga1")
    assert (manager / "flags").read_text().strip() == flags


def test_an_unwritable_firmware_folder_is_reported(kernel: FakeKernel, files: Bitstreams) -> None:
    hardware = RealFpgas(replace(kernel.host, firmware=kernel.root / "missing"), kernel)
    with pytest.raises(FpgaError, match=r"dradriver-fpga1\.bin .*No such file"):
        hardware.program(ZYNQ, files.fitting("zynq"), timeout=LONG)


def test_the_manager_reports_with_its_state(kernel: FakeKernel, files: Bitstreams) -> None:
    class Reporting(FakeKernel):
        def write(self, attribute: Path, text: str) -> None:
            if attribute.name == "firmware":
                manager = f"platform/{ZYNQ}/fpga_manager/fpga1"
                self.tree.write(manager, "status", "reconfig CRC error")
                self.tree.write(manager, "state", "write error")

    kernel.__class__ = Reporting
    with pytest.raises(ManagerFailedError, match="ended in 'write error': reconfig CRC error"):
        RealFpgas(kernel.host, kernel).program(ZYNQ, files.fitting("zynq"), timeout=LONG)


def test_a_card_that_goes_is_gone_though_its_manager_is_there_for_a_moment(
    kernel: FakeKernel, files: Bitstreams
) -> None:
    class Going(FakeKernel):
        def write(self, attribute: Path, text: str) -> None:
            if attribute.name == "firmware":
                self.tree.write(f"platform/{ZYNQ}/fpga_manager/fpga1", "state", "write error")
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    kernel.__class__ = Going
    with pytest.raises(CardGoneError, match="No such device"):
        RealFpgas(kernel.host, kernel).program(ZYNQ, files.fitting("zynq"), timeout=LONG)


@pytest.mark.parametrize(
    ("code", "error"),
    [(1, FpgaPermissionError), (13, FpgaPermissionError), (19, CardGoneError), (5, FpgaError)],
)
def test_error_numbers_of_the_kernel_become_different_errors(
    tmp_path: Path, verified: VerifiedFile, code: int, error: type[FpgaError]
) -> None:
    class Refusing(Kernel):
        def write(self, attribute: Path, text: str) -> None:
            raise OSError(code, os.strerror(code))

        def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
            raise OSError(code, os.strerror(code))

    with pytest.raises(FpgaError) as of_firmware:
        write_firmware(Refusing(), tmp_path / "fpga0", tmp_path, verified, partial=False)
    with pytest.raises(FpgaError) as of_port:
        reconfigure_port(Refusing(), tmp_path / "dfl-fme.0", 0, verified)
    assert type(of_firmware.value) is type(of_port.value) is error


def test_the_kernel_of_this_node_writes_attributes_and_rejects_the_ioctl(
    tmp_path: Path, verified: VerifiedFile
) -> None:
    attribute, no_engine = tmp_path / "firmware", tmp_path / "dfl-fme.0"
    attribute.touch()
    no_engine.touch()
    Kernel().write(attribute, "file.bin")
    assert attribute.read_text() == "file.bin"
    with pytest.raises(FpgaNotSupportedError):
        reconfigure_port(Kernel(), no_engine, 0, verified)
    with pytest.raises(FileNotFoundError):
        Kernel().write(tmp_path / "nothing", "")
