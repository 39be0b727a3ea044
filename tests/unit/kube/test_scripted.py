"""The scripted server also ends after a failed test whose streams still wait."""

import asyncio
from pathlib import Path

from dradriver.kube import CLAIMS, Client
from tests.unit.kube.scripted import Answer, kubeconfig, serve


async def test_a_stream_that_never_ends_is_canceled(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def stream(response: object) -> None:
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(20), serve() as server:
        server.serves("v1")
        server.on("GET", "/apis/resource.k8s.io/v1/resourceclaims", Answer(stream=stream))
        async with await Client.connect(kubeconfig(tmp_path, server.url, token="t"), timeout=60) as client:
            listing = asyncio.create_task(client.list(CLAIMS, into=dict))
            await started.wait()
            listing.cancel()
            await asyncio.wait([listing])
