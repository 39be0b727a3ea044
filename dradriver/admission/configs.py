"""Check the opaque configuration of one object against the classes in `Driver.configs`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from dradriver.driver import Config, Driver
from dradriver.driver.config import decode_config
from dradriver.driver.named import name_of
from dradriver.errors import InvalidObjectError, Problem, UsageError
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import OpaqueConfig
from dradriver.model.resource.opaque import opaque_configs

__all__ = ["Known", "Stored", "known_configs", "mistakes_in", "stored_configs"]

Known: TypeAlias = Mapping[str, Sequence[type[Config]]]
"""The configuration classes of drivers, by the driver's name in the cluster."""

Stored: TypeAlias = Collection[tuple[str, bytes]]
"""Configurations that an object already has: driver and canonical parameters."""


def known_configs(drivers: Iterable[type[Driver]]) -> Known:
    """Return the declared classes of the drivers, without instances: the webhook runs where no device is.

    Raises:
        DriverError: a class has no name, or the name is not valid.
        UsageError: two drivers have the same name.
    """
    known: dict[str, Sequence[type[Config]]] = {}
    for driver in drivers:
        name = name_of(driver)
        if name in known:
            raise UsageError(f"--driver: two drivers are called {name}")
        known[name] = driver.configs
    return known


def mistakes_in(kind: str, data: bytes, known: Known, stored: Stored = ()) -> Iterator[Problem]:
    """Yield every error in the configurations of known drivers, by field; those of other drivers are ignored.

    Args:
        kind: the object's kind. Only DeviceClass, ResourceClaim and ResourceClaimTemplate have configuration.
        data: the object as JSON text, of any version.
        known: the known configuration classes.
        stored: configurations that the object already has. They are not checked again, so that stricter rules
            do not prevent changes to the rest of an object (ratcheting, in Kubernetes' terms).

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


def stored_configs(kind: str, data: bytes) -> Stored:
    """Return the configurations that an object has, as input of `mistakes_in`."""
    return {identity for _, opaque in opaque_configs(kind, data) if (identity := _identity(opaque))}


def _identity(opaque: OpaqueConfig) -> tuple[str, bytes] | None:
    """Return a key that is equal for parameters which differ only in spaces, the order of keys and such."""
    try:
        return opaque.driver, canonical(msgspec.json.decode(opaque.parameters))
    except (msgspec.DecodeError, RecursionError):
        return None
