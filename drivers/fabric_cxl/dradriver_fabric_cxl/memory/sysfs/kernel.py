"""Changes the kernel's state through sysfs."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.errors import (
    CxlMemoryError,
    MemoryInUseError,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.memory.kernel import CxlKernel, DaxDevice, DaxDriver, KernelState
from dradriver_fabric_cxl.memory.sysfs.files import AttributeWriteError, find_driver, parse_number, read, write
from dradriver_fabric_cxl.memory.sysfs.mailbox import ask_health
from dradriver_fabric_cxl.memory.sysfs.paths import MemoryPaths
from dradriver_fabric_cxl.memory.sysfs.programs import clear_device, write_all
from dradriver_fabric_cxl.memory.sysfs.survey import read_kernel
from dradriver_fabric_cxl.memory.sysfs.users import find_user
from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = ["SysfsKernel"]

_NAME_ATTEMPTS: Final = 5
"""Attempts to make a region: another process can take the name that the kernel offers."""
_GRANULARITY: Final = 256


class SysfsKernel(CxlKernel):
    """The kernel of this node. See `CxlKernel`.

    Args:
        paths: the paths of the node.
        offline_seconds: time limit for bringing the memory of a device offline.
    """

    def __init__(self, paths: MemoryPaths, offline_seconds: float) -> None:
        self._paths = paths
        self._offline_seconds = offline_seconds

    def read(self) -> KernelState:
        """See `CxlKernel`."""
        return read_kernel(self._paths)

    def health(self, memdev: str) -> MemoryHealth:
        """See `CxlKernel`."""
        return ask_health(self._paths.dev / "cxl" / memdev)

    def reserve(self, decoder: str, size: int) -> None:
        """See `CxlKernel`."""
        folder = self._paths.cxl / decoder
        if size:
            write(folder / "mode", "ram")
        write(folder / "dpa_size", f"{size:#x}")

    def create_region(self, root: str) -> str:
        """See `CxlKernel`."""
        attribute = self._paths.cxl / root / "create_ram_region"
        for _ in range(_NAME_ATTEMPTS):
            name = read(attribute)
            try:
                write(attribute, name)
            except AttributeWriteError as error:
                if error.errno != errno.EBUSY:
                    raise
            else:
                return name
        raise CxlMemoryError(f"{attribute}: another process takes every name that the kernel offers")

    def set_size(self, region: str, size: int) -> None:
        """See `CxlKernel`."""
        folder = self._paths.cxl / region
        write(folder / "interleave_granularity", str(_GRANULARITY))
        write(folder / "interleave_ways", "1")
        try:
            write(folder / "size", f"{size:#x}")
        except AttributeWriteError as error:
            if error.errno in {errno.ERANGE, errno.ENOSPC}:
                raise NoAddressSpaceError(f"{region}: no CXL window has {size >> 20} MiB left") from error
            raise

    def set_target(self, region: str, decoder: str) -> None:
        """See `CxlKernel`."""
        write(self._paths.cxl / region / "target0", decoder)

    def commit(self, region: str) -> None:
        """See `CxlKernel`."""
        try:
            write(self._paths.cxl / region / "commit", "1")
        except AttributeWriteError as error:
            if error.errno == errno.ENXIO:
                raise NodeUnsupportedError(
                    f"{region}: the kernel refuses CXL regions, because it cannot flush the processor's caches"
                    " (virtual machines cannot)"
                ) from error
            raise

    def uncommit(self, region: str) -> None:
        """See `CxlKernel`."""
        write(self._paths.cxl / region / "commit", "0")

    def claim_dax(self, region: str) -> None:
        """See `CxlKernel`. A driver that is not loaded claims nothing."""
        ids = self._paths.dax_drivers / DaxDriver.DEVDAX.value / "new_id"
        if ids.exists():
            write(ids, _first_dax(region))

    def disclaim_dax(self, region: str) -> None:
        """See `CxlKernel`."""
        self._remove_ids(_first_dax(region))

    def bind_region(self, region: str) -> None:
        """See `CxlKernel`."""
        write(self._paths.region_driver / "bind", region)

    def unbind_region(self, region: str) -> None:
        """See `CxlKernel`."""
        write(self._paths.region_driver / "unbind", region)

    def delete_region(self, region: str) -> None:
        """See `CxlKernel`."""
        root = (self._paths.cxl / region).resolve().parent
        write(root / "delete_region", region)

    def bind_dax(self, dax: str, driver: DaxDriver) -> None:
        """See `CxlKernel`. A driver accepts only devices whose name it has; it then takes them at once."""
        folder = self._paths.dax_drivers / driver.value
        write(folder / "new_id", dax)
        if find_driver(self._paths.dax / dax) != driver.value:
            self._bind_and_wait(dax, driver)

    def unbind_dax(self, dax: str) -> None:
        """See `CxlKernel`."""
        driver = find_driver(self._paths.dax / dax)
        if driver == DaxDriver.KMEM.value:
            self._bind_and_wait(dax, DaxDriver.KMEM)
            if self._is_online(dax):
                return
        self._remove_ids(dax)
        if driver:
            write(self._paths.dax_drivers / driver / "unbind", dax)

    def online(self, blocks: Sequence[str]) -> None:
        """See `CxlKernel`."""
        for block in blocks:
            state = self._paths.blocks / block / "state"
            try:
                write(state, "online_movable")
            except AttributeWriteError:
                if read(state) != "online":  # the kernel may bring it online at the same time
                    raise

    def offline(self, blocks: Sequence[str]) -> None:
        """See `CxlKernel`."""
        files = [self._paths.blocks / block / "state" for block in blocks]
        error = write_all("offline", files, self._offline_seconds)
        if error is None:
            raise MemoryInUseError(
                f"{len(blocks)} blocks of memory are in use: not offline after {self._offline_seconds:g} s"
            )
        if error == errno.EBUSY:
            raise MemoryInUseError("memory cannot be brought offline: some of its pages cannot be moved")
        if error:
            raise CxlMemoryError(f"memory cannot be brought offline: {os.strerror(error)}")

    def find_user(self, dax: DaxDevice) -> str:
        """See `CxlKernel`."""
        return find_user(self._paths.proc, os.makedev(dax.major, dax.minor))

    def clear(self, dax: DaxDevice, proceed: Callable[[int], bool]) -> bool:
        """See `CxlKernel`."""
        return clear_device(dax.path, dax.bytes, proceed)

    def _bind_and_wait(self, dax: str, driver: DaxDriver) -> None:
        """Bind a dax device, or wait until the driver that it is just getting has taken it.

        sysfs names a driver before the driver has brought the memory online. The kernel answers EBUSY only
        after that.
        """
        try:
            write(self._paths.dax_drivers / driver.value / "bind", dax)
        except AttributeWriteError as error:
            if error.errno != errno.EBUSY:
                raise

    def _is_online(self, dax: str) -> bool:
        regions = [each for each in self.read().regions if dax in {found.name for found in each.dax}]
        return any(block.online for region in regions for block in region.blocks)

    def _remove_ids(self, dax: str) -> None:
        """Take a name from all drivers. Names come again, and the next region's device would get its driver."""
        for driver in DaxDriver:
            ids: Path = self._paths.dax_drivers / driver.value / "remove_id"
            if ids.exists():
                write(ids, dax)


def _first_dax(region: str) -> str:
    """Return the name that the first dax device of a region gets."""
    return f"dax{parse_number(region)}.0"
