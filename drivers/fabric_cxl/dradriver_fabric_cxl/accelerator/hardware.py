"""The interface to the accelerators of a node. Calls block."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Accelerators", "AttachedAccelerator", "CharacterDevice"]


@dataclass(frozen=True, slots=True)
class CharacterDevice:
    """A character device of the node.

    Attributes:
        path: path in `/dev`: `/dev/dri/renderD128`.
        major, minor: number.
    """

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class AttachedAccelerator:
    """A PCI device with a serial number.

    Attributes:
        serial: serial number.
        address: PCI address of its first function: `0000:c1:00.0`.
        nodes: character devices of all its functions, by path.
    """

    serial: int
    address: str
    nodes: tuple[CharacterDevice, ...]

    @property
    def problem(self) -> str:
        """Why programs cannot use the accelerator, for people; "" if they can."""
        return "" if self.nodes else f"PCI device {self.address} has no character device: is its driver loaded?"


class Accelerators(Protocol):
    """All accelerators of a node. Any thread may call it."""

    def devices(self) -> tuple[AttachedAccelerator, ...]:
        """Return the devices that are plugged in, by serial number. A device that was pulled is missing.

        The result has every PCI device with a serial number, because only the fabric knows which devices are
        accelerators. Bridges are left out.
        """
