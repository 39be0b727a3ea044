"""The programmed bytes are the verified ones, although other processes can write to the original file."""

import ctypes
import os
import stat
from pathlib import Path

import pytest

from dradriver_fpga.card import WrongDigestError
from dradriver_fpga.card.real import RealFpgas
from dradriver_fpga.card.real.mechanisms import PortReconfiguration
from dradriver_fpga.card.verified_files import VerifiedFile, create_private
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams
from tests.drivers.fpga.card_suite import LONG
from tests.drivers.fpga.kernel.fake import FakeKernel

CARDS = {"pac": "0000:3b:00.0/0", "zynq": "axi/f8007000.devcfg/0", "alveo": "0000:af:00.1/0"}


@pytest.fixture
def files(tmp_path: Path) -> Bitstreams:
    return Bitstreams(tmp_path)


class Exchanging(FakeKernel):
    """Another process exchanges the original file after the check, before the kernel reads any bits."""

    original: Path
    programmed: bytes = b""

    def write(self, attribute: Path, text: str) -> None:
        if attribute.name == "flags":
            self.original.write_bytes(b"evil" * 2000)
        if attribute.name == "firmware":
            self.programmed = (self.root / "firmware" / text).read_bytes()
        super().write(attribute, text)

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        assert isinstance(argument, PortReconfiguration)
        self.original.write_bytes(b"evil" * 2000)
        self.programmed = ctypes.string_at(argument.buffer_address, argument.buffer_size)
        super().ioctl(node, request, argument)


@pytest.mark.parametrize("model", ["pac", "zynq"])
def test_a_file_that_is_exchanged_after_the_check_is_not_programmed(
    tmp_path: Path, files: Bitstreams, model: str
) -> None:
    kernel = Exchanging(tmp_path / "node")
    kernel.plug(model)
    bitstream = files.fitting(model)
    expected = bitstream.path.read_bytes()
    kernel.original = bitstream.path
    RealFpgas(kernel.host, kernel).program(CARDS[model], bitstream, timeout=LONG)
    assert kernel.programmed == expected[-len(kernel.programmed) :]
    assert kernel.programmed.startswith(bytes.fromhex(AFU))


def test_a_vendors_program_gets_the_private_copy(tmp_path: Path, files: Bitstreams) -> None:
    kernel = FakeKernel(tmp_path / "node")
    kernel.plug("alveo")
    bitstream, tool = files.fitting("alveo"), kernel.root / "xbutil"
    said = kernel.root / "said"
    script = tool.read_text().splitlines()
    exchange = [f"echo evil > {bitstream.path}", f'stat -c "%a %n" "$2" > {said}']
    tool.write_text("\n".join([script[0], *exchange, *script[1:]]))
    RealFpgas(kernel.host, kernel).program(CARDS["alveo"], bitstream, timeout=LONG)
    mode, path = said.read_text().split()
    assert (mode, Path(path).parent) == ("600", kernel.host.private)
    assert stat.S_IMODE(kernel.host.private.stat().st_mode) == 0o700
    assert [each.name for each in kernel.host.private.iterdir()] == ["pci-0000-af-00-1.lock"]


def test_a_copy_that_a_dead_process_left_is_replaced(tmp_path: Path, files: Bitstreams) -> None:
    copy = tmp_path / "private/copy"
    copy.parent.mkdir()
    (tmp_path / "secret").write_text("secret")
    copy.symlink_to(tmp_path / "secret")
    file = VerifiedFile(files.file(b"bits"), 100, copy)
    assert copy.read_bytes() == b"bits"
    assert (tmp_path / "secret").read_text() == "secret"
    file.close()
    assert not os.path.lexists(copy)


def test_a_rejected_file_leaves_no_copy(tmp_path: Path, files: Bitstreams) -> None:
    bitstream = files.file(b"bits")
    bitstream.path.write_bytes(b"evil")
    with pytest.raises(WrongDigestError):
        VerifiedFile(bitstream, 100, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_bits_arrive_without_the_header(tmp_path: Path, files: Bitstreams) -> None:
    file = VerifiedFile(files.fitting("pac"), 10_000, tmp_path / "copy")
    bits = bytes.fromhex(AFU) + bytes(5000)
    with create_private(tmp_path / "target") as target:
        file.send_bits(target)
    assert (tmp_path / "target").read_bytes() == bits
    with file.map_bits() as (address, size):
        assert ctypes.string_at(address, size) == bits
    file.close()


def test_an_empty_file_has_no_bits(tmp_path: Path, files: Bitstreams) -> None:
    file = VerifiedFile(files.file(b""), 100, tmp_path / "copy")
    with file.map_bits() as mapped:
        assert mapped == (0, 0)
    file.close()
