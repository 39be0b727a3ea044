"""Read a driver's name from its class, and check the class, without an instance."""

from collections.abc import Collection, Iterable, Iterator

from dradriver.driver.binding import Attaching
from dradriver.driver.code_places import at, defined_at
from dradriver.driver.config import Config
from dradriver.driver.source import DeviceSource
from dradriver.errors import DriverError
from dradriver.model import names

__all__ = ["check_class", "name_of"]


def name_of(driver: type[DeviceSource]) -> str:
    """Return the driver's name in the cluster, without an instance.

    Raises:
        DriverError: the class has no name, or the name is not valid.
    """
    name: object = getattr(driver, "name", None)
    if not isinstance(name, str):
        told = f'{driver.__name__} has no name: set `name = "kind.example.com"` in the class'
        raise DriverError(told + at(defined_at(driver)))
    if rule := names.driver_name(name):
        raise DriverError(f"{driver.__name__}.name: {rule}{at(defined_at(driver))}")
    return name


def check_class(driver: type[DeviceSource]) -> None:
    """Check that the class can be run: it has the required members, and its attributes have the right types.

    Raises:
        DriverError: a check fails. The message names the class, the attribute, the file and the line.
    """
    name_of(driver)
    if missing := ", ".join(f"{each}()" for each in sorted(getattr(driver, "__abstractmethods__", ()))):
        told = f"{driver.__name__} lacks {missing}, which such a driver has to have"
        raise DriverError(told + at(defined_at(driver)))
    if wrong := next(_wrong_attributes(driver), ""):
        raise DriverError(f"{driver.__name__}.{wrong}{at(defined_at(driver))}")


def _wrong_attributes(driver: type[DeviceSource]) -> Iterator[str]:
    """Yield attributes of wrong types, with the expected type; they would otherwise fail elsewhere."""
    rescan: object = driver.rescan_seconds
    if rescan is not None and not _is_duration(rescan):
        yield f"rescan_seconds: {rescan!r} is no number of seconds above 0, and not None"
    configs: object = getattr(driver, "configs", ())
    if isinstance(configs, str) or not isinstance(configs, Iterable):
        yield f"configs: {configs!r} is no tuple of classes"
        return
    for each in configs:
        if not (isinstance(each, type) and issubclass(each, Config)):
            yield f"configs: {each!r} is not a subclass of dradriver.Config"
        elif not all(isinstance(getattr(each, name, None), str) for name in ("api_version", "kind")):
            yield f"configs: {each.__name__} needs both api_version and kind, as texts"
    if issubclass(driver, Attaching):
        own: object = driver.own_conditions
        if isinstance(own, str) or not isinstance(own, Collection):
            yield f"own_conditions: {own!r} is no tuple of texts"
        if not _is_duration(hold_off := driver.hold_off_seconds, least=0.0):
            yield f"hold_off_seconds: {hold_off!r} is no number of seconds"


def _is_duration(value: object, least: float = 1e-9) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least
