"""URIs of the service."""

from typing import Final

__all__ = [
    "ACCELERATOR",
    "ACCELERATOR_ENDPOINT",
    "ACCOUNTS",
    "APPLIANCE",
    "CHASSIS",
    "CONNECTIONS",
    "DOMAINS",
    "ENDPOINTS",
    "EVENTS",
    "EVENT_STREAM",
    "FABRIC",
    "FIRST_ACCOUNT",
    "MONITORS",
    "PCIE_DEVICES",
    "ROLES",
    "ROOT",
    "SESSIONS",
    "SUBSCRIPTIONS",
    "SWITCH",
    "SYSTEMS",
    "TASKS",
    "VIRTUAL_SWITCHES",
    "chunks_of",
    "last_part",
    "link",
    "logical_devices_of",
    "parent_of",
]

ROOT: Final = "/redfish/v1"
SYSTEMS: Final = f"{ROOT}/Systems"
CHASSIS: Final = f"{ROOT}/Chassis"
APPLIANCE: Final = f"{CHASSIS}/memory-appliance"
DOMAINS: Final = f"{APPLIANCE}/MemoryDomains"
PCIE_DEVICES: Final = f"{APPLIANCE}/PCIeDevices"
ACCELERATOR: Final = f"{CHASSIS}/accelerators/Processors/accelerator-1"
FABRIC: Final = f"{ROOT}/Fabrics/CXL"
SWITCH: Final = f"{FABRIC}/Switches/switch-1"
VIRTUAL_SWITCHES: Final = f"{SWITCH}/VCSs"
ENDPOINTS: Final = f"{FABRIC}/Endpoints"
ACCELERATOR_ENDPOINT: Final = f"{ENDPOINTS}/accelerator-1"
CONNECTIONS: Final = f"{FABRIC}/Connections"
TASKS: Final = f"{ROOT}/TaskService/Tasks"
MONITORS: Final = f"{ROOT}/TaskService/TaskMonitors"
EVENTS: Final = f"{ROOT}/EventService"
EVENT_STREAM: Final = f"{EVENTS}/SSE"
SUBSCRIPTIONS: Final = f"{EVENTS}/Subscriptions"
SESSIONS: Final = f"{ROOT}/SessionService/Sessions"
ACCOUNTS: Final = f"{ROOT}/AccountService/Accounts"
FIRST_ACCOUNT: Final = f"{ACCOUNTS}/administrator"
ROLES: Final = f"{ROOT}/AccountService/Roles"


def link(path: str) -> dict[str, str]:
    """Return a reference to a resource."""
    return {"@odata.id": path}


def parent_of(path: str) -> str:
    """Return the URI of the collection that contains a resource."""
    return path.rpartition("/")[0]


def last_part(path: str) -> str:
    """Return the ID of a resource."""
    return path.rpartition("/")[2]


def chunks_of(domain: str) -> str:
    """Return the URI of a memory domain's chunks."""
    return f"{domain}/MemoryChunks"


def logical_devices_of(domain: str) -> str:
    """Return the URI of the CXL logical devices of a memory domain."""
    return f"{PCIE_DEVICES}/{last_part(domain)}/CXLLogicalDevices"
