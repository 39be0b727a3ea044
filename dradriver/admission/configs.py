"""The opaque configuration of one object against what drivers declare in `Driver.configs`."""

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
"""The classes of configuration that drivers know, by the driver's name in the cluster."""

Stored: TypeAlias = Collection[tuple[str, bytes]]
"""Configurations that an object has already: driver and canonical parameters."""


def known_configs(drivers: Iterable[type[Driver]]) -> Known:
    """What the drivers declare; they are not instantiated, for a webhook runs where no device is.

    Raises:
        DriverError: a class has no name, or none that a driver may have.
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
    """Every mistake in the configurations of the known drivers, by field; others' are none of our business.

    Args:
        kind: the object's kind; only DeviceClass, ResourceClaim and ResourceClaimTemplate carry configuration.
        data: the object as JSON text, of whatever version.
        known: what may be configured.
        stored: what the object has already. It is not checked again, so that rules that became stricter keep
            nobody from changing the rest of an object (ratcheting, as Kubernetes calls it).

    Raises:
        InvalidObjectError: the object is not shaped like one of its kind.
    """
    for path, opaque in opaque_configs(kind, data):
        if opaque.driver not in known or _identity(opaque) in stored:
            continue
        try:
            decode_config(bytes(opaque.parameters), known[opaque.driver], path, strict=True)
        except InvalidObjectError as error:
            yield from (problem.under(path) for problem in error.problems)


def stored_configs(kind: str, data: bytes) -> Stored:
    """The configurations that an object has, to be handed to `mistakes_in`."""
    return {identity for _, opaque in opaque_configs(kind, data) if (identity := _identity(opaque))}


def _identity(opaque: OpaqueConfig) -> tuple[str, bytes] | None:
    """The same for parameters that differ in nothing but their spaces, the order of keys and such."""
    try:
        return opaque.driver, canonical(msgspec.json.decode(opaque.parameters))
    except (msgspec.DecodeError, RecursionError):
        return None
