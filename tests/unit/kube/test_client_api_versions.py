"""The version of resource.k8s.io that the client uses, while servers with other versions come and go."""

import pytest
from aiohttp import web

from dradriver.kube import CLAIMS, LEASES, SLICES, TAINT_RULES, Client, NotFound, Unavailable
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.kube.scripted import Answer, ScriptedServer, status

GROUP = "/apis/resource.k8s.io"
NO_SUCH_PATH = Answer(404, b"404 page not found\n")
"""The answer of kube-apiserver for a version that it does not serve."""


async def ends_at_once(_: web.StreamResponse) -> None:
    """End the watch at once."""


async def watch_once(client: Client) -> None:
    watch = client.watch(SLICES, into=ResourceSlice, resource_version="1")
    assert [event async for event in watch] == []


async def test_a_version_that_is_no_longer_served_does_not_count_as_a_missing_object(
    server: ScriptedServer, client: Client
) -> None:
    """Otherwise a claim in use would count as deleted and would be unprepared."""
    groups = [Answer(body={"versions": [{"version": version}]}) for version in ("v1", "v1beta1")]
    server.on("GET", GROUP, *groups)
    server.on("GET", f"{GROUP}/v1/namespaces/n/resourceclaims/c", NO_SUCH_PATH)
    server.on("GET", f"{GROUP}/v1beta1/namespaces/n/resourceclaims/c", Answer(body={"metadata": {"name": "c"}}))
    with pytest.raises(Unavailable, match=r"/v1/.* no longer serves this version") as caught:
        await client.get(CLAIMS, "c", "n", into=dict)
    assert not caught.value.sent
    assert (await client.get(CLAIMS, "c", "n", into=dict))["metadata"] == {"name": "c"}


async def test_a_missing_object_is_not_found(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    path = f"{GROUP}/v1/namespaces/n/resourceclaims/c"
    server.on("GET", path, status(404, "NotFound", 'resourceclaims "c" not found', name="c"))
    with pytest.raises(NotFound):
        await client.get(CLAIMS, "c", "n", into=dict)
    assert len(server.calls("GET", GROUP)) == 1


async def test_the_version_is_read_again_when_a_watch_ends(server: ScriptedServer, client: Client) -> None:
    groups = [[{"version": "v1beta1"}], [{"version": "v1beta1"}, {"version": "v1"}]]
    server.on("GET", GROUP, *(Answer(body={"versions": versions}) for versions in groups))
    for version in ("v1beta1", "v1"):
        server.on("GET", f"{GROUP}/{version}/resourceslices", Answer(stream=ends_at_once))
    await watch_once(client)
    assert await client.find_version() == "v1"
    await watch_once(client)
    assert await client.find_version() == "v1"
    assert len(server.calls("GET", GROUP)) == 2


async def test_a_watch_continues_in_another_version(server: ScriptedServer, client: Client) -> None:
    server.on(
        "GET", GROUP, *(Answer(body={"versions": [{"version": version}]}) for version in ("v1", "v1beta2"))
    )
    server.on("GET", f"{GROUP}/v1/resourceslices", NO_SUCH_PATH)
    server.on("GET", f"{GROUP}/v1beta2/resourceslices", Answer(stream=ends_at_once))
    with pytest.raises(Unavailable):
        await watch_once(client)
    await watch_once(client)


async def test_a_resource_is_served_if_the_version_in_use_lists_it(
    server: ScriptedServer, client: Client
) -> None:
    server.serves("v1")
    server.on("GET", f"{GROUP}/v1", Answer(body={"resources": [{"name": "resourceclaims"}]}))
    server.on("GET", "/apis/coordination.k8s.io/v1", NO_SUCH_PATH)
    assert await client.serves(CLAIMS)
    assert not await client.serves(TAINT_RULES)
    assert not await client.serves(LEASES)
