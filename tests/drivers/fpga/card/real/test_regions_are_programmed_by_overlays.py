"""Regions of a plain manager: by an overlay, which closes their bridges, or by the manager without bridges."""

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dradriver_fpga.card import FpgaError, FpgaNotSupportedError, Mechanism
from dradriver_fpga.card.real import FpgaHost, RealFpgas
from dradriver_fpga.card.real.overlays import make_overlay
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.card_suite import LONG
from tests.drivers.fpga.kernel.fake import FakeKernel

ZYNQ = "axi/f8007000.devcfg"
REGION = f"{ZYNQ}/0"
NODE = "/soc/base_fpga_region/region@1"
OVERLAY = "dradriver-region7"


class DiedError(Exception):
    """The process died here."""


class OverlayKernel(FakeKernel):
    """A kernel with overlays in configfs.

    Attributes:
        steps: what it did.
        dies_after: the step after which the process dies.
        status: what the overlay's file `status` says after it was applied.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.steps: list[str] = []
        self.written = b""
        self.dies_after, self.status = "", "applied"
        self.overlays = root / "config"
        self.overlays.mkdir()

    @property
    def host(self) -> FpgaHost:
        return replace(super().host, overlays=self.overlays)

    def add_region(self, node: str = NODE, *, bridges: bool = True) -> None:
        self.tree.add("platform/axi/axi:region", "platform")
        self.tree.add("platform/axi/axi:region/fpga_region/region7", "fpga_region")
        folder = self.tree.sysfs / f"firmware/devicetree/base{node}"
        folder.mkdir(parents=True)
        if bridges:
            (folder / "fpga-bridges").write_bytes(b"\0\0\0\5")
        (self.tree.path("platform/axi/axi:region") / "of_node").symlink_to(folder)

    def make_folder(self, folder: Path) -> None:
        super().make_folder(folder)
        (folder / "path").touch()
        (folder / "status").write_text("unapplied\n")
        self._did("folder made")

    def remove_folder(self, folder: Path) -> None:
        shutil.rmtree(folder)
        self._did("bridges closed")

    def write(self, attribute: Path, text: str) -> None:
        if attribute.name != "path":
            super().write(attribute, text)
            return
        firmware = self.host.firmware
        found = parse_overlay((firmware / text).read_bytes())
        assert found["/fragment@0/target-path"] == NODE
        assert found["/fragment@0/__overlay__/partial-fpga-config"] == ""
        self.written = (firmware / found["/fragment@0/__overlay__/firmware-name"]).read_bytes()
        (attribute.parent / "status").write_text(f"{self.status}\n")
        self._did("programmed")

    def _did(self, step: str) -> None:
        self.steps.append(step)
        if self.dies_after == step:
            raise DiedError


def parse_overlay(blob: bytes) -> dict[str, str]:
    """The texts of all properties of a flattened device tree, by path."""
    magic, size, tree, strings, *_ = struct.unpack(">10I", blob[:40])
    assert (magic, size) == (0xD00DFEED, len(blob))
    found: dict[str, str] = {}
    path: list[str] = []
    at = tree
    while (token := int.from_bytes(blob[at : at + 4], "big")) != 9:
        at += 4
        if token == 1:
            end = blob.index(b"\0", at)
            path.append(blob[at:end].decode())
            at = end + 1
        elif token == 2:
            path.pop()
        else:
            assert token == 3
            length, name = struct.unpack(">2I", blob[at : at + 8])
            key = blob[strings + name : blob.index(b"\0", strings + name)].decode()
            found["/".join((*path, key))] = blob[at + 8 : at + 8 + length].rstrip(b"\0").decode()
            at += 8 + length
        at += -at % 4
    assert path == []
    return found


@pytest.fixture
def kernel(tmp_path: Path) -> OverlayKernel:
    kernel = OverlayKernel(tmp_path / "node")
    kernel.plug("zynq")
    return kernel


@pytest.fixture
def files(tmp_path: Path) -> Bitstreams:
    return Bitstreams(tmp_path)


def mechanism(kernel: FakeKernel, host: FpgaHost) -> Mechanism | None:
    (card,) = RealFpgas(host, kernel).cards()
    return card.regions[0].mechanism


def test_the_overlay_names_the_region_and_the_file() -> None:
    assert parse_overlay(make_overlay("/soc/r", "a.bin")) == {
        "/fragment@0/target-path": "/soc/r",
        "/fragment@0/__overlay__/firmware-name": "a.bin",
        "/fragment@0/__overlay__/partial-fpga-config": "",
    }


def test_a_region_of_the_device_tree_is_programmed_by_an_overlay(
    kernel: OverlayKernel, files: Bitstreams
) -> None:
    kernel.add_region()
    hardware = RealFpgas(kernel.host, kernel)
    bitstream = files.fitting("zynq")
    hardware.program(REGION, bitstream, timeout=LONG)
    assert kernel.written == bitstream.path.read_bytes()
    assert (kernel.overlays / OVERLAY / "status").read_text() == "applied\n"
    assert list(kernel.host.firmware.iterdir()) == []
    assert hardware.cards()[0].regions[0].bitstream == bitstream.sha256
    hardware.program(REGION, files.fitting("zynq", "f00d" * 8), timeout=LONG)
    assert kernel.steps == ["folder made", "programmed", "bridges closed", "folder made", "programmed"]


@pytest.mark.parametrize("step", ["bridges closed", "folder made", "programmed"])
def test_a_process_that_dies_after_a_step_leaves_what_the_next_one_replaces(
    kernel: OverlayKernel, files: Bitstreams, step: str
) -> None:
    kernel.add_region()
    RealFpgas(kernel.host, kernel).program(REGION, files.fitting("zynq"), timeout=LONG)
    kernel.dies_after = step
    with pytest.raises(DiedError):
        RealFpgas(kernel.host, kernel).program(REGION, files.fitting("zynq", "f00d" * 8), timeout=LONG)
    assert RealFpgas(kernel.host, kernel).cards()[0].regions[0].bitstream == ""
    kernel.dies_after = ""
    bitstream = files.fitting("zynq", "beef" * 8)
    RealFpgas(kernel.host, kernel).program(REGION, bitstream, timeout=LONG)
    assert kernel.written == bitstream.path.read_bytes()
    assert RealFpgas(kernel.host, kernel).cards()[0].regions[0].bitstream == bitstream.sha256


def test_an_overlay_that_is_not_applied_is_an_error(kernel: OverlayKernel, files: Bitstreams) -> None:
    kernel.add_region()
    kernel.status = "unapplied"
    with pytest.raises(FpgaError, match="dradriver-region7 was not applied: its status is 'unapplied'"):
        RealFpgas(kernel.host, kernel).program(REGION, files.fitting("zynq"), timeout=LONG)


def test_bridges_that_nothing_can_close_refuse_the_region(kernel: OverlayKernel, files: Bitstreams) -> None:
    kernel.add_region()
    host = replace(kernel.host, overlays=kernel.root / "missing")
    assert mechanism(kernel, host) is None
    with pytest.raises(FpgaNotSupportedError):
        RealFpgas(host, kernel).program(REGION, files.fitting("zynq"), timeout=LONG)


def test_a_region_below_a_bridge_has_this_bridge(kernel: OverlayKernel) -> None:
    kernel.add_region(bridges=False)
    host = replace(kernel.host, overlays=kernel.root / "missing")
    assert mechanism(kernel, host) is Mechanism.FIRMWARE
    (kernel.tree.path("platform/axi") / "fpga_bridge" / "br9").mkdir(parents=True)
    assert mechanism(kernel, host) is None


def test_a_manager_that_takes_no_files_is_programmed_by_amds_manager(
    kernel: OverlayKernel, files: Bitstreams
) -> None:
    (kernel.tree.path(f"platform/{ZYNQ}/fpga_manager/fpga0") / "firmware").unlink()
    assert mechanism(kernel, replace(kernel.host, manager_tools=())) is None
    said = kernel.root / "said"
    host = replace(
        kernel.host, manager_tools=(("sh", "-c", f"echo $0 > {said}; cat $1 >> {said}", "-b", "{file}"),)
    )
    assert mechanism(kernel, host) is Mechanism.VENDOR_TOOL
    bitstream = files.fitting("zynq")
    RealFpgas(host, kernel).program(REGION, bitstream, timeout=LONG)
    assert said.read_bytes() == b"-b\n" + bitstream.path.read_bytes()


def test_amds_manager_gets_its_documented_arguments() -> None:
    assert FpgaHost(Path("x")).manager_tools == (("dfx-mgr-client", "-b", "{file}", "-f", "Full"),)
