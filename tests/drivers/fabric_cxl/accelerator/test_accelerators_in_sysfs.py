"""The contract of accelerators on a tree as sysfs has it, and what sysfs has besides accelerators."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from dradriver_fabric_cxl.accelerator import CharacterDevice
from dradriver_fabric_cxl.accelerator.sysfs import SysfsAccelerators
from tests.drivers.fabric_cxl.accelerator_suite import FIRST, SECOND, AcceleratorsSuite

GPU, BRIDGE = "0x030200", "0x060400"


def config_space(serial: int | None, header: bytes | None = None) -> bytes:
    """The 4096 bytes of a PCI Express device: errors at 0x100, and its serial number behind them, if any."""
    space = bytearray(4096)
    following = 0x150 if serial is not None else 0
    space[0x100:0x104] = (
        header if header is not None else (0x0001 | 2 << 16 | following << 20).to_bytes(4, "little")
    )
    if serial is not None:
        space[0x150:0x154] = (0x0003 | 1 << 16).to_bytes(4, "little")
        space[0x154:0x15C] = serial.to_bytes(8, "little")
    return bytes(space)


@dataclass
class PciTree:
    """A tree of PCI devices. As in the kernel, the folders of the bus are links."""

    sysfs: Path

    def __post_init__(self) -> None:
        (self.sysfs / "bus/pci/devices").mkdir(parents=True)

    def add(self, address: str, config: bytes, kind: str = GPU) -> Path:
        folder = self.sysfs / "devices/pci0000:c0/0000:c0:01.0" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"{kind}\n")
        (folder / "config").write_bytes(config)
        (self.sysfs / "bus/pci/devices" / address).symlink_to(folder)
        return folder

    def add_node(self, device: Path, path: str, number: str, name: str, subsystem: str = "drm") -> None:
        folder = device / path
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        (folder / "uevent").write_text(f"MAJOR={number.partition(':')[0]}\nDEVNAME={name}\n")
        (self.sysfs / "class" / subsystem).mkdir(parents=True, exist_ok=True)
        (folder / "subsystem").symlink_to(self.sysfs / "class" / subsystem)

    # Changes as the contract makes them.

    def plug(self, serial: int) -> None:
        number = len(list((self.sysfs / "bus/pci/devices").iterdir()))
        self.add(f"0000:c{number + 1}:00.0", config_space(serial))
        self.set_driver(serial, has_driver=True)

    def unplug(self, serial: int) -> None:
        link = self._find(serial)
        shutil.rmtree(link.resolve())
        link.unlink()

    def set_driver(self, serial: int, *, has_driver: bool) -> None:
        link = self._find(serial)
        if has_driver:
            minor = 127 + int(link.name[6])
            self.add_node(link, f"drm/renderD{minor}", f"226:{minor}", f"dri/renderD{minor}")
        else:
            shutil.rmtree(link / "drm")

    def _find(self, serial: int) -> Path:
        config = config_space(serial)
        return next(
            link
            for link in (self.sysfs / "bus/pci/devices").iterdir()
            if (link / "config").read_bytes() == config
        )


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(tmp_path / "sys")


class TestSysfs(AcceleratorsSuite):
    @pytest.fixture
    def slots(self, tree: PciTree) -> PciTree:
        return tree

    @pytest.fixture
    def accelerators(self, tree: PciTree) -> SysfsAccelerators:
        return SysfsAccelerators(tree.sysfs)


def test_devices_without_a_serial_number_and_bridges_are_left_out(tree: PciTree) -> None:
    tree.add("0000:c1:00.0", config_space(None))
    tree.add("0000:c2:00.0", config_space(FIRST), kind=BRIDGE)
    assert SysfsAccelerators(tree.sysfs).devices() == ()


@pytest.mark.parametrize(
    "config",
    [
        config_space(FIRST)[:64],
        config_space(FIRST)[:0x156],
        b"\xff" * 4096,
        config_space(None, header=(0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")),
    ],
    ids=["not root", "cut", "the device does not answer", "capabilities in a circle"],
)
def test_a_device_whose_serial_number_cannot_be_read_is_left_out(tree: PciTree, config: bytes) -> None:
    tree.add("0000:c1:00.0", config)
    assert SysfsAccelerators(tree.sysfs).devices() == ()


def test_a_node_without_pci_has_no_accelerators(tmp_path: Path) -> None:
    assert SysfsAccelerators(tmp_path).devices() == ()


def test_the_functions_of_one_device_are_one_accelerator(tree: PciTree) -> None:
    tree.add_node(tree.add("0000:c1:00.0", config_space(FIRST)), "accel/accel0", "261:0", "accel/accel0")
    tree.add_node(tree.add("0000:c1:00.1", config_space(FIRST)), "misc/dsp0", "10:120", "dsp0", "misc")
    tree.add_node(tree.add("0000:c2:00.0", config_space(SECOND)), "accel/accel1", "261:1", "accel/accel1")
    first, _ = SysfsAccelerators(tree.sysfs).devices()
    assert first.address == "0000:c1:00.0"
    assert first.nodes == (CharacterDevice("/dev/accel/accel0", 261, 0), CharacterDevice("/dev/dsp0", 10, 120))


def test_disks_and_parts_of_the_card_are_no_device_nodes_of_an_accelerator(tree: PciTree) -> None:
    card = tree.add("0000:c1:00.0", config_space(FIRST))
    tree.add_node(card, "block/vda", "254:0", "vda", "block")
    tree.add_node(card, "i2c-5/i2c-dev/i2c-5", "89:5", "i2c-5", "i2c-dev")
    (found,) = SysfsAccelerators(tree.sysfs).devices()
    assert found.nodes == ()
