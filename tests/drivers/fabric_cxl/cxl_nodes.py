"""A node with simulated memory and accelerators, which outlive the driver's process, and claims on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver.testing import StateInMemory
from dradriver_fabric_cxl import FabricCxlDriver, MemoryConfig
from dradriver_fabric_cxl.accelerator.simulator import SimulatedAccelerators
from dradriver_fabric_cxl.attached import AttachedDevice, encode_handle
from dradriver_fabric_cxl.memory import MemoryDevice, MemoryMode
from dradriver_fabric_cxl.memory.simulator import (
    MemoryHook,
    MemoryStore,
    SimulatedMemory,
)
from dradriver_fabric_cxl.memory.simulator.state import MemoryNodeState
from dradriver_fabric_cxl.node.factory import NodeHardware

POOL: Final = "fabric-1"
GIB: Final = 1 << 30
MEMORY, OTHER, ACCELERATOR = 0x1234, 0xFFFF_FFFF_0000_0001, 0xACC
"""Serial numbers."""
UUID: Final = "00000000-0000-4000-8000-00000000000a"


class QuickMemory(SimulatedMemory):
    """Ends a wait soon, so that a test can end.

    Attributes:
        looks: how often the devices were read.
    """

    looks = 0

    def devices(self) -> tuple[MemoryDevice, ...]:
        self.looks += 1
        return super().devices()

    def wait_change(self, timeout: float) -> bool:
        return super().wait_change(min(timeout, 0.02))


def memory(
    name: str = "pool-a-1", serial: int = MEMORY, mode: str = "", share: str = ""
) -> dra.AllocatedDevice:
    """Memory of a claim, as the fabric has attached it."""
    configs = (MemoryConfig(mode=mode),) if mode else ()
    data = AttachedDevice.of(serial, GIB).to_data()
    return dra.AllocatedDevice("memory", POOL, name, share_id=share, configs=configs, data=data)


def accelerator(name: str = "gpu-1", serial: int = ACCELERATOR) -> dra.AllocatedDevice:
    """An accelerator of a claim, as the fabric has attached it."""
    return dra.AllocatedDevice("gpu", POOL, name, data=AttachedDevice.of(serial).to_data())


def by_controller(*devices: dra.AllocatedDevice) -> tuple[dra.AllocatedDevice, ...]:
    """The same devices, handed out by the controller: their data is in a handle, not in the status."""
    handle = encode_handle({each.name: AttachedDevice.parse(each.data or {}) for each in devices})
    return tuple(replace(each, data=None, handle=handle) for each in devices)


def claim(*devices: dra.AllocatedDevice, uid: str = "uid-1") -> dra.Claim:
    return dra.Claim(uid, "default", f"claim-{uid}", devices)


class NoConditions:
    """Conditions of a claim that nobody looks at."""

    async def set(self, *_: object) -> None: ...

    async def set_data(self, *_: object) -> None: ...


def binding_claim(of: dra.Claim) -> dra.BindingClaim:
    """The claim while its pod waits."""
    return dra.BindingClaim(of.uid, of.namespace, of.name, "node-1", None, of.devices, NoConditions())


@dataclass
class CxlNode:
    """A node.

    Attributes:
        folder: of the driver and of the hardware.
        settings: the operator's, YAML.
        boot: ID of the boot.
        hook: called around each change of the kernel by the driver.
        store: state of the memory, which all processes share.
        used: the memory of the last process.
    """

    folder: Path
    settings: str = "waitSeconds: 300"
    boot: str = "boot-1"
    hook: MemoryHook = lambda _call, _moment: None
    store: MemoryStore = field(default_factory=lambda: StateInMemory(MemoryNodeState))
    accelerators: SimulatedAccelerators = field(default_factory=SimulatedAccelerators)
    memory: QuickMemory = field(init=False)
    used: QuickMemory = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.memory = QuickMemory(self.store)

    def driver(self) -> FabricCxlDriver:
        """A process of the driver, without its context."""
        self.used = QuickMemory(self.store, hook=self.hook)
        return FabricCxlDriver(self.settings, NodeHardware(self.used, self.accelerators, UUID, self.boot))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FabricCxlDriver]:
        """A process of the driver."""
        driver = self.driver()
        driver.set_context(dra.DriverContext("node-1", self.folder))
        await driver.discover()
        try:
            yield driver
        finally:
            await driver.shutdown()

    def plug_all(self) -> None:
        """The fabric connects everything."""
        self.memory.plug(MEMORY, GIB)
        self.memory.plug(OTHER, GIB)
        self.accelerators.plug(ACCELERATOR)

    def reboot(self) -> None:
        self.memory.reboot()
        self.boot += "+"

    def mode(self, serial: int = MEMORY) -> MemoryMode | None:
        """How the memory is used; None: it is not."""
        (found,) = (each for each in self.memory.devices() if each.serial == serial)
        return found.usable.mode if found.usable else None

    @property
    def records(self) -> list[str]:
        """The names of all files that may be records."""
        return sorted(path.name for path in (self.folder / "devices").glob("*.json*"))
