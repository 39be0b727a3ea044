"""Settings of a node, parameters of claims, and the hardware that they choose."""

from pathlib import Path

import pytest

import dradriver as dra
from dradriver.testing import list_config_errors
from dradriver_fabric_cxl import FabricCxlDriver, MemoryConfig
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.names import SYSTEM_UUID
from dradriver_fabric_cxl.node.settings import read_settings
from dradriver_fabric_cxl.simulation import claim_simulated_host, memory_file
from tests.drivers.fabric_cxl.cxl_nodes import GIB, MEMORY, claim, memory

CONFIG = {"apiVersion": "cxl.example.com/v1", "kind": "MemoryConfig"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clear: maybe", "clear"),
        ("system_ram: true", "system_ram"),
        ("waitSeconds: 0", "waitSeconds"),
        ("waitSeconds: 481", "waitSeconds"),
        ("host: {root: /}", "root"),
        ("{", "YAML"),
    ],
)
def test_invalid_settings_are_reported_before_anything_starts(text: str, words: str) -> None:
    with pytest.raises(dra.UsageError) as refused:
        FabricCxlDriver(text)
    assert words in str(refused.value)
    assert "FABRIC_CXL_SETTINGS" in str(refused.value)


def test_the_drivers_own_time_limit_comes_before_the_sdks() -> None:
    longest = read_settings("waitSeconds: 480").wait_seconds
    assert longest < FabricCxlDriver.attach_timeout_seconds < 600


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRIC_CXL_SETTINGS", "clear: 7")
    with pytest.raises(dra.UsageError):
        FabricCxlDriver()


def test_memory_is_a_character_device_unless_the_claim_asks_for_system_ram() -> None:
    assert MemoryConfig().memory_mode is MemoryMode.DEVDAX
    assert MemoryConfig(mode="system-ram").memory_mode is MemoryMode.SYSTEM_RAM


@pytest.mark.parametrize(
    ("parameters", "errors"),
    [
        ({"mode": "devdax"}, []),
        ({"mode": "ram"}, ["mode must be devdax or system-ram, not 'ram'"]),
        ({"mode": "devdax", "clear": False}, ["clear: MemoryConfig has no such field"]),
    ],
)
def test_errors_in_parameters_name_the_field(parameters: dict[str, object], errors: list[str]) -> None:
    assert list_config_errors(FabricCxlDriver, CONFIG | parameters) == errors


async def test_simulated_nodes_have_hosts_of_the_simulated_fabric(tmp_path: Path) -> None:
    for name in ("node-1", "node-2"):
        driver = FabricCxlDriver(f"simulator: {{folder: {tmp_path}}}")
        driver.simulate = "always"
        driver.set_context(dra.DriverContext(name, tmp_path / name))
        await driver.discover()
        try:
            host = claim_simulated_host(tmp_path, name)
            assert (await driver.report()).values == {SYSTEM_UUID: host.system}
            simulated = SimulatedMemory(MemoryFileStore(memory_file(tmp_path, host.id)))
            simulated.plug(MEMORY, GIB)
            await driver.prepare(claim(memory()))
            assert simulated.is_clear(MEMORY)
        finally:
            await driver.shutdown()


async def test_a_node_without_cxl_is_simulated_only_on_request(tmp_path: Path) -> None:
    host = "{" + ", ".join(f"{name}: {tmp_path / name}" for name in ("sysfs", "dev", "proc")) + "}"
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("boot\n")
    identity = tmp_path / "sysfs/class/dmi/id/product_uuid"
    identity.parent.mkdir(parents=True)
    identity.write_text("ABCD-12\n")
    driver = FabricCxlDriver(f"host: {host}")
    driver.set_context(dra.DriverContext("node-1", tmp_path))
    report = await driver.report()
    await driver.shutdown()
    assert report.problem
    assert report.values == {SYSTEM_UUID: "abcd-12"}
