"""The fixed part of the fabric: hosts, memory domains, switch, endpoints."""

import uuid
from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCELERATOR,
    ACCELERATOR_ENDPOINT,
    APPLIANCE,
    CONNECTIONS,
    DOMAINS,
    ENDPOINTS,
    FABRIC,
    PCIE_DEVICES,
    SWITCH,
    SYSTEMS,
    VIRTUAL_SWITCHES,
    chunks_of,
    last_part,
    link,
    logical_devices_of,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.services import make_collection
from dradriver_fabric_cxl.emulator.resources.virtual_switches import make_virtual_switches
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings

__all__ = ["ACCELERATOR_SERIAL", "make_fabric", "system_uuid"]

ACCELERATOR_SERIAL: Final = 0x0000_00AC_CE1E_0001
"""Serial number of the accelerator, as its host reads it from the PCI device."""
_NAMESPACE: Final = uuid.UUID("8d1f3b52-04a7-4f0b-9f2e-5a6c7d8e9f10")
_OK: Final = {"State": "Enabled", "Health": "OK"}


def system_uuid(host: str) -> str:
    """Return the UUID of a host's system, always the same.

    Args:
        host: ID of the system, for example "host-1".
    """
    return str(uuid.uuid5(_NAMESPACE, host))


def make_fabric(settings: EmulatorSettings) -> dict[str, dict[str, Any]]:
    """Return the resources by URI."""
    domains = [f"{DOMAINS}/domain-{number}" for number, _ in enumerate(settings.domain_mib, 1)]
    hosts = [f"{SYSTEMS}/host-{number}" for number in range(1, settings.hosts + 1)]
    bodies = [
        _fabric(),
        make_collection(parent_of(SWITCH), "SwitchCollection", "Switches"),
        make_collection(ENDPOINTS, "EndpointCollection", "Endpoints"),
        make_collection(CONNECTIONS, "ConnectionCollection", "Connections"),
        _switch(settings),
        *make_virtual_switches(hosts, settings.host_attachments),
        _appliance(),
        make_collection(DOMAINS, "MemoryDomainCollection", "Memory Domains"),
        make_collection(PCIE_DEVICES, "PCIeDeviceCollection", "PCIe Devices"),
    ]
    for domain, mebibytes in zip(domains, settings.domain_mib, strict=True):
        bodies += _domain(domain, mebibytes, settings)
    for host in hosts:
        bodies += [_system(host), _endpoint(last_part(host), "RootComplex", "Initiator", host)]
    if settings.accelerator:
        bodies += _accelerator()
    return {body["@odata.id"]: body for body in bodies}


def _fabric() -> dict[str, Any]:
    return {
        "@odata.id": FABRIC,
        "@odata.type": "#Fabric.v1_3_2.Fabric",
        "Id": last_part(FABRIC),
        "Name": "CXL fabric",
        "FabricType": "CXL",
        "Status": _OK,
        "Switches": link(parent_of(SWITCH)),
        "Endpoints": link(ENDPOINTS),
        "Connections": link(CONNECTIONS),
    }


def _switch(settings: EmulatorSettings) -> dict[str, Any]:
    return {
        "@odata.id": SWITCH,
        "@odata.type": "#Switch.v1_11_0.Switch",
        "Id": last_part(SWITCH),
        "Name": "CXL switch",
        "SwitchType": "CXL",
        "SupportedProtocols": ["CXL"],
        "Status": _OK,
        "CXL": {
            "MaxVCSsSupported": settings.hosts,
            "TotalNumbervPPBs": settings.hosts * settings.host_attachments,
            "VirtualCXLSwitches": link(VIRTUAL_SWITCHES),
        },
        "Links": {"Chassis": link(APPLIANCE)},
    }


def _appliance() -> dict[str, Any]:
    return {
        "@odata.id": APPLIANCE,
        "@odata.type": "#Chassis.v1_25_1.Chassis",
        "Id": last_part(APPLIANCE),
        "Name": "Memory appliance",
        "ChassisType": "Enclosure",
        "Status": _OK,
        "MemoryDomains": link(DOMAINS),
        "PCIeDevices": link(PCIE_DEVICES),
        "Links": {"Switches": [link(SWITCH)]},
    }


def _domain(path: str, mebibytes: int, settings: EmulatorSettings) -> list[dict[str, Any]]:
    card = f"{PCIE_DEVICES}/{last_part(path)}"
    domain = {
        "@odata.id": path,
        "@odata.type": "#MemoryDomain.v1_5_1.MemoryDomain",
        "Id": last_part(path),
        "Name": f"Memory of {last_part(path)}",
        "AllowsMemoryChunkCreation": True,
        "MemorySizeMiB": mebibytes,
        "MinMemoryChunkSizeMiB": settings.minimum_mib,
        "MemoryChunkIncrementMiB": settings.increment_mib,
        "InterleavableMemorySets": [],
        "Status": _OK,
        "MemoryChunks": link(chunks_of(path)),
        "Links": {"CXLLogicalDevices": []},
    }
    device = {
        "@odata.id": card,
        "@odata.type": "#PCIeDevice.v1_17_0.PCIeDevice",
        "Id": last_part(card),
        "Name": f"CXL device of {last_part(path)}",
        "DeviceType": "MultiFunction",
        "Status": _OK,
        "CXLDevice": {"DeviceType": "Type3", "MaxNumberLogicalDevices": 256},
        "CXLLogicalDevices": link(logical_devices_of(path)),
        "Links": {"Chassis": [link(APPLIANCE)], "Switch": link(SWITCH)},
    }
    return [
        domain,
        make_collection(chunks_of(path), "MemoryChunksCollection", "Memory Chunks"),
        device,
        make_collection(logical_devices_of(path), "CXLLogicalDeviceCollection", "CXL Logical Devices"),
        _endpoint(f"memory-{last_part(path)}", "CXLDevice", "Target", card),
    ]


def _system(path: str) -> dict[str, Any]:
    host = last_part(path)
    return {
        "@odata.id": path,
        "@odata.type": "#ComputerSystem.v1_23_1.ComputerSystem",
        "Id": host,
        "Name": f"System {host}",
        "SystemType": "Physical",
        "HostName": host,
        "UUID": system_uuid(host),
        "PowerState": "On",
        "Status": _OK,
        "Links": {"Endpoints": [link(f"{ENDPOINTS}/{host}")]},
    }


def _endpoint(name: str, kind: str, role: str, entity: str) -> dict[str, Any]:
    return {
        "@odata.id": f"{ENDPOINTS}/{name}",
        "@odata.type": "#Endpoint.v1_8_2.Endpoint",
        "Id": name,
        "Name": f"Endpoint {name}",
        "EndpointProtocol": "CXL",
        "Status": _OK,
        "ConnectedEntities": [{"EntityType": kind, "EntityRole": role, "EntityLink": link(entity)}],
        "Links": {"Connections": []},
    }


def _accelerator() -> list[dict[str, Any]]:
    processors = parent_of(ACCELERATOR)
    chassis = {
        "@odata.id": parent_of(processors),
        "@odata.type": "#Chassis.v1_25_1.Chassis",
        "Id": "accelerators",
        "Name": "Accelerators",
        "ChassisType": "Enclosure",
        "Status": _OK,
        "Processors": link(processors),
        "Links": {"Switches": [link(SWITCH)]},
    }
    processor = {
        "@odata.id": ACCELERATOR,
        "@odata.type": "#Processor.v1_20_1.Processor",
        "Id": last_part(ACCELERATOR),
        "Name": "Accelerator",
        "ProcessorType": "Accelerator",
        "Model": "Emulated accelerator",
        "SerialNumber": ACCELERATOR_SERIAL.to_bytes(8, "big").hex("-"),
        "Status": _OK,
        "Links": {"Endpoints": [link(ACCELERATOR_ENDPOINT)]},
    }
    endpoint = _endpoint(last_part(ACCELERATOR_ENDPOINT), "Processor", "Target", ACCELERATOR)
    return [
        chassis,
        make_collection(processors, "ProcessorCollection", "Processors"),
        processor,
        endpoint,
    ]
