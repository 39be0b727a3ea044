"""Read a driver's name from its class, and check the class, without an instance."""

from collections.abc import Collection, Iterable, Iterator

from dradriver.driver.base import Driver
from dradriver.driver.binding import Attaching, BindingDriver
from dradriver.driver.configuration.config import Config
from dradriver.driver.controller import ControllerDriver
from dradriver.driver.driver_base import DriverBase
from dradriver.driver.source import DeviceSource
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DriverError
from dradriver.model import names

__all__ = ["check_class", "read_name"]


def read_name(driver: type[DriverBase]) -> str:
    """Return the driver's name in the cluster, without an instance.

    Raises:
        DriverError: the class has no name, or the name is not valid.
    """
    name: object = getattr(driver, "name", None)
    if not isinstance(name, str):
        message = f'{driver.__name__}.name: is required: set `name = "kind.example.com"` in the class'
        raise DriverError(message + format_location(find_definition(driver)))
    if rule := names.driver_name(name):
        raise DriverError(f"{driver.__name__}.name: {rule}{format_location(find_definition(driver))}")
    return name


def check_class(driver: type[DriverBase]) -> None:
    """Check that the class can be run: it has the required members, and its attributes have the right types.

    Raises:
        DriverError: a check fails. The message names the class, the attribute, the file and the line.
    """
    read_name(driver)
    if missing := ", ".join(f"{each}()" for each in sorted(getattr(driver, "__abstractmethods__", ()))):
        message = f"{driver.__name__}: does not implement {missing}"
        raise DriverError(message + format_location(find_definition(driver)))
    if problem := next(_find_attribute_errors(driver), ""):
        raise DriverError(f"{driver.__name__}.{problem}{format_location(find_definition(driver))}")


def _find_attribute_errors(driver: type[DriverBase]) -> Iterator[str]:
    """Yield each attribute of a wrong type, with the expected type. It would otherwise cause an error later."""
    if issubclass(driver, DeviceSource):
        rescan: object = driver.rescan_seconds
        if rescan is not None and not _is_duration(rescan):
            yield f"rescan_seconds: {rescan!r} must be a number of seconds above 0, or None"
        yield from _find_config_errors(driver, "configs")
    if issubclass(driver, Driver) and not _is_duration(seconds := driver.shutdown_seconds):
        yield f"shutdown_seconds: {seconds!r} must be a number of seconds above 0"
    if issubclass(driver, ControllerDriver):
        yield from _find_config_errors(driver, "class_configs")
        yield from _find_config_errors(driver, "claim_configs")
        if issubclass(driver, DeviceSource) and not issubclass(driver, BindingDriver):
            yield "__bases__: a ControllerDriver that publishes devices too must be a BindingDriver"
        if driver.node_releases and not issubclass(driver, BindingDriver):
            yield "node_releases: only a ControllerDriver that is also a BindingDriver may set it"
        for name in ("check_nodes_seconds", "check_allocations_seconds"):
            if not _is_duration(seconds := getattr(driver, name)):
                yield f"{name}: {seconds!r} must be a number of seconds above 0"
    if issubclass(driver, Attaching):
        yield from _find_binding_errors(driver)


def _find_config_errors(driver: type[DriverBase], attribute: str) -> Iterator[str]:
    configs: object = getattr(driver, attribute, ())
    if isinstance(configs, str) or not isinstance(configs, Iterable):
        yield f"{attribute}: {configs!r} must be a tuple of classes"
        return
    for each in configs:
        if not (isinstance(each, type) and issubclass(each, Config)):
            yield f"{attribute}: {each!r} must be a subclass of dradriver.Config"
        elif not all(isinstance(getattr(each, name, None), str) for name in ("api_version", "kind")):
            yield f"{attribute}: {each.__name__} must have api_version and kind, as texts"


def _find_binding_errors(driver: type[Attaching]) -> Iterator[str]:
    for name in ("own_conditions", "attach_after"):
        conditions: object = getattr(driver, name, ())
        if isinstance(conditions, str) or not isinstance(conditions, Collection):
            yield f"{name}: {conditions!r} must be a tuple of texts"
    if not _is_duration(seconds := driver.quarantine_seconds, minimum=0.0):
        yield f"quarantine_seconds: {seconds!r} must be a number of seconds"
    releases: object = driver.node_releases
    if not isinstance(releases, bool):
        yield f"node_releases: {releases!r} must be True or False"
    if issubclass(driver, BindingDriver):
        kind: object = driver.node_failure_condition
        if not isinstance(kind, str):
            yield f"node_failure_condition: {kind!r} must be a text"
        if not _is_duration(seconds := driver.check_attachments_seconds):
            yield f"check_attachments_seconds: {seconds!r} must be a number of seconds above 0"


def _is_duration(value: object, minimum: float = 1e-9) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= minimum
