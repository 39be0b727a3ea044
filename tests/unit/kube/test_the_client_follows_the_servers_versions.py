"""Which version of resource.k8s.io is spoken, while servers come and go that have others."""

import pytest
from aiohttp import web

from dradriver.kube import CLAIMS, SLICES, Client, NotFound, Unavailable
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.kube.scripted import Answer, ScriptedServer, status

GROUP = "/apis/resource.k8s.io"
NO_SUCH_PATH = Answer(404, b"404 page not found\n")
"""What kube-apiserver says of a version that it does not serve."""


async def ends_at_once(_: web.StreamResponse) -> None:
    """A watch that the server ends."""


async def watch_once(client: Client) -> None:
    watch = client.watch(SLICES, into=ResourceSlice, resource_version="1")
    assert [event async for event in watch] == []


async def test_a_version_that_is_gone_says_nothing_of_the_object(
    server: ScriptedServer, client: Client
) -> None:
    """Else a claim in use would be taken for deleted, and unprepared."""
    groups = [Answer(body={"versions": [{"version": version}]}) for version in ("v1", "v1beta1")]
    server.on("GET", GROUP, *groups)
    server.on("GET", f"{GROUP}/v1/namespaces/n/resourceclaims/c", NO_SUCH_PATH)
    server.on("GET", f"{GROUP}/v1beta1/namespaces/n/resourceclaims/c", Answer(body={"metadata": {"name": "c"}}))
    with pytest.raises(Unavailable, match=r"/v1/.* does not serve this version any more") as caught:
        await client.get(CLAIMS, "c", "n", into=dict)
    assert not caught.value.sent
    assert (await client.get(CLAIMS, "c", "n", into=dict))["metadata"] == {"name": "c"}


async def test_an_object_that_is_gone_is_not_found(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    path = f"{GROUP}/v1/namespaces/n/resourceclaims/c"
    server.on("GET", path, status(404, "NotFound", 'resourceclaims "c" not found', name="c"))
    with pytest.raises(NotFound):
        await client.get(CLAIMS, "c", "n", into=dict)
    assert len(server.calls("GET", GROUP)) == 1


async def test_when_a_watch_ends_a_newer_version_is_looked_for(server: ScriptedServer, client: Client) -> None:
    groups = [[{"version": "v1beta1"}], [{"version": "v1beta1"}, {"version": "v1"}]]
    server.on("GET", GROUP, *(Answer(body={"versions": versions}) for versions in groups))
    for version in ("v1beta1", "v1"):
        server.on("GET", f"{GROUP}/{version}/resourceslices", Answer(stream=ends_at_once))
    await watch_once(client)
    assert await client.served() == "v1"
    await watch_once(client)
    assert await client.served() == "v1"
    assert len(server.calls("GET", GROUP)) == 2


async def test_a_watch_of_a_version_that_is_gone_goes_on_in_another(
    server: ScriptedServer, client: Client
) -> None:
    server.on(
        "GET", GROUP, *(Answer(body={"versions": [{"version": version}]}) for version in ("v1", "v1beta2"))
    )
    server.on("GET", f"{GROUP}/v1/resourceslices", NO_SUCH_PATH)
    server.on("GET", f"{GROUP}/v1beta2/resourceslices", Answer(stream=ends_at_once))
    with pytest.raises(Unavailable):
        await watch_once(client)
    await watch_once(client)
