"""Requests before the SDK has started a driver fail with a message that names the reason."""

import asyncio
from pathlib import Path

import pytest

from dradriver.driver import DeviceMetadata, DriverContext
from dradriver.errors import DriverError
from tests.unit.node.world import LampDriver


class Hasty(LampDriver):
    """Reads its node's name too early."""

    def __init__(self) -> None:
        super().__init__({})
        self.node = self.node_name


def test_a_request_in_the_constructor_is_an_error_with_its_location() -> None:
    with pytest.raises(
        DriverError, match=r"lamp\.example\.com: context is not set: the SDK sets it after __init__\(\)"
    ) as raised:
        Hasty()
    assert f"{Path(__file__).name}:" in str(raised.value)


@pytest.mark.parametrize("attribute", ["node_name", "data_dir", "context"])
def test_the_node_is_unknown_before_the_start(attribute: str) -> None:
    with pytest.raises(DriverError, match="context is not set"):
        getattr(LampDriver({}), attribute)


async def test_config_maps_and_metadata_need_a_running_driver() -> None:
    driver = LampDriver({})
    with pytest.raises(DriverError, match="context is not set"):
        await driver.read_config_map("default", "settings")
    with pytest.raises(DriverError, match="context is not set"):
        await driver.update_metadata("uid", {("pool", "lamp-0"): DeviceMetadata()})


def test_a_driver_without_the_sdk_gets_its_node_from_a_plain_context(tmp_path: Path) -> None:
    driver = LampDriver({})
    driver.rediscover()
    driver.set_context(DriverContext("node-7", tmp_path))
    assert (driver.node_name, driver.data_dir) == ("node-7", tmp_path)
    driver.rediscover()
    driver.restart("the SDK does not run")
    with pytest.raises(DriverError, match="default/settings cannot be read: the driver does not run"):
        asyncio.run(driver.read_config_map("default", "settings"))
