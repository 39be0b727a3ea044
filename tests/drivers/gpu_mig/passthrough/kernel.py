"""A tree like sysfs below a folder, and the kernel's driver core: what a write to one of its files does.

`PciTree` makes the files. `FakeKernel` is a `PciBus` whose writes have the effects that the driver core of
Linux has (drivers/base/bus.c, drivers/base/dd.c, drivers/pci/pci-driver.c): `unbind` fails for a function of
another driver, `drivers_probe` binds the driver of the override or else the one that knows the device, and
`vfio-pci` knows no device. All of it is in the tree, so it outlives the process.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from dradriver_gpu_mig.passthrough import PciBus

DRIVERS = ("nvidia", "vfio-pci", "snd_hda_intel", "nvme", "pcieport")
_NO_DEVICE = "No such device"


def _ignore(_address: str, _driver: str | None) -> None:
    """Default callback: does nothing."""


class PciTree:
    """Functions, IOMMU groups and drivers below `sysfs`."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs = sysfs
        for driver in DRIVERS:
            (sysfs / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)

    def add(
        self,
        address: str,
        group: int,
        native: str | None,
        *,
        pci_class: str = "0x030200",
        device: str = "0x2331",
    ) -> None:
        """A function with the driver that knows it."""
        folder = self.sysfs / "devices/pci0000:00" / address
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {
            "class": pci_class,
            "vendor": "0x10de",
            "device": "0x2331",
            "driver_override": "(null)",
            "resource": "0x0 0xffffff 0x40200\n0x2000000000 0x3fffffffff 0x14220c\n0x0 0x0 0x0\n",
            "native": native or "",
        }.items():
            (folder / name).write_text(text + "\n")
        links = self.sysfs / "bus/pci/devices"
        links.mkdir(exist_ok=True)
        (links / address).symlink_to(folder)
        members = self.sysfs / "kernel/iommu_groups" / str(group) / "devices"
        members.mkdir(parents=True, exist_ok=True)
        (members / address).symlink_to(folder)
        (folder / "iommu_group").symlink_to(members.parent)
        if native is not None:
            bind_driver(self.sysfs, address, native)

    def driver(self, address: str) -> str | None:
        link = self.sysfs / "bus/pci/devices" / address / "driver"
        return link.resolve().name if link.exists() else None

    def override(self, address: str) -> str:
        return (self.sysfs / "bus/pci/devices" / address / "driver_override").read_text().strip()


def bind_driver(sysfs: Path, address: str, driver: str | None) -> None:
    """Bind a function to a driver, or to none."""
    folder = (sysfs / "bus/pci/devices" / address).resolve()
    (folder / "driver").unlink(missing_ok=True)
    if driver is not None:
        (folder / "driver").symlink_to(sysfs / "bus/pci/drivers" / driver)
    shutil.rmtree(folder / "vfio-dev", ignore_errors=True)
    if driver == "vfio-pci":
        (folder / "vfio-dev/vfio0").mkdir(parents=True)


class FakeKernel(PciBus):
    """The PCI functions of a tree, with the driver core's behavior.

    Args:
        sysfs: the tree.
        on_change: called with the address and the new driver before each change of a function's driver.
        on_write: called before and after each write.
    """

    def __init__(
        self,
        sysfs: Path,
        on_change: Callable[[str, str | None], None] = _ignore,
        on_write: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(sysfs)
        self.tree, self.on_change, self.on_write = PciTree(sysfs), on_change, on_write

    def _write(self, path: Path, value: str) -> None:
        self.on_write()
        try:
            match path.name:
                case "driver_override":
                    super()._write(path, value.strip() or "(null)")
                case "unbind":
                    self._do_unbind(path.parent.resolve().name, value)
                case "drivers_probe":
                    self._do_probe(value)
                case other:
                    raise AssertionError(other)
        except OSError as error:
            raise AssertionError("the fake kernel refused a write") from error
        self.on_write()

    def _do_unbind(self, driver: str, address: str) -> None:
        if self.tree.driver(address) != driver:
            raise OSError(_NO_DEVICE)
        self._change(address, None)

    def _do_probe(self, address: str) -> None:
        override = self.tree.override(address)
        native = (self.tree.sysfs / "bus/pci/devices" / address / "native").read_text().strip()
        driver = native if override == "(null)" else override
        if driver and self.tree.driver(address) is None:
            self._change(address, driver)

    def _change(self, address: str, driver: str | None) -> None:
        self.on_change(address, driver)
        bind_driver(self.tree.sysfs, address, driver)
