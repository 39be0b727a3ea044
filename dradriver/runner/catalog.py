"""The drivers that are installed: entry points of the group `dradriver.drivers`."""

import re
from typing import TYPE_CHECKING, Final

from dradriver.driver import Driver, PoolDriver
from dradriver.errors import DriverError, NotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "driver_names", "load_any", "load_driver"]

GROUP: Final = "dradriver.drivers"
_CLASS: Final = re.compile(r"[\w.]+:[\w.]+")


def _entry_points() -> "dict[str, EntryPoint]":
    # As heavy as everything that `import dradriver` needs of this package.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=GROUP)}


def driver_names() -> list[str]:
    """The names under which installed drivers can be run."""
    return sorted(_entry_points())


def load_driver(name: str) -> type[Driver]:
    """The class of an installed driver of nodes; the rest is as with `load_any`.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: as `load_any`, or it is a `PoolDriver`.
    """
    loaded = load_any(name)
    if not issubclass(loaded, Driver):
        raise DriverError(f"driver {name!r} is a pool driver: it prepares nothing, and reads no configuration")
    return loaded


def load_any(name: str) -> type[Driver | PoolDriver]:
    """The class of an installed driver, of a node or of the control plane.

    Args:
        name: of an entry point, or `module:Class` for a driver that has none.

    Raises:
        NotFoundError: no driver of this name is installed; the message lists those that are.
        DriverError: its package can't be imported, or the entry point is no `Driver` or `PoolDriver` class.
    """
    point = _entry_points().get(name)
    if point is None and _CLASS.fullmatch(name):
        from importlib.metadata import EntryPoint  # noqa: PLC0415 - heavy, see above

        point = EntryPoint(name, name, GROUP)
    if point is None:
        known = ", ".join(driver_names()) or "none"
        raise NotFoundError(
            f"no driver {name!r} is installed (installed: {known}); "
            f"a package offers one by an entry point of the group {GROUP!r}, any other is named as module:Class"
        )
    try:
        loaded: object = point.load()
    except Exception as error:
        what = repr(name) if point.value == name else f"{name!r} ({point.value})"
        raise DriverError(f"driver {what} can't be imported: {error!r}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Driver | PoolDriver)):
        raise DriverError(
            f"driver {name!r}: {point.value} is not a subclass of dradriver.Driver or dradriver.PoolDriver"
        )
    return loaded
