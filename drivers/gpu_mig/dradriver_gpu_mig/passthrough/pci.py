"""PCI functions in sysfs: their IOMMU group, and the driver that the kernel's driver core binds to them.

Source:
    Linux, Documentation/ABI/testing/sysfs-bus-pci: `driver_override`, `bind`, `unbind`, `drivers_probe`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dradriver as dra

__all__ = ["VFIO_DRIVER", "IommuGroup", "PciBus", "PciFunctionState"]

VFIO_DRIVER: Final = "vfio-pci"
_BRIDGE_CLASS: Final = "0x06"
_BARS: Final = 6
_RESOURCE_COLUMNS: Final = 3
_BAR_64_BIT: Final = 0x4
"""PCI_BASE_ADDRESS_MEM_TYPE_64 in the flags of sysfs' file `resource`."""


@dataclass(frozen=True, slots=True)
class PciFunctionState:
    """One function, as sysfs shows it now.

    Attributes:
        address: `0000:07:00.0`.
        driver: name of its driver; None: no driver is bound.
        override: name of the only driver that may be bound to it; "": any.
        is_bridge: whether it is a bridge, which no virtual machine gets.
    """

    address: str
    driver: str | None
    override: str
    is_bridge: bool


@dataclass(frozen=True, slots=True)
class IommuGroup:
    """Functions that the IOMMU cannot tell apart.

    Attributes:
        number: N of `/dev/vfio/N`.
        functions: all functions, sorted by address.
    """

    number: int
    functions: tuple[PciFunctionState, ...]


class PciBus:
    """The PCI functions of a node. All methods block.

    Args:
        sysfs: mount point of sysfs, which must be writable for `bind` and `unbind`.
    """

    def __init__(self, sysfs: Path) -> None:
        self._bus = sysfs / "bus/pci"

    def read_group(self, address: str) -> IommuGroup | None:
        """Return the IOMMU group of a function; None: the function is gone, or the node has no IOMMU.

        Args:
            address: PCI address of the function.
        """
        folder = self._folder(address) / "iommu_group"
        try:
            number = int(folder.resolve(strict=True).name)
            members = sorted(path.name for path in (folder / "devices").iterdir())
        except (OSError, ValueError):
            return None
        functions = (self.read_function(member) for member in members)
        return IommuGroup(number, tuple(function for function in functions if function is not None))

    def read_function(self, address: str) -> PciFunctionState | None:
        """Return a function, or None if it is gone.

        Args:
            address: PCI address of the function.
        """
        folder = self._folder(address)
        if not folder.is_dir():
            return None
        driver = folder / "driver"
        override = _read(folder / "driver_override")
        return PciFunctionState(
            address,
            driver.resolve().name if driver.exists() else None,
            "" if override == "(null)" else override,
            _read(folder / "class").startswith(_BRIDGE_CLASS),
        )

    def read_ids(self, address: str) -> tuple[str, str]:
        """Return the vendor and the device ID of a function, for example `0x10de` and `0x2331`.

        Args:
            address: PCI address of the function.
        """
        return _read(self._folder(address) / "vendor"), _read(self._folder(address) / "device")

    def read_addressable_memory(self, address: str) -> int:
        """Return the bytes of a function's 64-bit memory BARs, rounded up to a power of two.

        A virtual machine monitor needs this number for the guest's PCI window. 0: the function is gone.

        Args:
            address: PCI address of the function.
        """
        rows = [line.split() for line in _read(self._folder(address) / "resource").splitlines()[:_BARS]]
        regions = [[int(number, 16) for number in row] for row in rows if len(row) == _RESOURCE_COLUMNS]
        size = sum(end - start + 1 for start, end, flags in regions if flags & _BAR_64_BIT and end)
        return 1 << (size - 1).bit_length() if size else 0

    def count_virtual_functions(self, address: str) -> int:
        """Return the number of SR-IOV functions that a function has now.

        Args:
            address: PCI address of the function.
        """
        text = _read(self._folder(address) / "sriov_numvfs")
        return int(text) if text.isdigit() else 0

    def find_vfio_device(self, address: str) -> str | None:
        """Return the name of a function's device below `/dev/vfio/devices`, such as `vfio0`, or None.

        Args:
            address: PCI address of the function, which must be bound to vfio-pci.
        """
        folder = self._folder(address) / "vfio-dev"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return names[0] if names else None

    def has_driver(self, driver: str) -> bool:
        """Return whether a driver is loaded.

        Args:
            driver: name of the driver.
        """
        return (self._bus / "drivers" / driver).is_dir()

    def bind(self, address: str, driver: str) -> None:
        """Bind a function to a driver, and to no other driver until `release`. Repeating the call is a no-op.

        If the process dies between two writes, the function has its old driver and an override, or no driver
        and an override. The call can then be repeated, or reverted by `release`.

        Args:
            address: PCI address of the function.
            driver: name of a loaded driver.

        Raises:
            DraError: sysfs cannot be written, or the driver refuses the function.
        """
        self._write(self._folder(address) / "driver_override", driver)
        self._unbind_from_other(address, driver)
        self._probe(address, driver)

    def release(self, address: str, driver: str | None) -> None:
        """Return a function to a driver. Repeating the call is a no-op. For a function that is gone, too.

        If the process dies between two writes, the function has no override and the old driver, or no driver.
        The call can then be repeated.

        Args:
            address: PCI address of the function.
            driver: name of the driver; None: no driver.

        Raises:
            DraError: sysfs cannot be written, or the driver refuses the function.
        """
        if self.read_function(address) is None:
            return
        self._write(self._folder(address) / "driver_override", "\n")
        self._unbind_from_other(address, driver)
        if driver is not None:
            self._probe(address, driver)

    def _unbind_from_other(self, address: str, driver: str | None) -> None:
        function = self.read_function(address)
        if function is not None and function.driver not in {None, driver}:
            self._write(self._folder(address) / "driver/unbind", address)

    def _probe(self, address: str, driver: str) -> None:
        function = self.read_function(address)
        if function is not None and function.driver is None:
            self._write(self._bus / "drivers_probe", address)
            function = self.read_function(address)
        if function is None or function.driver != driver:
            raise dra.DraError(f"PCI function {address}: the kernel does not bind it to {driver}")

    def _folder(self, address: str) -> Path:
        return self._bus / "devices" / address

    def _write(self, path: Path, value: str) -> None:
        """Write an attribute. The kernel has executed the request when the write returns."""
        try:
            path.write_text(value)
        except OSError as error:
            raise dra.DraError(f"{path} cannot be written: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
