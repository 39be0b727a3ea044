"""Settings of the operator, and the fabric that the driver opens with them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.pools import factory
from dradriver_fabric_cxl.pools.settings import VARIABLE, read_settings
from tests.drivers.fabric_cxl.pool_claims import PoolsContext

MANAGER = "manager: {url: 'https://m', userFile: /u, passwordFile: /p}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sizes: [1.5Mi]", "1.5Mi"),
        ("sizes: [many]", "many"),
        ("attachSeconds: 600", "attachSeconds"),
        ("handedOutBy: both", "handedOutBy"),
        ("manager: {url: 'http://m', userFile: u, passwordFile: p}", "https://"),
        *(
            (
                f"manager: {{url: 'https://{url}', userFile: u, passwordFile: p}}",
                "manager.url: (must be|is invalid)",
            )
            for url in ("", "m/api", "m:0", "m:port", "m:99999", "user:word@m", "m?a=b", "m#a", "[m")
        ),
        ("manager: {url: 'https://m'}", "userFile"),
        ("size: [1Gi]", "size"),
        ("{", "YAML"),
    ],
)
def test_a_wrong_setting_is_named(text: str, problem: str) -> None:
    with pytest.raises(dra.UsageError, match=problem) as wrong:
        FabricPoolsDriver(text)
    assert str(wrong.value).startswith(f"${VARIABLE}: ")


@pytest.mark.parametrize("url", ["https://m", "https://m/", "https://m:8443", "https://[::1]:8443"])
def test_a_manager_has_a_host_and_a_port(url: str) -> None:
    manager = read_settings(f"manager: {{url: '{url}', userFile: u, passwordFile: p}}").manager
    assert manager is not None
    assert manager.url == url


def test_sizes_are_quantities_of_kubernetes() -> None:
    assert read_settings("sizes: [1Gi, 256Mi, '1073741824']").make_rules().sizes == (1024, 256, 1024)


def test_the_drivers_own_time_limit_comes_before_the_sdks() -> None:
    longest = read_settings("attachSeconds: 480").attach_seconds
    assert longest < FabricPoolsDriver.attach_timeout_seconds < 600


async def test_without_a_manager_nothing_is_published_unless_it_may_be_simulated(tmp_path: Path) -> None:
    driver = FabricPoolsDriver(f"simulator: {{folder: {tmp_path}}}")
    driver.set_context(PoolsContext({}))
    with pytest.raises(dra.UsageError, match="manager: is required"):
        await driver.discover()
    driver.simulate = "auto"
    assert [each.name for each in await driver.discover()] == ["simulated"]
    await driver.shutdown()


async def test_a_missing_extra_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(factory, "find_spec", lambda _: None)
    driver = FabricPoolsDriver(MANAGER)
    driver.set_context(PoolsContext({}))
    with pytest.raises(dra.DraError, match=r"pip install 'dradriver-fabric-cxl\[manager\]'"):
        await driver.discover()


def test_a_node_needs_no_module_of_the_extra() -> None:
    found = "[name for name in ('aiohttp', 'redfish') if name in sys.modules]"
    code = f"import sys; import dradriver_fabric_cxl; print({found})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
    assert ran.stdout == b"[]\n"
