"""`get -w -o json` and other formats: objects are printed one after the other as they change."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from dradriver.cli.get.pods import POD_LIST
from dradriver.cli.listing import Query
from dradriver.cli.listing.document_watching import follow_documents
from dradriver.cli.listing.forms import parse_form
from dradriver.cli.listing.show import watch_list
from dradriver.cluster.apiserver import ApiServer
from dradriver.errors import NotFoundError
from dradriver.kube import PODS, Client, PatchKind
from dradriver.testing.builders import pod

Documents = Sequence[Mapping[str, object]]


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    yield path
    await server.stop()


async def test_each_change_is_a_document(kubeconfig: Path) -> None:
    shown: asyncio.Queue[list[str]] = asyncio.Queue()

    def show(documents: Documents) -> None:
        shown.put_nowait([f"{each['metadata']['name']} {each['kind']}" for each in documents])  # type: ignore[index]

    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(PODS, pod("a", name="pod-1"), "default", into=dict)
        task = asyncio.create_task(follow_documents(client, POD_LIST, Query(), show))
        try:
            assert await shown.get() == ["pod-1 Pod"]
            await client.create(PODS, pod("a", name="pod-2"), "default", into=dict)
            assert await shown.get() == ["pod-2 Pod"]
            status = {"status": {"phase": "Failed"}}
            await client.patch(
                PODS, "pod-1", "default", status, PatchKind.MERGE, into=dict, subresource="status"
            )
            assert await shown.get() == ["pod-1 Pod"]
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_watch_only_leaves_out_the_present_objects(kubeconfig: Path) -> None:
    shown: asyncio.Queue[int] = asyncio.Queue()
    async with await Client.connect(str(kubeconfig)) as client:
        for name in ("pod-1", "pod-2"):
            await client.create(PODS, pod("a", name=name), "default", into=dict)
        query = Query(watch=True, watch_only=True)
        task = asyncio.create_task(
            follow_documents(client, POD_LIST, query, lambda documents: shown.put_nowait(len(documents)))
        )
        try:
            # The first list is read at an unknown moment, so pods are created until one of them is shown.
            for number in count(3):
                await client.create(PODS, pod("a", name=f"pod-{number}"), "default", into=dict)
                with suppress(TimeoutError):
                    assert await asyncio.wait_for(shown.get(), 0.2) == 1
                    break
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


PRINTED = {
    "json": ["{", '    "name": "pod-1",', "{", '    "name": "pod-2",'],
    "yaml": ["  name: pod-1", "---", "  name: pod-2"],
    "jsonpath={.metadata.name}{'\\n'}": ["pod-1", "pod-2"],
    "custom-columns=POD:.metadata.name": ["POD", "pod-1", "pod-2"],
    "name": ["pod/pod-1", "pod/pod-2"],
}


async def test_objects_are_printed_one_after_the_other(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `kubectl get pods -w -o ...` prints them: no list around them, and `---` between YAML documents."""
    async with await Client.connect(str(kubeconfig)) as client:
        for form, expected in PRINTED.items():
            await client.create(PODS, pod("a", name="pod-1"), "default", into=dict)
            query = Query(namespace="default", watch=True, form=parse_form(form))
            task = asyncio.create_task(watch_list(client, POD_LIST, query))
            text = ""
            try:
                while "pod-1" not in text:
                    await asyncio.sleep(0.01)
                    text += capsys.readouterr().out
                await client.create(PODS, pod("a", name="pod-2"), "default", into=dict)
                while "pod-2" not in text:
                    await asyncio.sleep(0.01)
                    text += capsys.readouterr().out
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            lines = [line for line in text.splitlines() if line in expected]
            assert lines == expected, f"{form}: {text}"
            for name in ("pod-1", "pod-2"):
                await client.delete(PODS, name, "default")


async def test_a_name_that_does_not_exist_is_not_watched_as_a_document(kubeconfig: Path) -> None:
    async with await Client.connect(str(kubeconfig)) as client:
        with pytest.raises(NotFoundError, match='pods "nothing" not found'):
            await follow_documents(client, POD_LIST, Query(names=("nothing",)), lambda _: None)
