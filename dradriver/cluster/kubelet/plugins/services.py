"""Chooses the gRPC services of a driver from the list that the driver sends at registration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.errors import DraError

__all__ = ["DRA_V1", "DRA_V1BETA1", "HEALTH_V1", "HEALTH_V1ALPHA1", "Services", "choose_services"]

DRA_V1: Final = "v1.DRAPlugin"
DRA_V1BETA1: Final = "v1beta1.DRAPlugin"
HEALTH_V1: Final = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1: Final = "v1alpha1.DRAResourceHealth"

_DRA: Final = (DRA_V1, DRA_V1BETA1)
_HEALTH: Final = (HEALTH_V1, HEALTH_V1ALPHA1)


@dataclass(frozen=True, slots=True)
class Services:
    """The chosen services: `dra` for prepare and unprepare; `health`, which is empty if the driver has none."""

    dra: str
    health: str


def choose_services(driver: str, endpoint: str, offered: Sequence[str]) -> Services:
    """Return the first known DRAPlugin service of the driver's list, and the newest health service.

    Raises:
        DraError: the list has no usable service. The message is the real kubelet's message.
    """
    where = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
    if not offered:
        raise DraError(f"{where}: empty list of supported gRPC services (aka supported versions)")
    dra = next((service for service in offered if service in _DRA), "")
    if not dra:
        raise DraError(
            f"{where}: none of services supported by the plugin ({_quote(offered)}) "
            f"are supported by the kubelet ({_quote(_DRA)})"
        )
    return Services(dra, next((service for service in _HEALTH if service in offered), ""))


def _quote(names: Sequence[str]) -> str:
    return "[" + " ".join(f'"{name}"' for name in names) + "]"
