"""Memory domains, chunks and connections as values, and as requests for new ones. Pure.

Source: Redfish schemas MemoryDomain, MemoryChunks, Connection, CXLLogicalDevice.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dradriver_fabric_cxl.fabric.objects import ChunkObject, ConnectionObject
from dradriver_fabric_cxl.fabric.redfish.answers import follow
from dradriver_fabric_cxl.fabric.redfish.service import RedfishResource
from dradriver_fabric_cxl.fabric.tags import parse_identity
from dradriver_fabric_cxl.fabric.values import (
    AttachRequest,
    FabricHealth,
    MemoryChunk,
    MemoryDomain,
)

__all__ = [
    "describe_chunk",
    "describe_connection",
    "links_of",
    "parse_chunk",
    "parse_connection",
    "parse_domain",
    "parse_health",
    "parse_serial",
]


def parse_health(body: Mapping[str, Any]) -> FabricHealth:
    """Return the health of a resource; a resource that reports none is healthy.

    Args:
        body: the resource.
    """
    health = _status(body).get("Health")
    return next((each for each in FabricHealth if each.value == health), FabricHealth.OK)


def links_of(body: Mapping[str, Any], name: str) -> list[str]:
    """Return the paths of an array in the resource's `Links`.

    Args:
        body: the resource.
        name: name of the array.
    """
    links = body.get("Links")
    found = links.get(name) if isinstance(links, Mapping) else None
    return [follow(each) for each in found] if isinstance(found, list) else []


def parse_domain(
    chassis: Mapping[str, Any], body: Mapping[str, Any], chunks: Iterable[RedfishResource]
) -> MemoryDomain:
    """Return a memory domain. Its ID has the chassis', because IDs are unique in one collection only.

    Args:
        chassis: the chassis.
        body: the memory domain.
        chunks: its chunks.
    """
    minimum = _number(body, "MinMemoryChunkSizeMiB") or _number(body, "MemoryChunkIncrementMiB") or 1
    switches = links_of(chassis, "Switches")
    return MemoryDomain(
        f"{chassis.get('Id', '')}-{body.get('Id', '')}",
        _number(body, "MemorySizeMiB"),
        minimum=minimum,
        increment=_number(body, "MemoryChunkIncrementMiB") or minimum,
        makes_chunks=body.get("AllowsMemoryChunkCreation") is True,
        health=parse_health(body),
        chunks=tuple(
            MemoryChunk(
                _number(each.body, "MemoryChunkSizeMiB"),
                parse_identity(each.body.get("Name"), each.body.get("Description")),
            )
            for each in chunks
        ),
        switch=switches[0].rpartition("/")[2] if switches else "",
    )


def parse_serial(device: Mapping[str, Any]) -> int | None:
    """Return the serial number of a CXL logical device, which the host reads from the device; None if unknown.

    Args:
        device: the CXL logical device. `GCXLID` has the serial number in 8 bytes, a colon and the LD-ID.
    """
    identifiers = device.get("Identifiers")
    for each in identifiers if isinstance(identifiers, list) else []:
        if isinstance(each, Mapping) and each.get("DurableNameFormat") == "GCXLID":
            digits = str(each.get("DurableName", "")).partition(":")[0].replace("-", "")
            try:
                return int(digits, 16)
            except ValueError:
                return None
    return None


def parse_chunk(resource: RedfishResource, serial: int | None) -> ChunkObject | None:
    """Return a chunk; None if it has no tag.

    Args:
        resource: the chunk.
        serial: serial number of its CXL logical device.
    """
    body = resource.body
    identity = parse_identity(body.get("Name"), body.get("Description"))
    if identity is None:
        return None
    return ChunkObject(
        resource.path,
        resource.version,
        identity,
        _number(body, "MemoryChunkSizeMiB"),
        enabled=_is_enabled(body),
        health=parse_health(body),
        serial=serial,
    )


def parse_connection(resource: RedfishResource, serial: int | None = None) -> ConnectionObject:
    """Return a connection.

    Args:
        resource: the connection.
        serial: serial number of its accelerator; None for a chunk.
    """
    body = resource.body
    chunks = body.get("MemoryChunkInfo")
    first = chunks[0] if isinstance(chunks, list) and chunks and isinstance(chunks[0], Mapping) else {}
    hosts = links_of(body, "InitiatorEndpoints")
    return ConnectionObject(
        resource.path,
        resource.version,
        parse_identity(body.get("Name"), body.get("Description")),
        host=hosts[0].rpartition("/")[2] if hosts else "",
        chunk=follow(first.get("MemoryChunk")),
        enabled=_is_enabled(body),
        health=parse_health(body),
        serial=serial,
    )


def describe_chunk(request: AttachRequest, mebibytes: int) -> dict[str, Any]:
    """Return the JSON object of a new chunk.

    Args:
        request: the attachment.
        mebibytes: size.
    """
    return _describe(request) | {"MemoryChunkSizeMiB": mebibytes, "AddressRangeType": "Volatile"}


def describe_connection(request: AttachRequest, host: str, chunk: str, accelerator: str) -> dict[str, Any]:
    """Return the JSON object of a new connection.

    Args:
        request: the attachment.
        host: path of the host's endpoint.
        chunk: path of the chunk; "" for an accelerator.
        accelerator: path of the accelerator's endpoint; "" for a chunk.
    """
    links: dict[str, Any] = {"InitiatorEndpoints": [{"@odata.id": host}]}
    if not chunk:
        # `ConnectionType` has no value for accelerators.
        return _describe(request) | {"Links": links | {"TargetEndpoints": [{"@odata.id": accelerator}]}}
    info = {"AccessCapabilities": ["Read", "Write"], "MemoryChunk": {"@odata.id": chunk}}
    return _describe(request) | {"ConnectionType": "Memory", "MemoryChunkInfo": [info], "Links": links}


def _describe(request: AttachRequest) -> dict[str, Any]:
    return {"Name": request.identity.tag, "Description": request.identity.description}


def _status(body: Mapping[str, Any]) -> Mapping[str, Any]:
    status = body.get("Status")
    return status if isinstance(status, Mapping) else {}


def _is_enabled(body: Mapping[str, Any]) -> bool:
    return bool(_status(body).get("State", "Enabled") == "Enabled")


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    return value if isinstance(value, int) else 0
