"""Run in a guest: the fabric attaches memory for claims, and the node's driver gives it to containers and back.

The fabric's manager is outside of the guest. Each connection plugs memory into the guest.
"""

import asyncio
import mmap
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import dradriver as dra
from dradriver.node.files.cdi import CdiDirectory, CdiNames, build_spec, encode_spec
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice
from dradriver_fabric_cxl import FabricCxlDriver, MemoryConfig
from dradriver_fabric_cxl.attached import AttachedDevice
from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, Fabric, FabricPace, MemoryRequest
from dradriver_fabric_cxl.fabric.redfish import CredentialFiles, RedfishSettings, open_redfish
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.sysfs import SysfsMemory
from dradriver_fabric_cxl.names import DRIVER, SYSTEM_UUID
from tests.drivers.fabric_cxl.cxl_nodes import binding_claim
from tests.drivers.fabric_cxl.guest.controls import CXL, count_memory, find_memdev
from tests.drivers.fabric_cxl.guest.machine import HOST, OUT

POOL, DEVICE = "fabric-1", "domain-1-host-1-256-0"
MEBIBYTES: Final = 256
TENANT: Final = b"the last tenant's bytes"
PACE: Final = FabricPace(poll=0.2)


@pytest.fixture
async def fabric() -> AsyncIterator[Fabric]:
    files = Path(os.environ["MANAGER_FILES"])
    credentials = CredentialFiles(files / "user", files / "password")
    settings = RedfishSettings(os.environ["MANAGER"], credentials, files / "tls.crt", pace=PACE)
    async with open_redfish(settings) as fabric:
        yield fabric


@asynccontextmanager
async def running_driver(folder: Path, settings: str = "") -> AsyncIterator[FabricCxlDriver]:
    driver = FabricCxlDriver(settings)
    driver.simulate = "never"
    driver.set_context(dra.DriverContext("node-1", folder))
    try:
        assert await driver.discover() == []
        assert (await driver.report()).problem == ""
        yield driver
    finally:
        await driver.shutdown()


async def attach(fabric: Fabric, uid: str, *configs: MemoryConfig) -> dra.Claim:
    """Attach memory as the driver of the pool does, and return the claim as the node's driver gets it."""
    domain = (await fabric.inventory()).domains[0].id
    request = AttachRequest(identity(uid), HOST, MemoryRequest(domain, MEBIBYTES))
    attached = await fabric.attach(request)
    assert attached.serial is not None
    data = AttachedDevice.of(attached.serial, MEBIBYTES << 20).to_data()
    device = dra.AllocatedDevice("memory", POOL, DEVICE, configs=configs, data=data)
    return dra.Claim(uid, "default", f"claim-{uid}", (device,))


def identity(uid: str) -> AttachmentIdentity:
    return AttachmentIdentity(uid, POOL, DEVICE, "2026-11-22T21:00:00Z")


def find_port(claim: dra.Claim) -> str:
    """The PCI address of the claim's memory."""
    data = claim.devices[0].data
    assert data is not None
    return (CXL / find_memdev(AttachedDevice.parse(data).serial_number)).resolve().parent.name


def write_cdi(claim: dra.Claim, prepared: dra.PreparedDevice) -> None:
    """Write the CDI spec as the node's plugin does, where it stays."""
    record = ClaimRecord(
        uid=claim.uid,
        namespace=claim.namespace,
        name=claim.name,
        devices=[RecordedDevice(request="memory", pool=POOL, device=DEVICE)],
        answers=[RecordedAnswer(edits=prepared.edits)],
    )
    names = CdiNames(DRIVER)
    spec = build_spec(names, record, {})
    assert spec is not None
    CdiDirectory(OUT / "cdi", names).write(claim.uid, encode_spec(spec))


def leave_data(claim: dra.Claim) -> None:
    """Write what the last tenant left: QEMU plugs in new memory each time, and this memory is zero."""
    data = claim.devices[0].data
    assert data is not None
    serial = AttachedDevice.parse(data).serial_number
    memory = SysfsMemory()
    memory.open()
    try:
        while serial not in {each.serial for each in memory.devices()}:
            memory.wait_change(0.1)
        usable = memory.make(serial, MemoryMode.DEVDAX)
        with usable.path.open("r+b") as file, mmap.mmap(file.fileno(), usable.align) as mapped:
            mapped[: len(TENANT)] = TENANT
        memory.take_back(serial)
    finally:
        memory.close()


def use(node: dra.DeviceNode, folder: Path) -> bytes:
    """Read the memory through its device node, as a container has it, and leave bytes in it."""
    assert node.major is not None
    assert node.minor is not None
    path = folder / "memory"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(node.major, node.minor))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), MEBIBYTES << 20) as memory:
        found = memory[: len(TENANT)]
        memory[: len(TENANT)] = TENANT
    path.unlink()
    return found


async def test_memory_goes_through_two_claims_on_one_port(fabric: Fabric, tmp_path: Path) -> None:
    own, ports = count_memory(), []
    async with running_driver(tmp_path) as driver:
        for uid in ("a1b2c3d4-0000-4000-8000-000000000001", "a1b2c3d4-0000-4000-8000-000000000002"):
            claim = await attach(fabric, uid)
            await asyncio.to_thread(leave_data, claim)
            await driver.attach(binding_claim(claim), claim.devices[0])
            [prepared] = (await driver.prepare(claim)).values()
            write_cdi(claim, prepared)
            [node] = prepared.edits.device_nodes
            assert use(node, tmp_path) == bytes(len(TENANT))
            ports.append(find_port(claim))
            await driver.unprepare(claim)
            assert await driver.prepared_claims() == set()
            await fabric.detach(identity(uid).tag)
            assert not list(CXL.glob("mem*"))
            assert not list(CXL.glob("region*"))
    assert ports[0] == ports[1]
    assert count_memory() == own


async def test_the_node_reports_the_host_of_the_fabric_that_it_is(fabric: Fabric, tmp_path: Path) -> None:
    [host] = (await fabric.inventory()).hosts
    async with running_driver(tmp_path) as driver:
        report = await driver.report()
    assert (host.id, report.values) == (HOST, {SYSTEM_UUID: host.system.lower()})


async def test_memory_becomes_system_ram_and_leaves_again(fabric: Fabric, tmp_path: Path) -> None:
    own = count_memory()
    async with running_driver(tmp_path, "systemRam: true") as driver:
        claim = await attach(fabric, "a1b2c3d4-0000-4000-8000-000000000003", MemoryConfig(mode="system-ram"))
        await driver.attach(binding_claim(claim), claim.devices[0])
        await driver.prepare(claim)
        assert count_memory() == own + (MEBIBYTES << 20)
        await driver.unprepare(claim)
        assert count_memory() == own
        await fabric.detach(identity(claim.uid).tag)
    assert not list(CXL.glob("mem*"))
