"""Sessions of a manager, and the secrets that they need."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dradriver_fabric_cxl.fabric import AuthenticationError, FabricError, FabricPace, ManagerUnreachableError
from dradriver_fabric_cxl.fabric.redfish import RedfishFabric, open_redfish
from tests.drivers.fabric_cxl.emulator_process import (
    PASSWORD,
    USER,
    EmulatorProcess,
    ManagerFiles,
    write_certificate,
)
from tests.drivers.fabric_cxl.fabric.redfish.tiny_manager import TOKEN, V1, TinyManager, answer
from tests.drivers.fabric_cxl.fabric_suite import PACE, request_memory

SESSIONS = f"{V1}/SessionService/Sessions"


class Clock:
    """Time that only moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def pace(self) -> FabricPace:
        return FabricPace(sleep=self.sleep, clock=lambda: self.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def fabric(manager: TinyManager, clock: Clock) -> AsyncIterator[RedfishFabric]:
    async with open_redfish(manager.files.settings(manager.url, clock.pace())) as fabric:
        yield fabric


async def test_one_session_serves_all_requests(manager: TinyManager, fabric: RedfishFabric) -> None:
    await fabric.inventory()
    await fabric.inventory()
    assert manager.logins == [{"UserName": USER, "Password": PASSWORD}]


async def test_the_session_is_ended(manager: TinyManager) -> None:
    async with open_redfish(manager.files.settings(manager.url, PACE)) as fabric:
        await fabric.inventory()
    assert manager.count("DELETE", f"{SESSIONS}/1") == 1


async def test_nothing_is_sent_before_the_first_call(manager: TinyManager) -> None:
    async with open_redfish(manager.files.settings(manager.url, PACE)):
        pass
    assert manager.requests == []


async def test_a_session_that_ended_is_renewed(own_emulator: EmulatorProcess) -> None:
    async with open_redfish(own_emulator.files.settings(own_emulator.url, PACE)) as fabric:
        request = await request_memory(fabric)
        await own_emulator.control("DELETE", "sessions")
        assert (await fabric.attach(request)).connected
        await own_emulator.control("DELETE", "sessions")
        await fabric.detach(request.identity.tag)


async def test_a_post_that_was_not_accepted_is_sent_in_a_new_session(
    manager: TinyManager, fabric: RedfishFabric
) -> None:
    """401 means that the manager did not execute it."""
    request = await request_memory(fabric)
    manager.answers["POST", f"{V1}/Chunks"] += [answer(401), answer(507)]
    with pytest.raises(FabricError, match="507"):
        await fabric.attach(request)
    assert len(manager.logins) == 2


@pytest.mark.parametrize("name", ["user", "password"])
async def test_files_that_change_are_read_again(
    manager: TinyManager, fabric: RedfishFabric, files: ManagerFiles, name: str
) -> None:
    await fabric.inventory()
    (files.folder / name).write_text("another\n")
    await fabric.inventory()
    expected = {"UserName": USER, "Password": PASSWORD} | {
        {"user": "UserName", "password": "Password"}[name]: "another"
    }
    assert manager.logins[1:] == [expected]
    assert manager.count("DELETE", f"{SESSIONS}/1") == 1


async def test_a_wrong_password_is_not_tried_every_second(
    manager: TinyManager, fabric: RedfishFabric, files: ManagerFiles, clock: Clock
) -> None:
    manager.answers["POST", SESSIONS] += [answer(401), answer(401)]
    for _ in range(5):
        with pytest.raises(AuthenticationError, match=f"rejected user {USER}"):
            await fabric.inventory()
    assert manager.count("POST", SESSIONS) == 1
    clock.now += 30
    with pytest.raises(AuthenticationError):
        await fabric.inventory()
    assert manager.count("POST", SESSIONS) == 2
    files.password.write_text("a new one")
    assert (await fabric.inventory()).hosts


async def test_a_missing_file_is_named(fabric: RedfishFabric, files: ManagerFiles) -> None:
    files.password.unlink()
    with pytest.raises(AuthenticationError, match=f"{files.password}: cannot be read: No such file"):
        await fabric.inventory()


async def test_no_secret_is_in_errors_and_logs(
    manager: TinyManager, fabric: RedfishFabric, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    request = await request_memory(fabric)
    echo = {"error": {"message": f"token {TOKEN} and password {PASSWORD} are not enough"}}
    manager.answers["POST", f"{V1}/Chunks"].append(answer(403, echo))
    with pytest.raises(FabricError, match=r"token \*\*\* and password \*\*\* are not enough") as refused:
        await fabric.attach(request)
    manager.answers["GET", f"{V1}/Chunks"].append(answer(401))
    manager.answers["POST", SESSIONS].append(answer(400, echo))
    with pytest.raises(FabricError) as rejected:
        await fabric.inventory()
    assert PASSWORD not in caplog.text + repr(refused.value) + repr(rejected.value)
    assert TOKEN not in caplog.text + repr(refused.value)


@pytest.mark.parametrize("status", [200, 403, 429, 500])
async def test_no_secret_is_in_errors_of_tasks(
    manager: TinyManager, fabric: RedfishFabric, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """The monitor repeats the secrets in its error, or the task in its messages."""
    caplog.set_level(logging.DEBUG)
    request = await request_memory(fabric)
    text = f"token {TOKEN} and password {PASSWORD} are not enough"
    task = {"TaskState": "Exception", "Messages": [{"Message": text}]}
    echo = task if status == 200 else {"error": {"message": text}}
    monitor = f"{V1}/Tasks/9"
    manager.answers["POST", f"{V1}/Chunks"] += [answer(202, Location=monitor)] * 2
    manager.answers["GET", monitor] += [answer(status, echo)] * 1000
    with pytest.raises(FabricError, match=r"token \*\*\* and password \*\*\* are not enough") as failed:
        await fabric.attach(request)
    assert not {each for each in (PASSWORD, TOKEN) if each in caplog.text + repr(failed.value)}


async def test_a_manager_with_another_certificate_is_not_trusted(manager: TinyManager, tmp_path: Path) -> None:
    write_certificate(tmp_path / "other.crt", tmp_path / "other.key")
    settings = replace(manager.files.settings(manager.url, PACE), ca=tmp_path / "other.crt")
    async with open_redfish(settings) as fabric:
        with pytest.raises(ManagerUnreachableError, match="certificate"):
            await fabric.inventory()
    assert manager.requests == []


async def test_a_password_is_never_sent_without_tls(files: ManagerFiles) -> None:
    with pytest.raises(FabricError, match="must begin with https"):
        async with open_redfish(files.settings("http://127.0.0.1:1", PACE)):
            pass


async def test_a_ca_file_that_cannot_be_read_is_named(files: ManagerFiles, tmp_path: Path) -> None:
    for ca in (tmp_path / "none", files.password):
        settings = replace(files.settings("https://127.0.0.1:1", PACE), ca=ca)
        with pytest.raises(FabricError, match=f"{ca}: the CA file cannot be read"):
            async with open_redfish(settings):
                pass


async def test_a_manager_that_is_away_is_unreachable(files: ManagerFiles) -> None:
    async with open_redfish(files.settings("https://127.0.0.1:1", PACE)) as fabric:
        with pytest.raises(ManagerUnreachableError, match=r"127\.0\.0\.1:1"):
            await fabric.inventory()
