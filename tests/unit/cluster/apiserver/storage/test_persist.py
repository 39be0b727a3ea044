"""Acknowledged writes survive a restart and kill -9."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest

from dradriver.cluster.apiserver import ApiServer
from tests.conformance.apiserver.suite import DRA, Api, claim, config_map
from tests.ports import reserve_port
from tests.unit.cluster.apiserver.conftest import Connect, StartServer
from tests.unit.cluster.apiserver.storage.test_definitions import ANYTHING

MAPS = "/api/v1/namespaces/default/configmaps"
SERVE = """
import asyncio, pathlib, sys
from dradriver.cluster.apiserver import ApiServer

async def main():
    server = ApiServer(pathlib.Path(sys.argv[1]))
    await server.start()
    server.write_kubeconfig(pathlib.Path(sys.argv[1]) / "kubeconfig")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_objects_revisions_tokens_and_address_survive_a_restart(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server(port=reserve_port())
    api = connect(server)
    made = await api.make(f"{DRA}/namespaces/default/resourceclaims", claim("a", b'{"z": 1.0,  "a":"<"}'))
    await api.make(MAPS, config_map("gone"))
    last = (await api.call("DELETE", f"{MAPS}/gone")).status
    revision = int((await api.call("GET", MAPS)).json["metadata"]["resourceVersion"])
    url = server.url
    await server.stop()
    again = await start_server()
    assert (last, again.url) == (200, url)
    assert (await api.call("GET", f"{DRA}/namespaces/default/resourceclaims/a")).json == made
    assert (await api.call("GET", f"{MAPS}/gone")).status == 404
    assert int((await api.make(MAPS, config_map("new")))["metadata"]["resourceVersion"]) > revision


async def test_raw_bytes_are_kept_on_disk_as_they_were_sent(
    start_server: StartServer, connect: Connect, tmp_path: Path
) -> None:
    server = await start_server()
    await connect(server).make(f"{DRA}/namespaces/default/resourceclaims", claim("a", b'{"z": 1.0,  "a":"<"}'))
    await server.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "state.db")) as database:
        (body,) = database.execute("SELECT body FROM objects WHERE name = 'a'").fetchone()
    assert b'{"z": 1.0,  "a":"<"}' in body


async def test_a_custom_kind_is_served_again_after_a_restart(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server()
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": ANYTHING}}]},
    }  # fmt: skip
    await connect(server).make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await server.stop()
    api = connect(await start_server())
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1.5}}
    assert (await api.make("/apis/example.com/v1/things", thing))["spec"] == {"x": 1.5}


async def write_until_killed(api: Api, writer: int) -> list[str]:
    """Create objects one after the other and return the acknowledged ones."""
    done: list[str] = []
    with contextlib.suppress(aiohttp.ClientError):
        for index in range(10_000):
            name = f"w{writer}-{index}"
            answer = await api.call("POST", MAPS, config_map(name))
            assert answer.status == 201
            done.append(name)
    return done


@pytest.mark.parametrize("wait_for", [5, 60])
async def test_kill_9_loses_no_acknowledged_write(
    tmp_path: Path, start_server: StartServer, connect: Connect, wait_for: int
) -> None:
    """The server is killed after this many writes of one of four writers, while the others are writing."""
    data = tmp_path / "data"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(data), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    config = json.loads((data / "kubeconfig").read_text())
    context = ssl.create_default_context(cafile=str(data / "ca.crt"))
    async with aiohttp.ClientSession() as session:
        api = Api(
            config["clusters"][0]["cluster"]["server"], context, config["users"][0]["user"]["token"], session
        )
        writers = [asyncio.create_task(write_until_killed(api, writer)) for writer in range(4)]
        while (await api.call("GET", f"{MAPS}/w0-{wait_for}")).status != 200:
            await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        acknowledged = {name for done in await asyncio.gather(*writers) for name in done}
    again = connect(await start_server(data_dir=data))
    kept = {each["metadata"]["name"] for each in (await again.call("GET", MAPS)).json["items"]}
    assert len(acknowledged) > wait_for
    assert acknowledged <= kept


async def test_a_full_disk_fails_the_write_and_changes_nothing(server: ApiServer, api: Api) -> None:
    made = await api.make(MAPS, config_map("a"))
    database = server._database._connection
    assert database is not None
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    big = {**made, "data": {"a": "x" * 200_000}}
    refused = await api.call("PUT", f"{MAPS}/a", big)
    assert refused.status == 500
    assert "database or disk is full" in refused.json["message"]
    assert (await api.call("GET", f"{MAPS}/a")).json == made
    database.execute("PRAGMA max_page_count = 1000000")
    assert (await api.call("PUT", f"{MAPS}/a", big)).status == 200
