"""The folder of a server: one process at a time, and clear errors."""

import stat
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.errors import UsageError
from tests.unit.cluster.apiserver.conftest import StartServer


async def test_a_second_server_on_the_same_folder_is_rejected(start_server: StartServer) -> None:
    await start_server()
    with pytest.raises(UsageError, match="another API server uses it"):
        await start_server()


async def test_an_invalid_state_file_is_a_usage_error_and_kept(
    tmp_path: Path, start_server: StartServer
) -> None:
    (tmp_path / "data").mkdir()
    state = tmp_path / "data" / "state.db"
    state.write_bytes(b"this is not a database, but long enough to be taken for one" * 100)
    server = ApiServer(tmp_path / "data")
    with pytest.raises(UsageError, match=r"state.db can't be read: .*; move it away"):
        await server.start()
    await server.stop()
    assert state.read_bytes().startswith(b"this is not")


async def test_a_folder_that_cannot_be_created_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="data folder"):
        await ApiServer(tmp_path / "file" / "data").start()


async def test_a_port_in_use_is_a_usage_error(tmp_path: Path, start_server: StartServer) -> None:
    port = int((await start_server()).url.rpartition(":")[2])
    second = ApiServer(tmp_path / "other", port=port)
    with pytest.raises(
        UsageError, match=r"can't listen on .*: another process uses the port; choose another port"
    ):
        await second.start()
    await second.stop()


async def test_secrets_are_readable_only_by_the_owner(tmp_path: Path, start_server: StartServer) -> None:
    server = await start_server()
    server.write_kubeconfig(tmp_path / "config" / "kubeconfig")
    secret = [tmp_path / "config" / "kubeconfig", tmp_path / "data" / "token.key", tmp_path / "data" / "ca.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


async def test_a_kubeconfig_needs_a_server_that_was_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has not been started"):
        ApiServer(tmp_path).kubeconfig()


async def test_stop_is_idempotent(start_server: StartServer) -> None:
    server = await start_server()
    await server.stop()
    await server.stop()
