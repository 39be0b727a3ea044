"""A foreign file at one of our names: nothing outside is written or read, and no thread waits for it."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dradriver.driver import PreparedDevice
from dradriver.errors import UsageError
from dradriver.model.cdi import ContainerEdits
from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.node.files.cdi import CdiNames
from dradriver.node.reporting.instance_file import remove_stale_instances
from dradriver.node.reporting.pool_file import read_pools, write_pools
from dradriver.node.reporting.status import node_status
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRecord
from dradriver.node.state.store import StateStore
from tests.unit.node.plugin_world import Node
from tests.unit.node.world import DRIVER, LampDriver, World, allocated, ref

SECRET = b"of somebody else"

Plant = Callable[[Path, Path], None]


def a_socket(path: Path, victim: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


PLANTS: dict[str, Plant] = {
    "symlink": lambda path, victim: path.symlink_to(victim),
    "symlink to a folder": lambda path, victim: path.symlink_to(victim.parent),
    "dangling symlink": lambda path, victim: path.symlink_to(victim.with_name("absent")),
    "FIFO": lambda path, victim: os.mkfifo(path),
    "hard link": lambda path, victim: path.hardlink_to(victim),
    "socket": a_socket,
    "empty directory": lambda path, victim: path.mkdir(),
}

CLAIM = allocated("claim", "lamp-0", uid="uid-1")
SPEC = f"cdi/{CdiNames(DRIVER).file('uid-1')}"
METADATA = "metadata/uid-1/request-0.json"


def draft(name: str) -> str:
    return str(atomic.temporary_path(Path(name)))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    victim = folder / "file"
    victim.write_bytes(SECRET)
    victim.chmod(0o600)
    return victim


def assert_untouched(victim: Path) -> None:
    assert victim.read_bytes() == SECRET
    assert victim.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in victim.parent.iterdir()) == ["file"]


def driver_of(world: World) -> LampDriver:
    driver = LampDriver(world.hardware)
    edits = ContainerEdits(env={"LAMP": "on"})
    driver.answer = lambda device: PreparedDevice(edits=edits, metadata={"color": "red"})
    return driver


async def within_seconds(work: asyncio.Task[object]) -> None:
    """Fails instead of waiting for a thread that will never come back."""
    done, _ = await asyncio.wait({work}, timeout=20)
    assert done, "a thread is blocked"
    work.result()


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", [SPEC, draft(SPEC), METADATA, draft(METADATA), "metadata/uid-1", "metadata"])
async def test_the_files_of_a_claim_replace_foreign_files(
    world: World, victim: Path, name: str, plant: str
) -> None:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    PLANTS[plant](path, victim)
    async with world.running(driver=driver_of(world)) as process:
        await within_seconds(asyncio.create_task(process.prepare(CLAIM)))
        expected = {"lamp.example.com-claim_uid-1.json"}
        assert {each.name for each in world.cdi_dir.iterdir()} == expected
        assert world.spec(CLAIM)["kind"] == "lamp.example.com/claim"
        assert b'"red"' in (world.root / METADATA).read_bytes()
        for written in (world.root / SPEC, world.root / METADATA):
            assert written.lstat().st_mode & 0o777777 == 0o100644
        assert_untouched(victim)
        await within_seconds(asyncio.create_task(process.unprepare(ref(CLAIM))))
        assert not list(world.cdi_dir.iterdir())
        assert not (world.root / "metadata/uid-1").exists()
    assert_untouched(victim)


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", [SPEC, draft(SPEC), "metadata/uid-1"])
async def test_a_sweep_removes_a_foreign_file_with_the_name_of_an_orphan(
    world: World, victim: Path, name: str, plant: str
) -> None:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    PLANTS[plant](path, victim)
    async with world.running() as process:
        await within_seconds(asyncio.create_task(process.reconciler.sweep()))
    assert not os.path.lexists(path)
    assert_untouched(victim)


async def test_the_target_of_a_foreign_symlink_is_not_removed(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "uid-1").mkdir(parents=True)
    (world.root / "metadata").symlink_to(elsewhere)
    async with world.running() as process:
        await process.reconciler.sweep()
        await process.unprepare(ref(CLAIM))
    assert (elsewhere / "uid-1").is_dir()


@pytest.mark.parametrize("name", [SPEC, draft(SPEC)])
async def test_a_directory_that_is_not_empty_is_an_error_that_names_it(world: World, name: str) -> None:
    kept = world.root / name / "kept"
    kept.mkdir(parents=True)
    async with world.running(driver=driver_of(world)) as process:
        with pytest.raises(StateError, match=r"uid-1.* cannot be written: .*not empty: .*json"):
            await process.prepare(CLAIM)
    assert kept.exists()


async def test_a_file_that_claims_to_be_a_spec_is_not_read_beyond_its_length(world: World) -> None:
    world.cdi_dir.mkdir()
    with (world.root / SPEC).open("wb") as file:
        file.truncate(2**40)
    async with world.running() as process:
        await process.prepare(CLAIM)
    assert world.spec(CLAIM)


STATE_FILES = ["state.db", "state.db-wal", "state.db-shm", "state.db-journal", "state.db.lock"]
DATA_FILES = ["claims.lock", "publisher.lock", "pools.json", ".pools.json.tmp", "x.instance.json"]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", STATE_FILES)
async def test_the_prepared_state_opens_with_foreign_files_at_its_names(
    tmp_path: Path, victim: Path, name: str, plant: str
) -> None:
    PLANTS[plant](tmp_path / name, victim)
    state = StateStore(tmp_path / "state.db", "boot-1")
    await within_seconds(asyncio.create_task(state.open()))
    await state.write(lambda rows: rows.move(ClaimRecord(uid="uid-1"), ClaimEvent.BEGIN_PREPARE))
    assert [row.uid for row in node_status(tmp_path).claims] == ["uid-1"]
    await state.close()
    assert_untouched(victim)


@pytest.mark.parametrize("plant", PLANTS)
async def test_a_plugin_starts_with_foreign_files_in_its_folder(
    tmp_path: Path, victim: Path, plant: str
) -> None:
    node = Node(tmp_path)
    folder = tmp_path / "plugins" / DRIVER
    folder.mkdir(parents=True)
    for name in DATA_FILES:
        PLANTS[plant](folder / name, victim)
    plugin = node.plugin()
    await within_seconds(asyncio.create_task(plugin.start()))
    write_pools(folder, [])
    assert read_pools(folder) == []
    await plugin.stop(5)
    assert_untouched(victim)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant != "hard link"])
async def test_a_report_does_not_wait_for_a_foreign_file(tmp_path: Path, victim: Path, plant: str) -> None:
    for name in ("state.db", "pools.json", "x.instance.json"):
        PLANTS[plant](tmp_path / name, victim)
    reports: list[Callable[[Path], object]] = [node_status, read_pools]
    for report in reports:
        with pytest.raises(StateError, match=r"state\.db|pools\.json"):
            report(tmp_path)
    remove_stale_instances(tmp_path)
    assert not os.path.lexists(tmp_path / "x.instance.json")
    assert_untouched(victim)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant != "socket"])
@pytest.mark.parametrize("name", [f"plugins/{DRIVER}/dra.sock", f"plugins_registry/{DRIVER}-reg.sock"])
async def test_a_socket_replaces_only_a_socket(tmp_path: Path, victim: Path, name: str, plant: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    PLANTS[plant](path, victim)
    plugin = Node(tmp_path).plugin()
    with pytest.raises(UsageError, match=rf"{path} exists and is not a socket"):
        await plugin.start()
    assert_untouched(victim)
