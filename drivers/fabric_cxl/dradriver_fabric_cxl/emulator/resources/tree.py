"""All resources as clients read them: the fixed ones and those that clients made."""

import copy
import hashlib
import re
from typing import Any, Final

import msgspec

from dradriver_fabric_cxl.emulator.resources.fabric import make_fabric
from dradriver_fabric_cxl.emulator.resources.paths import (
    CONNECTIONS,
    DOMAINS,
    ENDPOINTS,
    last_part,
    link,
    logical_devices_of,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.services import make_services
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, State

__all__ = ["ResourceTree", "connections_of"]

_NUMBERS: Final = re.compile(r"\d+")


class ResourceTree:
    """Reads resources. The state is an argument of each call, so that a change can read its own draft.

    Attributes:
        fixed: the resources that exist from the beginning, by URI.
    """

    def __init__(self, settings: EmulatorSettings) -> None:
        self.fixed = make_services(settings.session_seconds) | make_fabric(settings)

    def exists(self, state: State, path: str) -> bool:
        """Check whether there is such a resource."""
        return path in self.fixed or path in state.resources

    def is_collection(self, path: str) -> bool:
        """Check whether a URI is the URI of a collection."""
        return path in self.fixed and self.fixed[path]["@odata.type"].endswith("Collection")

    def read(self, state: State, path: str) -> Body | None:
        """Return a resource as a client reads it; None if there is none."""
        stored = state.resources.get(path) or self.fixed.get(path)
        if stored is None:
            return None
        body = copy.deepcopy(stored)
        if self.is_collection(path):
            members = self.members(state, path)
            body |= {"Members@odata.count": len(members), "Members": [link(each) for each in members]}
        elif parent_of(path) == ENDPOINTS:
            body["Links"]["Connections"] = [link(each) for each in connections_of(state, path)]
        elif parent_of(path) == DOMAINS:
            devices = self.members(state, logical_devices_of(path))
            body["Links"]["CXLLogicalDevices"] = [link(each) for each in devices]
        if path in state.health:
            body["Status"]["Health"] = state.health[path]
        # The password of an account is not in its body, but a new one must change the ETag.
        salt, _ = state.passwords.get(body.get("UserName", ""), ("", ""))
        return {"@odata.etag": _entity_tag(body, salt)} | body

    def members(self, state: State, path: str) -> list[str]:
        """Return the URIs of a collection's members; numbers in their names are sorted as numbers."""
        found = [each for each in (*self.fixed, *state.resources) if parent_of(each) == path]
        return sorted(found, key=_natural_order)

    def types(self) -> set[str]:
        """Return the types of the fixed resources, and of those that clients can make."""
        made = {
            "#MemoryChunks.v1_6_2.MemoryChunks",
            "#CXLLogicalDevice.v1_2_1.CXLLogicalDevice",
            "#Connection.v1_3_2.Connection",
            "#Task.v1_7_4.Task",
            "#Session.v1_7_1.Session",
            "#ManagerAccount.v1_13_0.ManagerAccount",
            "#EventDestination.v1_15_0.EventDestination",
        }
        return {body["@odata.type"] for body in self.fixed.values()} | made


def connections_of(state: State, endpoint: str) -> list[str]:
    """Return the URIs of the connections that name an endpoint."""
    found = []
    for path, body in state.resources.items():
        if parent_of(path) == CONNECTIONS:
            links: dict[str, Any] = body["Links"]
            ends = [*links["InitiatorEndpoints"], *links["TargetEndpoints"]]
            if link(endpoint) in ends:
                found.append(path)
    return sorted(found, key=_natural_order)


def _entity_tag(body: Body, more: str) -> str:
    return f'"{hashlib.sha256(msgspec.json.encode([body, more])).hexdigest()[:16]}"'


def _natural_order(path: str) -> tuple[str, list[int]]:
    name = last_part(path)
    return _NUMBERS.sub("", name), [int(number) for number in _NUMBERS.findall(name)]
