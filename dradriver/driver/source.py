"""`class DeviceSource`: what a driver says of its devices, on a node or in the control plane."""

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
"""Everything that a driver offers, pool by pool."""

Discovered: TypeAlias = Inventory | Iterable[Device]
"""What `discover()` returns: pools, or just the devices of the one pool named after the node."""


class DeviceSource(ABC):
    """Has devices to publish; see `Driver` and `PoolDriver`, which authors subclass.

    Any method may be `async def` or plain `def`; a plain one runs in a worker thread, so it may block.

    Attributes:
        name: the driver's name in the cluster, a DNS subdomain of at most 63 characters.
        rescan_seconds: how often `discover()` is called without being asked; None: only when asked.
        simulate: whether a driver that has a simulator of its hardware should use it: `never`, `always`, or
            `auto` (where the hardware is missing); set by the SDK before the first call. `dradriver up` says
            `auto`, `dradriver demo` says `always`.
    """

    name: ClassVar[str]
    rescan_seconds: ClassVar[float | None] = 60.0

    simulate: Literal["never", "auto", "always"] = "never"

    _context: DriverContext | None = None

    @property
    def context(self) -> DriverContext:
        """Where the driver runs, and what it may ask of the SDK.

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
        """Gives the driver its context, once, before any other method is called.

        The SDK does it. A test that calls a driver without the SDK does the same.

        Args:
            context: where the driver runs.
        """
        self._context = context

    @abstractmethod
    def discover(self) -> Discovered | Awaitable[Discovered]:
        """The devices that exist now."""

    def fallback(self, dropped: Collection[str]) -> Discovered | Awaitable[Discovered | None] | None:  # noqa: ARG002
        """What to publish where the API server does not store some fields; None withdraws what is unsafe.

        Args:
            dropped: JSON names of the fields that the server dropped: `consumesCounters`, `sharedCounters`,
                `compatibilityGroups`, `perDeviceNodeSelection`, `bindingConditions`, ...

        When counters are dropped its devices must not overlap one another, nor a device in it that a claim
        holds: return a layout in one mode (KEP-4815, Rollback). While a claim holds a device of yours that is
        not in it, the SDK publishes nothing new of it; while a claim holds one of its devices, the SDK does not
        publish what may overlap that one when the server stores the fields again. A device that is the same
        hardware in both layouts should have the same name, then less has to wait.
        """
        return None

    def shutdown(self) -> Awaitable[None] | None:  # noqa: B027 - optional
        """Called once at the end of the process, after the last call in flight; claims stay prepared."""

    def rediscover(self) -> None:
        """Asks the SDK to call `discover()` soon, for example after a hot-plug; from any thread or task.

        A call before the SDK has started the driver is a no-op: `discover()` is called at start anyway.
        """
        if self._context is not None:
            self._context.rediscover()
