"""Chooses the hardware that the driver works with: that of the node, or a simulated one."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dradriver_fabric_cxl.accelerator import Accelerators
from dradriver_fabric_cxl.accelerator.sysfs import SysfsAccelerators
from dradriver_fabric_cxl.memory import Memory
from dradriver_fabric_cxl.node.settings import CxlNodeSettings

__all__ = ["NodeHardware", "choose_hardware"]

_log: Final = logging.getLogger(__name__)

_LOCK_FILE: Final = "regions.lock"
"""File that two processes of a rolling update lock while one of them makes a region."""


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """The hardware of one node.

    Attributes:
        memory: its CXL memory.
        accelerators: its accelerators.
        system: UUID of the computer in lower case; "" if it cannot be read.
        boot: ID of the current boot.
    """

    memory: Memory
    accelerators: Accelerators
    system: str
    boot: str


def choose_hardware(
    settings: CxlNodeSettings, simulate: Literal["never", "auto", "always"], node: str, data_dir: Path
) -> NodeHardware:
    """Return the hardware. Blocking.

    Args:
        settings: the operator's settings.
        simulate: mode of the SDK; with `auto`, hardware is simulated if the node can use no CXL memory.
        node: name of the node.
        data_dir: folder that only the processes of this driver use.

    Raises:
        DraError: the simulated host of the node cannot be found, or the kernel cannot be read.
    """
    sysfs, dev, proc = (Path(each) for each in (settings.host.sysfs, settings.host.dev, settings.host.proc))
    boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    if simulate != "always":
        # Imported here because a simulated node needs no access to the kernel.
        from dradriver_fabric_cxl.memory.sysfs import MemoryPaths, SysfsMemory  # noqa: PLC0415

        memory = SysfsMemory(MemoryPaths(sysfs, dev, proc), lock_file=data_dir / _LOCK_FILE)
        if simulate == "never" or not memory.find_problem():
            return NodeHardware(memory, SysfsAccelerators(sysfs), _read_system(sysfs), boot)
    return _simulate(settings, node, boot, data_dir)


def _simulate(settings: CxlNodeSettings, node: str, boot: str, data_dir: Path) -> NodeHardware:
    # Imported here because a real node needs neither the simulators nor the simulated fabric.
    from dradriver_fabric_cxl.accelerator.simulator import (  # noqa: PLC0415
        AcceleratorFileStore,
        SimulatedAccelerators,
    )
    from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory  # noqa: PLC0415
    from dradriver_fabric_cxl.simulation import (  # noqa: PLC0415
        accelerator_file,
        claim_simulated_host,
        default_folder,
        memory_file,
    )

    folder = Path(settings.simulator.folder) if settings.simulator.folder else default_folder()
    host = claim_simulated_host(folder, node)
    _log.warning("node %s simulates the CXL memory of %s in %s", node, host.id, folder)
    return NodeHardware(
        SimulatedMemory(MemoryFileStore(memory_file(folder, host.id)), lock_file=data_dir / _LOCK_FILE),
        SimulatedAccelerators(AcceleratorFileStore(accelerator_file(folder, host.id))),
        host.system.lower(),
        boot,
    )


def _read_system(sysfs: Path) -> str:
    path = sysfs / "class/dmi/id/product_uuid"
    try:
        return path.read_text().strip().lower()
    except OSError as error:
        _log.warning(
            "%s cannot be read: %s. The pool driver finds this node's host only if its settings name the node",
            path,
            error.strerror,
        )
        return ""
