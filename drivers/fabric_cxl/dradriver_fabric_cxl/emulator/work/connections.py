"""Connections of memory chunks and of the accelerator to hosts."""

from typing import Any

from dradriver_fabric_cxl.emulator.hooks import HardwareCall
from dradriver_fabric_cxl.emulator.resources.fabric import ACCELERATOR_SERIAL, system_uuid
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCELERATOR,
    ACCELERATOR_ENDPOINT,
    CONNECTIONS,
    SYSTEMS,
    last_part,
    link,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree, connections_of
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, State
from dradriver_fabric_cxl.emulator.work.memory import MIB, MemoryChunks, connection_of, name_of, serial_of

__all__ = ["Connections"]


class Connections:
    """Creates and deletes connections in a draft of the state, and describes the change of the hardware."""

    def __init__(self, settings: EmulatorSettings, tree: ResourceTree, chunks: MemoryChunks) -> None:
        self._settings, self._tree, self._chunks = settings, tree, chunks

    def check(self, state: State, body: Body) -> None:
        """Check a request for a new connection.

        Raises:
            RedfishError: 400: a link is missing or wrong; 409: the device has a connection already; 507: the
                host has its maximum of connections.
        """
        host = self._host(state, body)
        chunk = self._chunk(state, body)
        if not chunk and ACCELERATOR_ENDPOINT not in _references(body, "TargetEndpoints"):
            raise _missing(
                "MemoryChunkInfo", "A connection needs a memory chunk or the accelerator's endpoint."
            )
        taken = (
            connection_of(state, chunk)
            if chunk
            else next(iter(connections_of(state, ACCELERATOR_ENDPOINT)), "")
        )
        if taken:
            raise RedfishError(409, "ResourceInUse", f"{taken} uses the device.")
        if len(connections_of(state, host)) >= self._settings.host_attachments:
            raise RedfishError(
                507,
                "CreateLimitReachedForResource",
                f"{host} has its maximum of {self._settings.host_attachments} connections.",
            )

    def make(self, state: State, body: Body) -> str:
        """Add a connection that is not enabled yet; return its URI."""
        number = state.next_number()
        path = f"{CONNECTIONS}/{number}"
        chunk = self._chunk(state, body)
        device: dict[str, Any] = {}
        targets = [link(ACCELERATOR_ENDPOINT)]
        if chunk:
            access = {"AccessCapabilities": ["Read", "Write"], "AccessState": "Optimized"}
            device = {"ConnectionType": "Memory", "MemoryChunkInfo": [{**access, "MemoryChunk": link(chunk)}]}
            targets = state.resources[chunk]["Links"]["Endpoints"]
        state.resources[path] = {
            "@odata.id": path,
            "@odata.type": "#Connection.v1_3_2.Connection",
            "Id": str(number),
            **name_of(self._settings, body, f"Connection {number}"),
            **device,
            "Status": {"State": "Starting", "Health": "OK"},
            "Links": {"InitiatorEndpoints": [link(self._host(state, body))], "TargetEndpoints": targets},
        }
        return path

    def set_state(self, state: State, path: str, new: str) -> None:
        """Set `Status.State` of a connection.

        Raises:
            RedfishError: 404: it does not exist.
        """
        if path not in state.resources:
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        state.resources[path]["Status"]["State"] = new

    def remove(self, state: State, path: str) -> None:
        """Remove a connection; a no-op if it does not exist."""
        state.resources.pop(path, None)
        state.health.pop(path, None)

    def connect_call(self, state: State, path: str) -> HardwareCall:
        """Return the change of the hardware that makes a connection."""
        return self._call(state, path, connect=True)

    def disconnect_call(self, state: State, path: str) -> HardwareCall:
        """Return the change of the hardware that ends a connection."""
        return self._call(state, path, connect=False)

    def _call(self, state: State, path: str, *, connect: bool) -> HardwareCall:
        body = state.resources[path]
        host = last_part(body["Links"]["InitiatorEndpoints"][0]["@odata.id"])
        info = body.get("MemoryChunkInfo")
        chunk: str = info[0]["MemoryChunk"]["@odata.id"] if info else ""
        return HardwareCall(
            operation="connect" if connect else "disconnect",
            kind="memory" if chunk else "accelerator",
            connection=path,
            host=host,
            system_uuid=system_uuid(host),
            device=chunk or ACCELERATOR,
            serial=serial_of(state, chunk) if chunk else ACCELERATOR_SERIAL,
            bytes=state.resources[chunk]["MemoryChunkSizeMiB"] * MIB if chunk else 0,
        )

    def _host(self, state: State, body: Body) -> str:
        initiators = _references(body, "InitiatorEndpoints")
        if not initiators:
            raise _missing("Links/InitiatorEndpoints", "A connection needs a host's endpoint.")
        host = initiators[0]
        endpoint = self._tree.read(state, host)
        entity = endpoint["ConnectedEntities"][0] if endpoint and "ConnectedEntities" in endpoint else {}
        if len(initiators) > 1 or not entity.get("EntityLink", {}).get("@odata.id", "").startswith(SYSTEMS):
            raise _unknown("Links/InitiatorEndpoints", host)
        return host

    def _chunk(self, state: State, body: Body) -> str:
        infos = body.get("MemoryChunkInfo", [])
        if not infos:
            return ""
        try:
            (info,) = infos
            chunk: str = info["MemoryChunk"]["@odata.id"]
        except (KeyError, TypeError, ValueError):
            raise _missing("MemoryChunkInfo", "A connection has exactly one memory chunk.") from None
        if chunk not in state.resources or not self._chunks.is_collection(parent_of(chunk)):
            raise _unknown("MemoryChunkInfo", chunk)
        return chunk


def _references(body: Body, name: str) -> list[str]:
    try:
        return [str(each["@odata.id"]) for each in body.get("Links", {}).get(name, [])]
    except (AttributeError, KeyError, TypeError):
        raise _missing(f"Links/{name}", f"Links.{name} must be an array of references.") from None


def _missing(pointer: str, text: str) -> RedfishError:
    return RedfishError(400, "CreateFailedMissingReqProperties", text, [pointer], properties=[f"/{pointer}"])


def _unknown(pointer: str, path: str) -> RedfishError:
    return RedfishError(
        400,
        "ResourceNotFound",
        f"{path} does not exist or has another type.",
        [path],
        properties=[f"/{pointer}"],
    )
