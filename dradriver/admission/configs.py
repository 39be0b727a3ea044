"""Check the opaque configuration of one object against the classes in `Driver.configs`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from dradriver.driver import Config, Driver
from dradriver.driver.configuration.config import decode_config
from dradriver.driver.driver_class import read_name
from dradriver.errors import InvalidObjectError, Problem, UsageError
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import OpaqueConfig
from dradriver.model.resource.opaque import opaque_configs

__all__ = ["ConfigClasses", "StoredConfigs", "find_config_errors", "known_configs", "stored_configs"]

ConfigClasses: TypeAlias = Mapping[str, Sequence[type[Config]]]
"""The configuration classes of drivers, by the name of the driver."""

StoredConfigs: TypeAlias = Collection[tuple[str, bytes]]
"""The configurations that an object already has, as pairs of the driver's name and canonical parameters."""


def known_configs(drivers: Iterable[type[Driver]]) -> ConfigClasses:
    """Return the configuration classes that drivers declare; no driver is instantiated.

    Args:
        drivers: the driver classes. Their names must differ.

    Raises:
        DriverError: a class has no name, or the name is not valid.
        UsageError: two drivers have the same name.
    """
    known: dict[str, Sequence[type[Config]]] = {}
    for driver in drivers:
        name = read_name(driver)
        if name in known:
            raise UsageError(f"--driver: two drivers have the name {name}, names must be unique")
        known[name] = driver.configs
    return known


def find_config_errors(
    kind: str, data: bytes, known: ConfigClasses, stored: StoredConfigs = ()
) -> Iterator[Problem]:
    """Yield every error, with its field, in the configurations of known drivers; other drivers are ignored.

    Args:
        kind: the object's kind. Only DeviceClass, ResourceClaim and ResourceClaimTemplate have configuration.
        data: the object as JSON text, in any API version.
        known: the known configuration classes.
        stored: the configurations that the object already has. They are not checked again, so that stricter
            rules do not prevent changes of other parts of the object (Kubernetes calls this ratcheting).

    Raises:
        InvalidObjectError: the object does not have the structure of its kind.
    """
    for path, opaque in opaque_configs(kind, data):
        if opaque.driver not in known or _identity(opaque) in stored:
            continue
        try:
            decode_config(bytes(opaque.parameters), known[opaque.driver], path, strict=True)
        except InvalidObjectError as error:
            yield from (problem.under(path) for problem in error.problems)


def stored_configs(kind: str, data: bytes) -> StoredConfigs:
    """Return the configurations that an object has, as input of `find_config_errors`."""
    return {identity for _, opaque in opaque_configs(kind, data) if (identity := _identity(opaque))}


def _identity(opaque: OpaqueConfig) -> tuple[str, bytes] | None:
    """Return a key for comparisons, in which spaces and the order of keys in the parameters do not matter."""
    try:
        return opaque.driver, canonical(msgspec.json.decode(opaque.parameters))
    except (msgspec.DecodeError, RecursionError):
        return None
