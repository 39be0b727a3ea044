"""The folder of a simulated fabric, which the pool driver and the drivers of all simulated nodes share.

| file | content |
|---|---|
| `fabric.json` | the simulated fabric |
| `hosts.json` | the node of each simulated host |
| `memory-HOST.json` | the simulated memory of a host's node |
| `accelerators-HOST.json` | the simulated accelerators of a host's node |
"""

import itertools
import os
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver.testing import StateInFile
from dradriver_fabric_cxl.fabric import FabricHealth, Host
from dradriver_fabric_cxl.fabric.simulator import (
    FabricCall,
    FabricFault,
    FabricFileStore,
    FabricState,
    HostState,
    SimulatedFabric,
)

__all__ = [
    "accelerator_file",
    "claim_simulated_host",
    "default_folder",
    "fail_next_attachment",
    "memory_file",
    "open_fabric_store",
]

_ATTACHMENTS: Final = 4
"""Attachments of a host that is added."""


class _TakenHosts(msgspec.Struct):
    """The node of each host that a node has taken, by the host's ID."""

    nodes: dict[str, str] = {}


def default_folder() -> Path:
    """Return the folder that all simulating processes of an embedded cluster share, otherwise of one user."""
    if folder := os.environ.get("DRADRIVER_SIMULATION_DIR"):
        return Path(folder)
    return Path(tempfile.gettempdir()) / f"dradriver-fabric-cxl-{os.getuid()}"


def open_fabric_store(folder: Path) -> FabricFileStore:
    """Return the state of the simulated fabric.

    Args:
        folder: folder of the simulation.
    """
    return FabricFileStore(folder / "fabric.json")


def memory_file(folder: Path, host: str) -> Path:
    """Return the path of the file with the simulated memory of a host's node.

    Args:
        folder: folder of the simulation.
        host: ID of the host.
    """
    return folder / f"memory-{host}.json"


def accelerator_file(folder: Path, host: str) -> Path:
    """Return the path of the file with the simulated accelerators of a host's node.

    Args:
        folder: folder of the simulation.
        host: ID of the host.
    """
    return folder / f"accelerators-{host}.json"


def claim_simulated_host(folder: Path, node: str, hosts: Mapping[str, str] | None = None) -> Host:
    """Return the simulated host of a node. Blocking; any process may call it.

    A node takes the host that `hosts` names, otherwise the recorded one or the first free one, and records it.
    If no host is free, the simulated fabric gets one more. If the process dies, the next call returns the
    recorded host, or takes one.

    Args:
        folder: folder of the simulation. It is created if it is missing.
        node: name of the node.
        hosts: names of nodes by the ID of their host, as operators configure them.

    Raises:
        DraError: the configured host does not exist, or another node has taken it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    configured = dict(hosts or {})
    with (
        StateInFile(_TakenHosts, folder / "hosts.json").change() as taken,
        open_fabric_store(folder).change() as fabric,
    ):
        host = _find_host_of(node, configured) or _find_host_of(node, taken.nodes)
        host = host or _find_free_host(fabric, {*configured, *taken.nodes})
        taken.nodes = {each: name for each, name in taken.nodes.items() if name != node or each == host}
        if (other := taken.nodes.setdefault(host, node)) != node:
            raise dra.DraError(
                f"simulated host {host}: node {other} has it already, so node {node} cannot take it"
            )
        for each in fabric.hosts:
            if each.id == host:
                return Host(each.id, each.system, each.max_attachments, FabricHealth.OK)
        raise dra.DraError(f"simulated host {host} of node {node}: the fabric has no such host")


def _find_host_of(node: str, nodes: Mapping[str, str]) -> str:
    return next((host for host, name in nodes.items() if name == node), "")


def fail_next_attachment(folder: Path) -> str:
    """Make the next connection of the simulated fabric fail, for demonstrations. Blocking.

    The driver retries a failed connection once, so this function makes both requests fail.

    Args:
        folder: folder of the simulation.

    Returns:
        A message for users that says what will fail.
    """
    fabric = SimulatedFabric(open_fabric_store(folder))
    fabric.fail(FabricCall.CREATE_CONNECTION, FabricFault.PORT_FAILS, times=2)
    return "the port of the host that is connected next fails"


def _find_free_host(fabric: FabricState, reserved: Collection[str]) -> str:
    """Return the first host that is not reserved; make one if there is none."""
    known = {each.id for each in fabric.hosts}
    free = next((each.id for each in fabric.hosts if each.id not in reserved), "")
    if free:
        return free
    number = next(n for n in itertools.count(len(known)) if f"host-{n}" not in {*known, *reserved})
    fabric.hosts.append(HostState(f"host-{number}", f"00000000-0000-4000-8000-{number:012x}", _ATTACHMENTS))
    fabric.revision += 1
    return f"host-{number}"
