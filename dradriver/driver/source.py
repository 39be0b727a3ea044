"""`class DeviceSource`: the common base of drivers that run on a node and in the control plane."""

from abc import abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import ClassVar, TypeAlias

from dradriver.driver.driver_base import DriverBase
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool

__all__ = ["DeviceSource", "Discovered", "Inventory"]

Inventory: TypeAlias = Sequence[Pool]
"""All pools that a driver offers."""

Discovered: TypeAlias = Inventory | Iterable[Device]
"""Result of `discover()`: pools, or only the devices of the one pool that is named after the node."""


class DeviceSource(DriverBase):
    """Base of `Driver` and `PoolDriver`, which authors subclass: a source of devices to publish.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block.

    Attributes:
        rescan_seconds: seconds between calls of `discover()`. None: `discover()` runs only at start and after
            `rediscover()`.
    """

    rescan_seconds: ClassVar[float | None] = 60.0

    @abstractmethod
    def discover(self) -> Discovered | Awaitable[Discovered]:
        """Return the devices that exist now."""

    def fallback(self, dropped: Collection[str]) -> Discovered | Awaitable[Discovered | None] | None:  # noqa: ARG002
        """Return the devices to publish while the API server drops some fields; None withdraws unsafe devices.

        If counters are dropped, the devices must not overlap one another, and none may overlap a device that a
        claim holds: return a layout in one mode (KEP-4815, Rollback). While a claim holds a device of this
        driver that is not in the result, the SDK publishes no new device of the result. While a claim holds a
        device of the result, and the server stores the fields again, the SDK does not publish devices that may
        overlap the held one. Give a device the same name in both layouts if it is the same hardware: fewer
        changes then have to wait.

        Args:
            dropped: JSON names of the fields that the server dropped: `consumesCounters`, `sharedCounters`,
                `compatibilityGroups`, `perDeviceNodeSelection`, `bindingConditions`, ...
        """
        return None

    def rediscover(self) -> None:
        """Ask the SDK to call `discover()` soon, for example after a hotplug; from any thread or task.

        A call before the SDK has started the driver is a no-op, because `discover()` is called at start.
        """
        if self._context is not None:
            self._context.rediscover()
