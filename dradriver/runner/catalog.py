"""Find the installed drivers: entry points of the group `dradriver.drivers`."""

import re
from importlib import import_module
from inspect import isabstract
from typing import TYPE_CHECKING, Final

from dradriver.driver import DeviceSource, Driver, PoolDriver
from dradriver.driver.code_places import at, defined_at, raised_at
from dradriver.errors import DriverError, NotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "driver_names", "load_any", "load_driver"]

GROUP: Final = "dradriver.drivers"
_CLASS: Final = re.compile(r"[\w.]+:[\w.]+")


def _entry_points() -> "dict[str, EntryPoint]":
    # This import is as heavy as all other imports of this package in `import dradriver`.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=GROUP)}


def driver_names() -> list[str]:
    """Return the names under which installed drivers can be run."""
    return sorted(_entry_points())


def load_driver(name: str) -> type[Driver]:
    """Return the class of an installed node driver; otherwise like `load_any`.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: as for `load_any`, or it is a `PoolDriver`.
    """
    loaded = load_any(name)
    if not issubclass(loaded, Driver):
        raise DriverError(f"driver {name!r} is a pool driver: it prepares nothing, and reads no configuration")
    return loaded


def load_any(name: str) -> type[Driver | PoolDriver]:
    """Return the class of an installed driver, of a node or of the control plane.

    Args:
        name: the name of an entry point, or `module:Class` for a driver without one.

    Raises:
        NotFoundError: no driver of this name is installed. The message lists the installed ones.
        DriverError: its package cannot be imported, or the entry point is not a `Driver` or `PoolDriver` class.
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
    what = f"driver {name!r}" if point.value == name else f"driver {name!r} ({point.value})"
    try:
        module: object = import_module(point.module)
    except (Exception, SystemExit) as error:
        raise DriverError(f"{what} can't be imported: {_import_failure(point.module, error)}") from error
    loaded = module
    for part in point.attr.split("."):
        owner, loaded = loaded, getattr(loaded, part, None)
        if loaded is None:
            raise DriverError(f"{what} can't be imported: {_no_such_name(owner, part)}{at(_file_of(module))}")
    if not (isinstance(loaded, type) and issubclass(loaded, Driver | PoolDriver)):
        told = f"{what}: {point.value} is not a subclass of dradriver.Driver or dradriver.PoolDriver"
        raise DriverError(told + at(defined_at(loaded) or _file_of(module)))
    return loaded


def _import_failure(module: str, error: BaseException) -> str:
    """Return the error, and the line of the author's code that caused it, if that was reached."""
    told = error.msg if isinstance(error, SyntaxError) else str(error)
    place = at(raised_at(error))
    packages = {module.rsplit(".", depth)[0] for depth in range(module.count(".") + 1)}
    if isinstance(error, ModuleNotFoundError) and not place and error.name in packages:
        place = "; it is neither installed nor in a folder of $PYTHONPATH"
    return f"{type(error).__name__}: {' '.join(told.splitlines())}{place}"


def _no_such_name(owner: object, part: str) -> str:
    drivers = [name for name, value in vars(owner).items() if _is_driver(value)]
    known = f"; drivers in it: {', '.join(drivers)}" if drivers else ""
    return f"{getattr(owner, '__name__', owner)} has no {part!r}{known}"


def _is_driver(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, DeviceSource) and not isabstract(value)


def _file_of(module: object) -> str:
    return str(getattr(module, "__file__", None) or "")
