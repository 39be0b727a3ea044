"""Deleted pods and claims do not accumulate in the server's memory."""

import asyncio
import gc
import tracemalloc
import uuid

from dradriver.cluster.apiserver.kinds.resources import CLAIMS, PODS
from dradriver.cluster.apiserver.storage.store import Store
from tests.unit.cluster.apiserver.conftest import StartServer

WARM_UP, MEASURED = 50, 150


async def create_and_delete(store: Store, number: int) -> None:
    """Create and delete a pod with a claim, which changes before the garbage collector deletes it."""
    metadata = {"name": f"p{number}", "namespace": "default", "uid": str(uuid.uuid4())}
    pod = store.put(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"a": "x" * 200}})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    owned = {**metadata, "uid": str(uuid.uuid4()), "ownerReferences": [owner]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": owned,
        "spec": {"devices": {"requests": [{"name": str(i)} for i in range(10)]}},
    }
    store.put(CLAIMS, claim)
    store.delete(pod)
    store.put(CLAIMS, {**claim, "metadata": dict(owned), "status": {}})
    while store.get(CLAIMS, "default", metadata["name"]) is not None:
        await asyncio.sleep(0)


async def test_memory_does_not_grow_with_deleted_pods(start_server: StartServer) -> None:
    server = await start_server(history=40)
    assert server._store is not None
    for number in range(WARM_UP):
        await create_and_delete(server._store, number)
    tracemalloc.start()
    try:
        sizes = []
        for first in (WARM_UP, WARM_UP + MEASURED):
            for number in range(first, first + MEASURED):
                await create_and_delete(server._store, number)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert (sizes[1] - sizes[0]) / MEASURED < 250  # bytes a pod


async def test_older_changes_are_kept_as_bytes(start_server: StartServer) -> None:
    server = await start_server()
    assert server._store is not None
    for number in range(200):
        await create_and_delete(server._store, number)
    decoded = [
        each
        for change in server._store._get_collection(CLAIMS).history
        for each in (change.before, change.last)
        if each is not None and each._object is not None
    ]
    assert len({id(each) for each in decoded}) < 150
