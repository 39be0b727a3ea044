"""Devices asked for in all ways: both servers count and refuse them alike, in the same words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.conformance.apiserver_suite import Api
from tests.conformance.quota_stories import STORIES, QuotaLab
from tests.e2e import control_plane, servers
from tests.e2e.api_servers import ApiServerBed, api_server_bed


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    """A control plane whose quota controller runs; nothing is scheduled."""
    with api_server_bed() as made:
        made.serve()
        control_plane.start_controller_manager(made, [])
        yield made


@pytest.fixture
async def counting(bed: ApiServerBed) -> AsyncIterator[Api]:
    async with servers.real(bed) as api:
        yield api


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_both_servers_tell_the_same(
    counting: Api, embedded: Api, story: Callable[[QuotaLab], Awaitable[Any]]
) -> None:
    told = []
    for api in (counting, embedded):
        lab = QuotaLab(api, story.__name__.replace("_", "-"))
        try:
            told.append(await story(lab))
        finally:
            await lab.end()
    assert told[0] == told[1]
