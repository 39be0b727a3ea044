"""Paths of a node's files, as this process sees them."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryPaths"]


@dataclass(frozen=True, slots=True)
class MemoryPaths:
    """The paths of a node.

    Attributes:
        sysfs, dev, proc: mount points. `proc` shows the programs that use a device only if it is the host's.
        udev_control: socket of udevd. If it exists, uevents come from udevd after it has processed them.
    """

    sysfs: Path = Path("/sys")
    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    udev_control: Path = Path("/run/udev/control")

    @property
    def cxl(self) -> Path:
        """Folder of all CXL devices."""
        return self.sysfs / "bus/cxl/devices"

    @property
    def region_driver(self) -> Path:
        """Folder of the driver of regions."""
        return self.sysfs / "bus/cxl/drivers/cxl_region"

    @property
    def dax(self) -> Path:
        """Folder of all dax devices."""
        return self.sysfs / "bus/dax/devices"

    @property
    def dax_drivers(self) -> Path:
        """Folder of the drivers of dax devices."""
        return self.sysfs / "bus/dax/drivers"

    @property
    def blocks(self) -> Path:
        """Folder of the blocks of system RAM."""
        return self.sysfs / "devices/system/memory"
