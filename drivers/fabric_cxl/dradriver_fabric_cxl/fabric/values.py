"""Properties of a fabric as frozen values. Memory is in mebibytes."""

import enum
from dataclasses import dataclass

from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity

__all__ = [
    "Accelerator",
    "AttachRequest",
    "FabricAttachment",
    "FabricHealth",
    "FabricInventory",
    "Host",
    "MemoryChunk",
    "MemoryDomain",
    "MemoryRequest",
]


class FabricHealth(enum.Enum):
    """Health of a resource (values of Redfish's `Status.Health`)."""

    OK = "OK"
    WARNING = "Warning"
    CRITICAL = "Critical"


@dataclass(frozen=True, slots=True)
class MemoryChunk:
    """A part of a memory domain that is set aside.

    Attributes:
        mebibytes: size.
        identity: the attachment that it belongs to; None if somebody else made the chunk.
    """

    mebibytes: int
    identity: AttachmentIdentity | None


@dataclass(frozen=True, slots=True)
class MemoryDomain:
    """Memory behind the fabric, of which chunks are made.

    Attributes:
        id: unique on this manager, and constant.
        mebibytes: size of the whole domain.
        minimum: size of the smallest chunk.
        increment: sizes of chunks are multiples of it.
        makes_chunks: whether the manager allows to make chunks.
        health: health of the domain.
        chunks: existing chunks.
        switch: switch that the domain is connected to; "" if unknown.
    """

    id: str
    mebibytes: int
    minimum: int
    increment: int
    makes_chunks: bool
    health: FabricHealth
    chunks: tuple[MemoryChunk, ...]
    switch: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """A port of the fabric that a computer is connected to.

    Attributes:
        id: ID of the initiator endpoint.
        system: UUID of the computer, in lower case; "" if unknown.
        max_attachments: how many attachments the port can have at the same time; None if unknown.
        health: health of the endpoint.
    """

    id: str
    system: str
    max_attachments: int | None
    health: FabricHealth


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device behind the fabric that is attached as a whole.

    Attributes:
        id: ID of the target endpoint.
        vendor: PCI vendor ID: `0x10de`; "" if unknown.
        device: PCI device ID; "" if unknown.
        health: health of the endpoint.
    """

    id: str
    vendor: str
    device: str
    health: FabricHealth


@dataclass(frozen=True, slots=True)
class FabricInventory:
    """All resources of one fabric.

    Attributes:
        fabric: ID of the fabric.
        domains: memory domains, by ID.
        hosts: hosts, by ID.
        accelerators: accelerators, by ID.
    """

    fabric: str
    domains: tuple[MemoryDomain, ...]
    hosts: tuple[Host, ...]
    accelerators: tuple[Accelerator, ...]


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """Memory to attach.

    Attributes:
        domain: ID of the memory domain.
        mebibytes: size of the chunk.
    """

    domain: str
    mebibytes: int


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """One thing to attach to one host.

    Attributes:
        identity: the allocation.
        host: ID of the host.
        target: memory, or the ID of an accelerator.
    """

    identity: AttachmentIdentity
    host: str
    target: MemoryRequest | str


@dataclass(frozen=True, slots=True)
class FabricAttachment:
    """What exists on the manager for one allocation.

    Attributes:
        identity: the allocation.
        host: ID of the host that it is connected to; None while nothing is connected.
        connected: whether the host can use it.
        mebibytes: size of the chunk; 0 for an accelerator, and for a chunk that does not exist yet.
        serial: serial number of the device that the host finds; None if the manager does not report it.
        health: the worst health of its objects.
    """

    identity: AttachmentIdentity
    host: str | None
    connected: bool
    mebibytes: int
    serial: int | None
    health: FabricHealth
