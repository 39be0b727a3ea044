"""A cache of a resource whose definition may be missing."""

import asyncio
from pathlib import Path

import pytest

from dradriver.control.runtime.optional_cache import OptionalCache
from dradriver.kube import CONTROLLER_ALLOCATIONS, Cache, Client
from dradriver.kube.resources import Resource
from dradriver.model.classic.allocation_records import ControllerAllocation


class SilentClient(Client):
    """A client that is never told whether a resource is served."""

    async def serves(self, resource: Resource) -> bool:
        await asyncio.get_running_loop().create_future()
        raise AssertionError(f"unreachable: nobody answers for {resource.plural}")


@pytest.mark.usefixtures("lab")
async def test_a_start_that_is_canceled_leaves_no_task(tmp_path: Path) -> None:
    # No assertion is needed here: a task that still runs fails each asynchronous test.
    async with await SilentClient.connect(str(tmp_path / "kubeconfig")) as client:
        cache = Cache(client, CONTROLLER_ALLOCATIONS, into=ControllerAllocation)
        optional = OptionalCache(client, CONTROLLER_ALLOCATIONS, cache, asyncio.Event())
        entering = asyncio.create_task(optional.__aenter__(), name="entering")
        await asyncio.sleep(0.01)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
