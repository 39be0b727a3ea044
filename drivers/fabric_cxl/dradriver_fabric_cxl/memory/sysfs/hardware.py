"""The memory of this node."""

import logging
import time
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.errors import CxlMemoryError
from dradriver_fabric_cxl.memory.executor import KernelMemory
from dradriver_fabric_cxl.memory.sysfs.files import list_folder
from dradriver_fabric_cxl.memory.sysfs.kernel import SysfsKernel
from dradriver_fabric_cxl.memory.sysfs.paths import MemoryPaths
from dradriver_fabric_cxl.memory.sysfs.uevents import MemoryUevents

__all__ = ["SysfsMemory"]

_log: Final = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at the devices while there are no uevents."""


class SysfsMemory(KernelMemory):
    """CXL memory of this node; see `Memory`.

    Args:
        paths: the paths of the node.
        offline_seconds: time limit for bringing the memory of a device offline.
        lock_file: see `KernelMemory`.
    """

    def __init__(
        self,
        paths: MemoryPaths | None = None,
        *,
        offline_seconds: float = 120.0,
        lock_file: Path | None = None,
    ) -> None:
        self._paths = paths or MemoryPaths()
        self._uevents: MemoryUevents | None = None
        self._seen: list[str] = []
        super().__init__(SysfsKernel(self._paths, offline_seconds), lock_file)

    def open(self) -> None:
        """See `Memory`. Without uevents, changes are found by looking at the list of devices."""
        self._seen = self._list_names()
        try:
            self._uevents = MemoryUevents(self._paths.udev_control)
        except CxlMemoryError as error:
            _log.warning("devices are looked at every %g s: %s", _LOOK_SECONDS, error)

    def close(self) -> None:
        """See `Memory`."""
        uevents, self._uevents = self._uevents, None
        if uevents is not None:
            uevents.close()

    def wait_change(self, timeout: float) -> bool:
        """See `Memory`."""
        if (uevents := self._uevents) is not None:
            return uevents.wait(timeout)
        end = time.monotonic() + timeout
        while True:
            names = self._list_names()
            left = end - time.monotonic()
            if names != self._seen or left <= 0:
                changed, self._seen = names != self._seen, names
                return changed
            time.sleep(min(_LOOK_SECONDS, left))

    def _list_names(self) -> list[str]:
        return [path.name for path in list_folder(self._paths.cxl, "*")]
