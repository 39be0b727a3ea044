"""Find the installed drivers: entry points of the group `dradriver.drivers`."""

import re
from importlib import import_module
from inspect import isabstract
from typing import TYPE_CHECKING, Final

from dradriver.driver import AnyDriver, ControllerDriver, Driver, DriverBase, PoolDriver
from dradriver.driver.source_locations import find_definition, find_raise, format_location
from dradriver.errors import DriverError, NotFoundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "driver_names", "load_any", "load_driver"]

GROUP: Final = "dradriver.drivers"
_CLASS: Final = re.compile(r"[\w.]+:[\w.]+")


def _entry_points() -> "dict[str, EntryPoint]":
    # This import takes as long as all other imports of this package in `import dradriver`.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=GROUP)}


def driver_names() -> list[str]:
    """Return the names under which installed drivers can be run."""
    return sorted(_entry_points())


def load_driver(name: str) -> type[Driver]:
    """Return the class of an installed node driver.

    Args:
        name: the name of an entry point, or `module:Class` for a driver without one.

    Raises:
        NotFoundError: no driver of this name is installed.
        DriverError: for the reasons that `load_any` lists, or because the driver is no `Driver`.
    """
    loaded = load_any(name)
    if not issubclass(loaded, Driver):
        kind = "pool" if issubclass(loaded, PoolDriver) else "controller"
        raise DriverError(f"driver {name!r}: must be a node driver, but is a {kind} driver")
    return loaded


def load_any(name: str) -> type[AnyDriver]:
    """Return the class of an installed driver: a node driver, pool driver or controller driver.

    Args:
        name: the name of an entry point, or `module:Class` for a driver without one.

    Raises:
        NotFoundError: no driver of this name is installed. The message lists the installed drivers.
        DriverError: the driver's package cannot be imported, or the entry point is not a `Driver`,
            `PoolDriver` or `ControllerDriver` class.
    """
    point = _entry_points().get(name)
    if point is None and _CLASS.fullmatch(name):
        from importlib.metadata import EntryPoint  # noqa: PLC0415 - heavy, see above

        point = EntryPoint(name, name, GROUP)
    if point is None:
        alternatives = ", ".join(driver_names()) or "none"
        raise NotFoundError(
            f"driver {name!r} is not installed (installed: {alternatives}); "
            f"give the name of an entry point in the group {GROUP!r}, or module:Class"
        )
    subject = f"driver {name!r}" if point.value == name else f"driver {name!r} ({point.value})"
    try:
        module: object = import_module(point.module)
    except (Exception, SystemExit) as error:
        raise DriverError(f"{subject} cannot be imported: {_import_failure(point.module, error)}") from error
    loaded = module
    for part in point.attr.split("."):
        owner, loaded = loaded, getattr(loaded, part, None)
        if loaded is None:
            message = f"{subject} cannot be imported: {_describe_missing_name(owner, part)}"
            raise DriverError(message + format_location(_file_of(module)))
    if not (isinstance(loaded, type) and issubclass(loaded, Driver | PoolDriver | ControllerDriver)):
        kinds = "dradriver.Driver, dradriver.PoolDriver or dradriver.ControllerDriver"
        message = f"{subject}: {point.value} must be a subclass of {kinds}"
        raise DriverError(message + format_location(find_definition(loaded) or _file_of(module)))
    return loaded


def _import_failure(module: str, error: BaseException) -> str:
    """Format the error of an import, with the line of the author's code that caused it, if there is one."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    location = format_location(find_raise(error))
    packages = {module.rsplit(".", depth)[0] for depth in range(module.count(".") + 1)}
    if isinstance(error, ModuleNotFoundError) and not location and error.name in packages:
        location = "; the module is neither installed nor in a folder of $PYTHONPATH"
    return f"{type(error).__name__}: {' '.join(message.splitlines())}{location}"


def _describe_missing_name(owner: object, part: str) -> str:
    drivers = [name for name, value in vars(owner).items() if _is_driver(value)]
    alternatives = f"; drivers in it: {', '.join(drivers)}" if drivers else ""
    return f"{getattr(owner, '__name__', owner)} has no {part!r}{alternatives}"


def _is_driver(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, DriverBase) and not isabstract(value)


def _file_of(module: object) -> str:
    return str(getattr(module, "__file__", None) or "")
