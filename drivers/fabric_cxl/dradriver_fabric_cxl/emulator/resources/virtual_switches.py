"""The virtual CXL switches of the switch: the ports that a host sees.

Each host has one virtual switch. Something that is connected to the host takes one of its vPPBs (virtual
PCI-to-PCI bridges), so their number is the number of connections that the host can have.

Source: Redfish schemas VirtualCXLSwitch and VirtualPCI2PCIBridge.
"""

from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.paths import ENDPOINTS, VIRTUAL_SWITCHES, last_part, link
from dradriver_fabric_cxl.emulator.resources.services import make_collection

__all__ = ["make_virtual_switches"]

_OK: Final = {"State": "Enabled", "Health": "OK"}


def make_virtual_switches(hosts: list[str], bridges: int) -> list[dict[str, Any]]:
    """Return the virtual switches with their vPPBs, and the collections of both.

    Args:
        hosts: URIs of the hosts' systems.
        bridges: number of vPPBs of each host.
    """
    bodies = [make_collection(VIRTUAL_SWITCHES, "VirtualCXLSwitchCollection", "Virtual CXL Switches")]
    for host in hosts:
        path = f"{VIRTUAL_SWITCHES}/{last_part(host)}"
        bodies.append(_virtual_switch(path, last_part(host)))
        bodies.append(make_collection(f"{path}/VPPBs", "VirtualPCI2PCIBridgeCollection", "vPPBs"))
        bodies += [_bridge(f"{path}/VPPBs/{number}") for number in range(1, bridges + 1)]
    return bodies


def _virtual_switch(path: str, host: str) -> dict[str, Any]:
    return {
        "@odata.id": path,
        "@odata.type": "#VirtualCXLSwitch.v1_0_0.VirtualCXLSwitch",
        "Id": last_part(path),
        "Name": f"Virtual CXL switch of {host}",
        "VCSId": last_part(path),
        "Status": _OK,
        "VPPBs": link(f"{path}/VPPBs"),
        "Links": {"Endpoints": [link(f"{ENDPOINTS}/{host}")]},
    }


def _bridge(path: str) -> dict[str, Any]:
    return {
        "@odata.id": path,
        "@odata.type": "#VirtualPCI2PCIBridge.v1_0_0.VirtualPCI2PCIBridge",
        "Id": last_part(path),
        "Name": f"vPPB {last_part(path)}",
        "VPPBId": last_part(path),
        "Status": _OK,
    }
