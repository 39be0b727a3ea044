"""Clients log in by session or by basic authentication, and an account has the privileges of its role."""

import pytest

from dradriver_fabric_cxl.emulator.resources.paths import ACCOUNTS, ROOT, SESSIONS, SYSTEMS
from tests.drivers.fabric_cxl.emulator.processes import (
    AUTHORIZATION,
    CHUNKS,
    PASSWORD,
    USER,
    Answer,
    Client,
    EmulatorProcess,
    chunk,
)

READER = {"UserName": "reader", "Password": "a long password", "RoleId": "ReadOnly"}


async def log_in(client: Client, user: str = USER, password: str = PASSWORD) -> Answer:
    return await client.send("POST", SESSIONS, {"UserName": user, "Password": password}, login=False)


async def test_only_the_service_root_is_read_without_login(client: Client) -> None:
    assert (await client.send("GET", f"{ROOT}/", login=False)).status == 200
    answer = await client.send("GET", SYSTEMS, login=False)
    assert (answer.status, answer.message) == (401, "NoValidSession")
    assert "WWW-Authenticate" in answer.headers


async def test_a_session_lasts_until_it_is_deleted(client: Client) -> None:
    made = await log_in(client)
    assert (made.status, made.body["UserName"]) == (201, USER)
    token = {"X-Auth-Token": made.headers["X-Auth-Token"]}
    assert (await client.send("GET", SYSTEMS, headers=token, login=False)).status == 200
    deleted = await client.send("DELETE", made.headers["Location"], headers=token, login=False)
    assert deleted.status == 204
    assert (await client.send("GET", SYSTEMS, headers=token, login=False)).status == 401


async def test_a_session_outlives_the_process(emulator: EmulatorProcess) -> None:
    async with emulator.running() as client:
        token = {"X-Auth-Token": (await log_in(client)).headers["X-Auth-Token"]}
        await emulator.kill()
    async with emulator.running() as client:
        assert (await client.send("GET", SYSTEMS, headers=token, login=False)).status == 200


async def test_an_unused_session_ends(emulator: EmulatorProcess) -> None:
    emulator.options = ["--session-seconds", "0"]
    async with emulator.running() as client:
        made = await log_in(client)
        token = {"X-Auth-Token": made.headers["X-Auth-Token"]}
        assert (await client.send("GET", SYSTEMS, headers=token, login=False)).status == 401
        assert made.headers["Location"] not in await client.members(SESSIONS)


async def test_all_sessions_end_on_demand(client: Client) -> None:
    token = {"X-Auth-Token": (await log_in(client)).headers["X-Auth-Token"]}
    assert (await client.send("DELETE", "/emulator/sessions", login=False)).status == 204
    assert (await client.send("GET", SYSTEMS, headers=token, login=False)).status == 401


@pytest.mark.parametrize("authorization", ["Basic ?", "Basic YQ==", "Bearer x", "Basic YWRtaW46d3Jvbmc="])
async def test_wrong_credentials_are_refused(client: Client, authorization: str) -> None:
    answer = await client.send("GET", SYSTEMS, headers={"Authorization": authorization}, login=False)
    assert answer.status == 401
    assert (await log_in(client, password="wrong")).status == 401


async def test_a_reader_changes_only_itself(client: Client) -> None:
    made = await client.send("POST", ACCOUNTS, READER)
    assert (made.status, made.body["Password"]) == (201, None)
    token = (await log_in(client, "reader", "a long password")).headers["X-Auth-Token"]
    headers = {"X-Auth-Token": token}
    refused = await client.send("POST", CHUNKS, chunk(), headers, login=False)
    assert (refused.status, refused.message) == (403, "InsufficientPrivilege")
    location = made.headers["Location"]
    changed = await client.send("PATCH", location, {"Password": "another password"}, headers, login=False)
    assert changed.status == 200
    assert (await log_in(client, "reader", "another password")).status == 201
    assert (await log_in(client, "reader", "a long password")).status == 401


async def test_a_change_with_an_old_etag_is_refused(client: Client) -> None:
    location = (await client.send("POST", ACCOUNTS, READER)).headers["Location"]
    read = await client.send("GET", location)
    old = {"If-Match": read.headers["ETag"]}
    assert read.body["@odata.etag"] == read.headers["ETag"]
    assert (await client.send("PATCH", location, {"RoleId": "Operator"}, old)).status == 200
    answer = await client.send("DELETE", location, headers=old)
    assert (answer.status, answer.message) == (412, "PreconditionFailed")
    assert (await client.send("DELETE", location, headers={"If-Match": "*"})).status == 204


async def test_a_chunk_with_an_old_etag_is_not_deleted(client: Client) -> None:
    path = await client.make_chunk()
    answer = await client.send("DELETE", path, headers={"If-Match": '"old"'})
    assert answer.status == 412
    assert await client.members(CHUNKS) == [path]


async def test_an_unchanged_resource_is_not_sent_again(client: Client) -> None:
    path = await client.make_chunk()
    known = {"If-None-Match": (await client.send("GET", path)).headers["ETag"]}
    assert (await client.send("GET", path, headers=known)).status == 304


async def test_passwords_are_in_no_file_and_no_answer(emulator: EmulatorProcess) -> None:
    async with emulator.running() as client:
        made = await client.send("POST", ACCOUNTS, READER)
        token = (await log_in(client)).headers["X-Auth-Token"]
        assert READER["Password"] not in str(made.body)
    state = (emulator.folder / "state.json").read_text()
    assert not [secret for secret in (PASSWORD, READER["Password"], token) if secret in state]
    assert AUTHORIZATION["Authorization"] not in state


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", SYSTEMS, {}, 405),
        ("POST", SYSTEMS, {}, 405),
        ("UNKNOWN", SYSTEMS, None, 501),
        ("GET", f"{SYSTEMS}/none", None, 404),
        ("GET", f"{SYSTEMS}?$top=1", None, 501),
        ("POST", CHUNKS, [], 400),
        ("POST", ACCOUNTS, READER | {"RoleId": "none"}, 400),
    ],
)
async def test_a_request_that_is_not_supported_is_refused(
    client: Client, method: str, path: str, body: object, status: int
) -> None:
    answer = await client.send(method, path, body)
    assert answer.status == status
    assert answer.message
