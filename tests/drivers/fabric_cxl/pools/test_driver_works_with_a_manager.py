"""The driver of the pools with its settings, and an emulated manager over HTTPS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.fabric import FabricPace
from dradriver_fabric_cxl.fabric.redfish import open_redfish
from tests.drivers.fabric_cxl.controller.controlled_claims import (
    accelerator,
    attached,
    memory,
    pending,
    recorded,
)
from tests.drivers.fabric_cxl.controller.controlled_claims import allocate as allocate_claims
from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess, ManagerFiles
from tests.drivers.fabric_cxl.pool_claims import PoolsContext, allocate, attach, report_all


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    emulator = EmulatorProcess(ManagerFiles(tmp_path))
    emulator.start()
    yield emulator
    emulator.kill()


def open_driver(emulator: EmulatorProcess, handed_out_by: str = "slices") -> FabricPoolsDriver:
    files = emulator.files
    manager = {
        "url": emulator.url,
        "caFile": str(files.certificate),
        "userFile": str(files.user),
        "passwordFile": str(files.password),
    }
    return FabricPoolsDriver(f"{{handedOutBy: {handed_out_by}, manager: {manager}}}")


async def test_claims_get_devices_of_the_manager_and_a_restarted_driver_gives_them_back(
    emulator: EmulatorProcess,
) -> None:
    async with open_redfish(emulator.files.settings(emulator.url, FabricPace())) as fabric:
        inventory = await fabric.inventory()
        context = PoolsContext(report_all(inventory))
        driver = open_driver(emulator)
        driver.set_context(context)
        (pool,) = await driver.discover()
        chosen = next(each for each in pool.devices if each.consumes_counters)
        allocation = await allocate(driver, chosen.name)
        await attach(driver, allocation)
        accelerator = await allocate(driver, gpu_of(pool), node=chosen.node_name or "", uid="uid-2")
        await attach(driver, accelerator)
        serials = {each.serial for each in await fabric.attachments()}
        assert serials == {allocation.serial, accelerator.serial}
        await driver.detach(accelerator.record)
        await driver.shutdown()

        (attached,) = await fabric.attachments()
        assert attached.connected
        assert attached.serial == allocation.serial
        assert dra.Quantity(f"{attached.mebibytes}Mi") == chosen.capacity["memory"].value

        restarted = open_driver(emulator)
        restarted.set_context(context)
        assert await restarted.attachments() == [allocation.record]
        assert (await restarted.discover())[0].devices == pool.devices
        await restarted.detach(allocation.record)
        await restarted.shutdown()
        assert await fabric.attachments() == ()
        assert all(not domain.chunks for domain in (await fabric.inventory()).domains)


async def test_the_controller_attaches_over_the_manager_and_a_restarted_one_gives_everything_back(
    emulator: EmulatorProcess,
) -> None:
    wanted = pending("uid-1", memory("1Gi", count=2), accelerator())
    async with open_redfish(emulator.files.settings(emulator.url, FabricPace())) as fabric:
        context = PoolsContext(report_all(await fabric.inventory()))
        node = min(context.reports)
        driver = open_driver(emulator, "controller")
        driver.set_context(context)
        assert await driver.discover() == []
        (result,) = await allocate_claims(driver, wanted, node=node)
        await driver.shutdown()
        found = await fabric.attachments()
        assert {each.serial for each in found} == {each.serial_number for each in attached(result)}
        assert all(each.connected for each in found)

        restarted = open_driver(emulator, "controller")
        restarted.set_context(context)
        assert await allocate_claims(restarted, wanted, node=node) == [result]
        assert await restarted.allocations() == {"uid-1"}
        await restarted.deallocate(recorded("uid-1"))
        await restarted.shutdown()
        assert await fabric.attachments() == ()


def gpu_of(pool: dra.Pool) -> str:
    return next(each.name for each in pool.devices if each.attribute("type") == "accelerator")
