"""Device metadata: the requests that get a file, and the CDI devices that mount it."""

from pathlib import Path

import msgspec
import pytest

from dradriver.driver import PreparedDevice
from dradriver.errors import DriverError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.claim import DeviceResult
from dradriver.node.files.metadata import build_metadata_files
from tests.unit.node.world import DRIVER, NODE, LampDriver, World, allocated, ref


def described(world: World) -> LampDriver:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(metadata={"color": "red", "watts": 7, "sockets": [1, 2]})
    return driver


async def test_a_request_is_mounted_once_for_any_number_of_devices(world: World) -> None:
    results = [DeviceResult(request="lamp", driver=DRIVER, pool=NODE, device=f"lamp-{n}") for n in range(2)]
    claim = allocated("claim", *results)
    async with world.running(driver=described(world)) as process:
        first, second = await process.prepare(claim)
    assert first.cdi_ids == (f"{DRIVER}/claim={claim.metadata.uid}_lamp",)
    assert second.cdi_ids == ()


async def test_the_mounted_file_has_all_devices_of_the_request(world: World) -> None:
    claim = allocated("claim", "lamp-0", pod_claim="my-lamp")
    async with world.running(driver=described(world)) as process:
        await process.prepare(claim)
    ((mount,),) = [device["containerEdits"]["mounts"] for device in world.spec(claim)["devices"]]
    assert mount["containerPath"] == (
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/my-lamp/request-0/"
        "lamp.example.com-metadata.json"
    )
    newest, _ = Path(mount["hostPath"]).read_text().splitlines()
    metadata = msgspec.json.decode(newest)
    assert metadata["metadata"]["uid"] == claim.metadata.uid
    assert metadata["requests"] == [
        {
            "name": "request-0",
            "devices": [
                {
                    "driver": DRIVER,
                    "pool": NODE,
                    "name": "lamp-0",
                    "attributes": {
                        "color": {"string": "red"},
                        "watts": {"int": 7},
                        "sockets": {"ints": [1, 2]},
                    },
                }
            ],
        }
    ]


async def test_nothing_is_written_for_devices_without_metadata(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        (row,) = await process.rows()
    assert build_metadata_files(DRIVER, row.record) == {}
    assert not (world.root / "metadata").exists()


async def test_unprepare_removes_the_files(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running(driver=described(world)) as process:
        await process.prepare(claim)
        assert list((world.root / "metadata").iterdir())
        await process.unprepare(ref(claim))
    assert not list((world.root / "metadata").iterdir())


async def test_lost_files_are_written_again_by_the_next_prepare(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running(driver=described(world)) as process:
        await process.prepare(claim)
        (path,) = (world.root / "metadata").glob("*/*")
        before = path.read_bytes()
        path.unlink()
        await process.prepare(claim)
        assert path.read_bytes() == before


async def test_invalid_metadata_is_an_error_of_the_driver(world: World) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(ContainerEdits(), metadata={"color": object()})  # type: ignore[dict-item]
    async with world.running(driver=driver) as process:
        with pytest.raises(DriverError, match=r"metadata\[.color.\]: .* is not an attribute"):
            await process.prepare(allocated("claim", "lamp-0"))
