"""Steps of `make` and `take_back`, as values."""

from dataclasses import dataclass
from typing import TypeAlias

from dradriver_fabric_cxl.memory.kernel import DaxDevice, DaxDriver, Memdev
from dradriver_fabric_cxl.memory.values import UsableMemory

__all__ = [
    "BindDax",
    "BindRegion",
    "BringOffline",
    "BringOnline",
    "CommitRegion",
    "DaxStep",
    "DeleteRegion",
    "MakeRegion",
    "MakeStep",
    "Ready",
    "Release",
    "Stuck",
    "TakeBackStep",
    "TakenBack",
    "UnbindDax",
    "UnbindRegion",
    "UncommitRegion",
    "WaitForKernel",
]


@dataclass(frozen=True, slots=True)
class MakeRegion:
    """Make a region for the whole memory of the device."""

    memdev: Memdev


@dataclass(frozen=True, slots=True)
class CommitRegion:
    """Program the decoders of the region."""

    region: str


@dataclass(frozen=True, slots=True)
class BindRegion:
    """Give the region its driver."""

    region: str


@dataclass(frozen=True, slots=True)
class WaitForKernel:
    """Wait until the kernel has made a device or loaded a driver."""

    missing: str


@dataclass(frozen=True, slots=True)
class BindDax:
    """Give the dax device this driver."""

    dax: str
    driver: DaxDriver


@dataclass(frozen=True, slots=True)
class UnbindDax:
    """Take the driver from the dax device."""

    dax: DaxDevice


@dataclass(frozen=True, slots=True)
class BringOffline:
    """Bring blocks of system RAM offline."""

    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BringOnline:
    """Bring blocks of system RAM online for movable pages."""

    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnbindRegion:
    """Take the driver from the region."""

    region: str


@dataclass(frozen=True, slots=True)
class UncommitRegion:
    """Reset the decoders of the region."""

    region: str


@dataclass(frozen=True, slots=True)
class DeleteRegion:
    """Remove the region."""

    region: str


@dataclass(frozen=True, slots=True)
class Release:
    """Release the memory that the decoder reserves."""

    decoder: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """The kernel has kept system RAM of the region, so the region must stay."""

    region: str
    block: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The memory can be used."""

    usable: UsableMemory


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Nothing is left."""


DaxStep: TypeAlias = BindDax | UnbindDax | BringOffline | BringOnline | WaitForKernel | Ready
"""A step that concerns the dax device of a region."""
MakeStep: TypeAlias = MakeRegion | CommitRegion | BindRegion | DaxStep
"""A step of `make`."""
TakeBackStep: TypeAlias = (
    BringOffline | UnbindDax | Stuck | UnbindRegion | UncommitRegion | DeleteRegion | Release | TakenBack
)
"""A step of `take_back`."""
