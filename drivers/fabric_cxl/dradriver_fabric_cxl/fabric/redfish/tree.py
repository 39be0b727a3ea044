"""Reads the resources of a fabric."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dradriver_fabric_cxl.fabric.errors import FabricError
from dradriver_fabric_cxl.fabric.redfish.answers import follow, to_path
from dradriver_fabric_cxl.fabric.redfish.endpoints import (
    find_system,
    is_accelerator,
    is_host,
    parse_accelerator,
)
from dradriver_fabric_cxl.fabric.redfish.resources import links_of, parse_domain, parse_health
from dradriver_fabric_cxl.fabric.redfish.service import RedfishResource, RedfishService, gather_all
from dradriver_fabric_cxl.fabric.redfish.session import ROOT
from dradriver_fabric_cxl.fabric.values import FabricInventory, Host

__all__ = ["FabricPaths", "RedfishTree"]


@dataclass(frozen=True, slots=True)
class FabricPaths:
    """Where the manager keeps the resources, by their IDs.

    Attributes:
        chunks: path of the chunks of each memory domain.
        hosts: path of each host's endpoint.
        accelerators: path of each accelerator's endpoint.
        connections: path of the connections.
        tasks: path of the tasks; "" if the manager has none.
        events: path of the server-sent events; "" if the manager has none.
    """

    chunks: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    accelerators: Mapping[str, str] = field(default_factory=dict)
    connections: str = ""
    tasks: str = ""
    events: str = ""


class RedfishTree:
    """The tree of resources of one fabric.

    Args:
        service: the manager.
        fabric: ID of the fabric; "" for the only CXL fabric.
    """

    def __init__(self, service: RedfishService, fabric: str) -> None:
        self._service = service
        self._fabric = fabric
        self._paths: FabricPaths | None = None

    async def paths(self) -> FabricPaths:
        """Return where the resources are, as they were at the last `read`."""
        if self._paths is None:
            await self.read()
        if self._paths is None:
            raise FabricError("the fabric was not read")
        return self._paths

    async def read(self) -> FabricInventory:
        """Return the resources of the fabric as they are now.

        Raises:
            FabricError: there is no such fabric, or more than one.
        """
        root = (await self._service.get(ROOT)).body
        fabric = self._choose(await self._service.members(follow(root.get("Fabrics"))))
        endpoints = await self._service.members(follow(fabric.body.get("Endpoints")))
        ports = await self._read_ports(fabric)
        hosts = [each for each in endpoints if is_host(each.body)]
        accelerators = [each for each in endpoints if is_accelerator(each.body)]
        domains, chunks = [], {}
        for chassis in await self._service.members(follow(root.get("Chassis"))):
            for each in await self._service.members(follow(chassis.body.get("MemoryDomains"))):
                path = follow(each.body.get("MemoryChunks"))
                domain = parse_domain(chassis.body, each.body, await self._service.members(path))
                domains.append(domain)
                chunks[domain.id] = path
        tasks = await self._service.find(follow(root.get("Tasks")))
        events = await self._service.find(follow(root.get("EventService")))
        self._paths = FabricPaths(
            chunks,
            {_last_part(each.path): each.path for each in hosts},
            {_last_part(each.path): each.path for each in accelerators},
            follow(fabric.body.get("Connections")),
            follow(tasks.body.get("Tasks")) if tasks else "",
            to_path(events.body.get("ServerSentEventUri")) if events else "",
        )
        return FabricInventory(
            str(fabric.body.get("Id", "")),
            tuple(sorted(domains, key=lambda each: each.id)),
            tuple(await gather_all(self._make_host(each, ports) for each in hosts)),
            tuple(parse_accelerator(each.body) for each in accelerators),
        )

    def _choose(self, fabrics: list[RedfishResource]) -> RedfishResource:
        found = [
            each
            for each in fabrics
            if (each.body.get("Id") == self._fabric if self._fabric else each.body.get("FabricType") == "CXL")
        ]
        if len(found) != 1:
            names = ", ".join(str(each.body.get("Id")) for each in fabrics) or "none"
            wanted = f"fabric {self._fabric}" if self._fabric else "the CXL fabric"
            raise FabricError(f"{wanted}: the manager has {len(found)}; its fabrics: {names}")
        return found[0]

    async def _read_ports(self, fabric: RedfishResource) -> dict[str, int]:
        """Return the number of virtual ports by the path of the host's endpoint, where the switches tell it."""
        ports: dict[str, int] = {}
        for switch in await self._service.members(follow(fabric.body.get("Switches"))):
            cxl = switch.body.get("CXL")
            path = follow(cxl.get("VirtualCXLSwitches")) if isinstance(cxl, Mapping) else ""
            virtual = await self._service.members(path)
            found = await gather_all(self._service.find(follow(each.body.get("VPPBs"))) for each in virtual)
            for each, bridges in zip(virtual, found, strict=True):
                count = bridges.body.get("Members@odata.count") if bridges else None
                for endpoint in links_of(each.body, "Endpoints"):
                    if isinstance(count, int):
                        ports[endpoint] = ports.get(endpoint, 0) + count
        return ports

    async def _make_host(self, endpoint: RedfishResource, ports: Mapping[str, int]) -> Host:
        system = await self._service.find(find_system(endpoint.body))
        uuid = system.body.get("UUID") if system else None
        return Host(
            _last_part(endpoint.path),
            uuid.lower() if isinstance(uuid, str) else "",
            ports.get(endpoint.path),
            parse_health(endpoint.body),
        )


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
