"""`get -w`: changed rows are printed as they come."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from dradriver.cli.get.pods import POD_LIST
from dradriver.cli.listing import ListRow, Query, follow
from dradriver.cli.listing.watching import changed_rows
from dradriver.cluster.apiserver import ApiServer
from dradriver.errors import NotFoundError
from dradriver.kube import PODS, Client, PatchKind
from dradriver.testing.builders import pod


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    async with await Client.connect(str(path)) as client:
        yield client
    await server.stop()


async def test_the_list_is_followed_by_each_change(client: Client) -> None:
    await client.create(PODS, pod("a", name="pod-1"), "default", into=dict)
    shown: asyncio.Queue[list[str]] = asyncio.Queue()

    def show(rows: Sequence[ListRow], all_rows: Sequence[ListRow]) -> None:
        shown.put_nowait([f"{row.names[0]} {row.cells['status']}" for row in rows])

    task = asyncio.create_task(follow(client, POD_LIST, Query(), show, pause=0))
    try:
        assert await shown.get() == ["pod-1 Pending"]
        await client.create(PODS, pod("a", name="pod-2"), "default", into=dict)
        assert await shown.get() == ["pod-2 Pending"]
        status = {"status": {"phase": "Failed"}}
        await client.patch(PODS, "pod-1", "default", status, PatchKind.MERGE, into=dict, subresource="status")
        assert await shown.get() == ["pod-1 Failed"]
        await client.delete(PODS, "pod-2", "default")
        assert (await shown.get())[0].startswith("pod-2")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_name_that_does_not_exist_is_not_watched(client: Client) -> None:
    with pytest.raises(NotFoundError, match='pods "nothing" not found'):
        await follow(client, POD_LIST, Query(names=("nothing",)), lambda *_: None)


def test_a_new_age_alone_is_no_change() -> None:
    old = {
        "a": ListRow("a", ("a",), {"name": "a", "age": "1s"}),
        "b": ListRow("b", ("b",), {"name": "b", "age": "1s"}),
    }
    new = {"a": ListRow("a", ("a",), {"name": "a", "age": "2s"})}
    assert [row.key for row in changed_rows(old, new)] == ["b"]
    assert changed_rows(new, new) == []
