"""Requests for devices in all forms: both servers count and reject them with the same messages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.conformance.apiserver.quota_scenarios import STORIES, QuotaLab
from tests.conformance.apiserver.suite import Api
from tests.e2e.bed import api_server_clients, control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    """Return a control plane with a quota controller and without scheduler."""
    with api_server_bed() as made:
        made.serve()
        control_plane.start_controller_manager(made, [])
        yield made


@pytest.fixture
async def counting(bed: ApiServerBed) -> AsyncIterator[Api]:
    async with api_server_clients.real(bed) as api:
        yield api


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_both_servers_count_the_same(
    counting: Api, embedded: Api, story: Callable[[QuotaLab], Awaitable[Any]]
) -> None:
    results = []
    for api in (counting, embedded):
        lab = QuotaLab(api, story.__name__.replace("_", "-"))
        try:
            results.append(await story(lab))
        finally:
            await lab.end()
    assert results[0] == results[1]
