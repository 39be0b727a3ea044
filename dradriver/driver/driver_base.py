"""`class DriverBase`: the common base of all drivers."""

from abc import ABC
from collections.abc import Awaitable
from typing import ClassVar, Literal

from dradriver.driver.context import DriverContext
from dradriver.driver.source_locations import find_caller, format_location
from dradriver.errors import DriverError

__all__ = ["DriverBase"]


class DriverBase(ABC):
    """Base of `Driver`, `PoolDriver` and `ControllerDriver`, which authors subclass.

    Any method may be `async def` or plain `def`. A plain method runs in a worker thread, so it may block.

    Attributes:
        name: the driver's name in the cluster, a DNS subdomain of at most 63 characters.
        simulate: when a driver with a hardware simulator uses it: `never`, `always`, or `auto` (if the hardware
            is missing). The SDK sets it before the first call: `dradriver up` sets `auto`, `dradriver demo`
            sets `always`.
    """

    name: ClassVar[str]

    simulate: Literal["never", "auto", "always"] = "never"

    _context: DriverContext | None = None

    @property
    def context(self) -> DriverContext:
        """Return the driver's context: the node, the data folder and the services of the SDK.

        Raises:
            DriverError: the SDK has not started the driver yet, for example in `__init__`.
        """
        if self._context is None:
            raise DriverError(
                f"driver {self.name}: context is not set: the SDK sets it after __init__(), before any call"
                f"{format_location(find_caller(type(self)))}"
            )
        return self._context

    def set_context(self, context: DriverContext) -> None:
        """Set the driver's context, once, before any other method is called.

        The SDK calls it. A test that uses a driver without the SDK does the same.

        Args:
            context: the context.
        """
        self._context = context

    def shutdown(self) -> Awaitable[None] | None:  # noqa: B027 - optional
        """Release resources at the end of the process; the default does nothing.

        It is called once, after the last call in flight. Claims stay prepared.

        Returns:
            Nothing: the return means that the resources are released.
        """
