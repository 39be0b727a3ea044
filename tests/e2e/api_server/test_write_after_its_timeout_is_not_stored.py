"""kube-apiserver does not store a write after the time in `timeout`, even if the client still waits.

The leader of several processes sends this parameter with each write (`Client.with_guard`). A write that
kube-apiserver has already passed to etcd may still be stored. So this kube-apiserver has no cache: it must read
the object from etcd first, and gives up before it writes.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance.apiserver.suite import MERGE, Api
from tests.e2e.bed import api_server_clients
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    """Return an etcd and a kube-apiserver."""
    with api_server_bed() as made:
        made.serve({"--watch-cache": "false"})
        yield made


async def write(api: Api, key: str, **params: str) -> int:
    """Add a key, and return the status of the answer."""
    body = {"data": {key: "written"}}
    answer = await api.call("PATCH", f"{CONFIG_MAPS}/late", body, content_type=MERGE, params=params)
    return answer.status


async def test_a_write_that_waits_for_etcd_is_given_up(bed: ApiServerBed) -> None:
    async with api_server_clients.real(bed) as api:
        await api.make(CONFIG_MAPS, {"metadata": {"name": "late"}, "data": {}})
        with bed.suspend("etcd"):
            without_limit = asyncio.create_task(write(api, "stored"))
            assert await write(api, "given-up", timeout="500ms") == 504
            assert not without_limit.done()
        assert await without_limit == 200
        config_map = (await api.call("GET", f"{CONFIG_MAPS}/late")).json
    assert config_map["data"] == {"stored": "written"}
