"""`class DeviceSource`: the common base of drivers that run on a node and in the control plane."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import ClassVar, Literal, TypeAlias

from dradriver.driver.code_places import at, called_at
from dradriver.driver.context import DriverContext
from dradriver.errors import DriverError
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool

__all__ = ["DeviceSource", "Discovered", "Inventory"]

Inventory: TypeAlias = Sequence[Pool]
"""All pools that a driver offers."""

Discovered: TypeAlias = Inventory | Iterable[Device]
"""Result of `discover()`: pools, or only the devices of the one pool that is named after the node."""


class DeviceSource(ABC):
    """Base of `Driver` and `PoolDriver`, which authors subclass: it has devices to publish.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block.

    Attributes:
        name: the driver's name in the cluster, a DNS subdomain of at most 63 characters.
        rescan_seconds: seconds between calls of `discover()`. None: `discover()` runs only at start and after
            `rediscover()`.
        simulate: when a driver with a hardware simulator uses it: `never`, `always`, or `auto` (if the hardware
            is missing). The SDK sets it before the first call: `dradriver up` sets `auto`, `dradriver demo`
            sets `always`.
    """

    name: ClassVar[str]
    rescan_seconds: ClassVar[float | None] = 60.0

    simulate: Literal["never", "auto", "always"] = "never"

    _context: DriverContext | None = None

    @property
    def context(self) -> DriverContext:
        """Return the driver's context: the node, the data folder and the services of the SDK.

        Raises:
            DriverError: the SDK has not started the driver yet, as in `__init__`.
        """
        if self._context is None:
            raise DriverError(
                f"driver {self.name} does not run: its context is set after __init__(), before any other "
                f"method is called{at(called_at(type(self)))}"
            )
        return self._context

    def set_context(self, context: DriverContext) -> None:
        """Set the driver's context, once, before any other method is called.

        The SDK calls it. A test that uses a driver without the SDK does the same.

        Args:
            context: the context.
        """
        self._context = context

    @abstractmethod
    def discover(self) -> Discovered | Awaitable[Discovered]:
        """Return the devices that exist now."""

    def fallback(self, dropped: Collection[str]) -> Discovered | Awaitable[Discovered | None] | None:  # noqa: ARG002
        """Return the devices to publish while the API server drops some fields; None withdraws unsafe devices.

        If counters are dropped, the devices must not overlap one another, and none may overlap a device that a
        claim holds: return a layout in one mode (KEP-4815, Rollback). While a claim holds a device of this
        driver that is not in the result, the SDK publishes no new device from it. While a claim holds a device
        of the result, and the server stores the fields again, the SDK does not publish devices that may overlap
        the held one. Give a device the same name in both layouts if it is the same hardware: fewer changes then
        have to wait.

        Args:
            dropped: JSON names of the fields that the server dropped: `consumesCounters`, `sharedCounters`,
                `compatibilityGroups`, `perDeviceNodeSelection`, `bindingConditions`, ...
        """
        return None

    def shutdown(self) -> Awaitable[None] | None:  # noqa: B027 - optional
        """Release resources at the end of the process; the default does nothing.

        It is called once, after the last call in flight. Claims stay prepared.
        """

    def rediscover(self) -> None:
        """Ask the SDK to call `discover()` soon, for example after a hotplug; from any thread or task.

        A call before the SDK has started the driver is a no-op, because `discover()` is called at start.
        """
        if self._context is not None:
            self._context.rediscover()
