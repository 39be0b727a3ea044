"""Memory chunks: what a request may ask for, and the resources that it makes."""

from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.paths import (
    CONNECTIONS,
    ENDPOINTS,
    chunks_of,
    last_part,
    link,
    logical_devices_of,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, State

__all__ = ["MIB", "MemoryChunks", "connection_of", "logical_device_of", "name_of", "serial_of"]

MIB: Final = 1 << 20
_COPIED: Final = ("DisplayName", "RequestedOperationalState")
_FIRST_SERIAL: Final = 0x1233


def name_of(settings: EmulatorSettings, body: Body, name: str) -> dict[str, Any]:
    """Return `Name` and `Description` of a new object: from its request if the manager keeps them."""
    if not settings.keeps_names:
        return {"Name": name}
    return {"Name": body.get("Name", name)} | {
        key: body[key] for key in ("Description",) if isinstance(body.get(key), str)
    }


def logical_device_of(state: State, chunk: str) -> Body:
    """Return the CXL logical device that a chunk appears as on its host."""
    return state.resources[state.resources[chunk]["Links"]["CXLLogicalDevices"][0]["@odata.id"]]


def serial_of(state: State, chunk: str) -> int:
    """Return the serial number of a chunk's CXL logical device."""
    name: str = logical_device_of(state, chunk)["Identifiers"][0]["DurableName"]
    return int(name.partition(":")[0].replace("-", ""), 16)


def connection_of(state: State, chunk: str) -> str:
    """Return the URI of the connection of a chunk; "" if it has none."""
    for path, body in state.resources.items():
        if parent_of(path) == CONNECTIONS:
            chunks = [info["MemoryChunk"] for info in body.get("MemoryChunkInfo", [])]
            if link(chunk) in chunks:
                return path
    return ""


class MemoryChunks:
    """Creates and deletes memory chunks in a draft of the state."""

    def __init__(self, settings: EmulatorSettings, tree: ResourceTree) -> None:
        self._settings, self._tree = settings, tree

    def check(self, state: State, collection: str, body: Body) -> None:
        """Check a request for a new chunk.

        Raises:
            RedfishError: 400: a property is missing or wrong; 507: the domain has too little memory.
        """
        size = body.get("MemoryChunkSizeMiB")
        if size is None:
            raise RedfishError(
                400,
                "CreateFailedMissingReqProperties",
                "The property MemoryChunkSizeMiB is required.",
                ["MemoryChunkSizeMiB"],
                properties=["/MemoryChunkSizeMiB"],
            )
        smallest, step = self._settings.minimum_mib, self._settings.increment_mib
        if not isinstance(size, int) or size < smallest or size % step:
            raise RedfishError(
                400,
                "PropertyValueNotInList",
                f"MemoryChunkSizeMiB {size!r} must be a multiple of {step} and at least {smallest}.",
                [str(size), "MemoryChunkSizeMiB"],
                properties=["/MemoryChunkSizeMiB"],
            )
        if body.get("AddressRangeType", "Volatile") != "Volatile":
            raise RedfishError(
                400,
                "PropertyValueNotInList",
                "AddressRangeType must be Volatile.",
                [str(body["AddressRangeType"]), "AddressRangeType"],
                properties=["/AddressRangeType"],
            )
        used = sum(
            state.resources[each]["MemoryChunkSizeMiB"] for each in self._tree.members(state, collection)
        )
        free = self._tree.fixed[parent_of(collection)]["MemorySizeMiB"] - used
        if size > free:
            raise RedfishError(
                507, "InsufficientStorage", f"The memory domain has only {free} MiB left, not {size} MiB."
            )

    def make(self, state: State, collection: str, body: Body) -> str:
        """Add a chunk and its CXL logical device; return the chunk's URI."""
        domain = parent_of(collection)
        number = state.next_number()
        path, device = f"{collection}/{number}", f"{logical_devices_of(domain)}/{number}"
        octets = (_FIRST_SERIAL + number).to_bytes(8, "big")
        endpoint = link(f"{ENDPOINTS}/memory-{last_part(domain)}")
        status = {"State": "Enabled", "Health": "OK"}
        state.resources[path] = {
            "@odata.id": path,
            "@odata.type": "#MemoryChunks.v1_6_2.MemoryChunks",
            "Id": str(number),
            **name_of(self._settings, body, f"Memory chunk {number}"),
            **{key: body[key] for key in _COPIED if isinstance(body.get(key), str)},
            "MemoryChunkSizeMiB": body["MemoryChunkSizeMiB"],
            "AddressRangeType": "Volatile",
            "Status": status,
            "Links": {"CXLLogicalDevices": [link(device)], "Endpoints": [endpoint]},
        }
        state.resources[device] = {
            "@odata.id": device,
            "@odata.type": "#CXLLogicalDevice.v1_2_1.CXLLogicalDevice",
            "Id": str(number),
            "Name": f"CXL logical device {number}",
            "Identifiers": [{"DurableNameFormat": "GCXLID", "DurableName": f"{octets.hex('-')}:0000"}],
            "SemanticsSupported": ["CXLio", "CXLmem"],
            "MemorySizeMiB": body["MemoryChunkSizeMiB"],
            "Status": status,
            "Links": {
                "MemoryChunks": [link(path)],
                "MemoryDomains": [link(domain)],
                "Endpoints": [endpoint],
            },
        }
        return path

    def check_removal(self, state: State, path: str) -> None:
        """Check that a chunk can be removed.

        Raises:
            RedfishError: 404: it does not exist; 409: it is connected to a host.
        """
        if path not in state.resources:
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        if connection := connection_of(state, path):
            raise RedfishError(409, "ResourceInUse", f"{connection} uses the memory chunk.")

    def remove(self, state: State, path: str) -> None:
        """Remove a chunk and its CXL logical device.

        Raises:
            RedfishError: see `check_removal`.
        """
        self.check_removal(state, path)
        device = state.resources[path]["Links"]["CXLLogicalDevices"][0]["@odata.id"]
        for each in (path, device):
            del state.resources[each]
            state.health.pop(each, None)

    def is_collection(self, path: str) -> bool:
        """Check whether a URI is the URI of a memory domain's chunks."""
        domain = parent_of(path)
        return domain in self._tree.fixed and path == chunks_of(domain)
