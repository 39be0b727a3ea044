"""Cards with Intel's driver from before DFL: found, programmed through its own ioctl, and faulty."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dradriver_fpga.card import (
    BusyError,
    CardKind,
    FaultKind,
    FpgaError,
    IncompatibleError,
    Mechanism,
    find_faults,
)
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.real.intel_driver import IntelPortReconfiguration
from dradriver_fpga.card.real.mechanisms import Kernel
from dradriver_fpga.card.simulator import CATALOG
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams
from tests.drivers.fpga.card_suite import LONG
from tests.drivers.fpga.kernel.cards import add_out_of_tree_card
from tests.drivers.fpga.kernel.tree import Tree

CARD, PAC = "0000:3b:00.0", CATALOG["pac"]


class IntelKernel(Kernel):
    """Answers the ioctl: `answer` may fail, and sets the status that the driver writes back."""

    def __init__(self, tree: Tree, answer: Callable[[IntelPortReconfiguration], None]) -> None:
        self.tree, self.answer = tree, answer
        self.folder = add_out_of_tree_card(tree, PAC, CARD)

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        assert isinstance(argument, IntelPortReconfiguration)
        assert (node.name, request, argument.argsz, argument.port_id) == ("intel-fpga-fme.0", 0xB580, 32, 0)
        self.answer(argument)
        if not argument.status:
            afu = ctypes.string_at(argument.buffer_address, argument.buffer_size)[:16].hex()
            self.tree.write(f"{self.folder}/intel-fpga-port.0", "afu_id", afu)


def accept(_: IntelPortReconfiguration) -> None:
    """The card takes the bits."""


def report(argument: IntelPortReconfiguration) -> None:
    argument.status = 0x10


def refuse(argument: IntelPortReconfiguration) -> None:
    argument.status = 0x10
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def be_busy(_: IntelPortReconfiguration) -> None:
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def make(
    tmp_path: Path, answer: Callable[[IntelPortReconfiguration], None] = accept
) -> tuple[RealFpgas, IntelKernel]:
    kernel = IntelKernel(Tree(tmp_path / "sys"), answer)
    host = FpgaHost(records=tmp_path / "records.json", sysfs=kernel.tree.sysfs, dev=tmp_path / "dev")
    return RealFpgas(host, kernel), kernel


def test_its_cards_read_like_those_of_dfl(tmp_path: Path) -> None:
    (card,) = make(tmp_path)[0].cards()
    (region,) = card.regions
    assert (card.kind, card.shell, card.interface_id) == (
        CardKind.DFL,
        PAC.shells[0].name,
        PAC.shells[0].interface_id,
    )
    assert (region.afu_id, region.mechanism) == (PAC.afu, Mechanism.INTEL_PORT)
    assert [node.path for slot in region.slots for node in slot.nodes] == ["/dev/intel-fpga-port.0"]
    assert [node.path for node in card.management] == ["/dev/intel-fpga-fme.0"]
    assert find_faults(card) == ()


def test_a_port_is_programmed_by_its_own_ioctl(tmp_path: Path) -> None:
    hardware, _ = make(tmp_path)
    bitstream = Bitstreams(tmp_path).fitting("pac")
    hardware.program(f"{CARD}/0", bitstream, timeout=LONG)
    (region,) = hardware.cards()[0].regions
    assert (region.afu_id, region.bitstream) == (AFU, bitstream.sha256)
    with pytest.raises(IncompatibleError):
        hardware.program(f"{CARD}/0", Bitstreams(tmp_path).fitting("pac", shell=1), timeout=LONG)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (report, FpgaError, "ended with status 0x10"),
        (refuse, FpgaError, r"\(status 0x10\): Input/output error"),
        (be_busy, BusyError, "busy"),
    ],
)
def test_errors_of_the_driver_are_reported(
    tmp_path: Path, answer: Callable[[IntelPortReconfiguration], None], error: type[FpgaError], message: str
) -> None:
    hardware, _ = make(tmp_path, answer)
    with pytest.raises(error, match=message):
        hardware.program(f"{CARD}/0", Bitstreams(tmp_path).fitting("pac"), timeout=LONG)
    assert hardware.cards()[0].regions[0].bitstream == ""


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        ("errors/bbs_errors", FaultKind.FATAL_ERROR),
        ("errors/gbs_errors", FaultKind.ERROR),
        ("errors/fme-errors/errors", FaultKind.ERROR),
        ("errors/inject_error", FaultKind.ERROR),
    ],
)
def test_its_error_registers_have_other_names(tmp_path: Path, attribute: str, kind: FaultKind) -> None:
    hardware, kernel = make(tmp_path)
    kernel.tree.write(f"{kernel.folder}/intel-fpga-fme.0", attribute, "0x8")
    assert [fault.kind for fault in find_faults(hardware.cards()[0])] == [kind]
