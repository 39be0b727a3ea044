"""The official Python client lists, watches and writes claims and slices on the embedded API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kubernetes import client, config, watch

from dradriver.cluster.apiserver import ApiServer

T = TypeVar("T")


@pytest.fixture
async def resources(tmp_path: Path) -> AsyncIterator[Any]:
    """Return the client's API of `resource.k8s.io/v1`. It blocks, so tests call it in threads."""
    server = ApiServer(tmp_path / "data", history=20)
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    settings = client.Configuration()
    await asyncio.to_thread(config.load_kube_config, str(path), client_configuration=settings)
    connection = client.ApiClient(settings)
    yield client.ResourceV1Api(connection)
    await asyncio.to_thread(connection.close)
    await server.stop()


def claim(name: str) -> Any:
    exactly = client.V1ExactDeviceRequest(device_class_name="class.example.com")
    devices = client.V1DeviceClaim(requests=[client.V1DeviceRequest(name="device", exactly=exactly)])
    return client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name=name), spec=client.V1ResourceClaimSpec(devices=devices)
    )


def resource_slice(node: str) -> Any:
    pool = client.V1ResourcePool(name=node, generation=1, resource_slice_count=1)
    device = client.V1Device(
        name="device-0",
        attributes={"index": client.V1DeviceAttribute(int=0)},
        capacity={"memory": client.V1DeviceCapacity(value="4Gi")},
    )
    spec = client.V1ResourceSliceSpec(driver="driver.example.com", node_name=node, pool=pool, devices=[device])
    return client.V1ResourceSlice(metadata=client.V1ObjectMeta(name=node), spec=spec)


async def rejection_status(call: Callable[[], object]) -> int:
    """Return the HTTP status of a rejected call."""
    with pytest.raises(client.ApiException) as caught:
        await asyncio.to_thread(call)
    return int(caught.value.status)


async def test_a_claim_is_created_read_patched_and_deleted(resources: Any) -> None:
    def walk() -> None:
        made = resources.create_namespaced_resource_claim("default", claim("one"))
        assert made.spec.devices.requests[0].exactly.allocation_mode == "ExactCount"
        patch = {"metadata": {"labels": {"a": "b"}}}
        patched = resources.patch_namespaced_resource_claim("one", "default", patch)
        assert patched.metadata.labels == {"a": "b"}
        listed = resources.list_namespaced_resource_claim("default", label_selector="a=b")
        assert [each.metadata.uid for each in listed.items] == [made.metadata.uid]
        gone = resources.delete_namespaced_resource_claim("one", "default")
        assert gone.metadata.name == "one"

    await asyncio.to_thread(walk)
    assert await rejection_status(lambda: resources.read_namespaced_resource_claim("one", "default")) == 404


async def test_a_stale_replace_is_a_conflict(resources: Any) -> None:
    made = await asyncio.to_thread(resources.create_resource_slice, resource_slice("node-1"))
    made.spec.pool.generation = 2
    await asyncio.to_thread(resources.replace_resource_slice, "node-1", made)
    assert await rejection_status(lambda: resources.replace_resource_slice("node-1", made)) == 409


async def test_status_and_spec_are_patched_separately(resources: Any) -> None:
    def walk() -> Any:
        resources.create_namespaced_resource_claim("default", claim("one"))
        result = {"request": "device", "driver": "driver.example.com", "pool": "node-1", "device": "device-0"}
        patch = {"status": {"allocation": {"devices": {"results": [result]}}}, "spec": {"ignored": True}}
        return resources.patch_namespaced_resource_claim_status("one", "default", patch)

    patched = await asyncio.to_thread(walk)
    assert patched.status.allocation.devices.results[0].device == "device-0"
    assert (
        patched.spec
        == (await asyncio.to_thread(lambda: resources.read_namespaced_resource_claim("one", "default"))).spec
    )


async def test_slices_are_selected_by_node_and_come_in_pages(resources: Any) -> None:
    def walk() -> list[str]:
        for node in ("node-1", "node-2", "node-3"):
            resources.create_resource_slice(resource_slice(node))
        [mine] = resources.list_resource_slice(field_selector="spec.nodeName=node-2").items
        assert mine.spec.devices[0].capacity["memory"].value == "4Gi"
        first = resources.list_resource_slice(limit=2)
        rest = resources.list_resource_slice(limit=2, _continue=first.metadata._continue)
        return [each.metadata.name for each in [*first.items, *rest.items]]

    assert await asyncio.to_thread(walk) == ["node-1", "node-2", "node-3"]


async def test_a_watch_reports_every_change(resources: Any) -> None:
    def walk() -> list[tuple[str, str]]:
        since = resources.list_resource_slice().metadata.resource_version
        resources.create_resource_slice(resource_slice("node-1"))
        resources.patch_resource_slice("node-1", {"metadata": {"labels": {"a": "b"}}})
        resources.delete_resource_slice("node-1")
        seen = []
        watching = watch.Watch()
        for event in watching.stream(resources.list_resource_slice, resource_version=since, timeout_seconds=30):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                watching.stop()
        return seen

    expected = [(kind, "node-1") for kind in ("ADDED", "MODIFIED", "DELETED")]
    assert await asyncio.to_thread(walk) == expected


async def test_a_watch_from_a_compacted_revision_is_gone(resources: Any) -> None:
    def walk() -> None:
        since = resources.create_resource_slice(resource_slice("node-1")).metadata.resource_version
        for count in range(25):
            resources.patch_resource_slice("node-1", {"metadata": {"labels": {"count": str(count)}}})
        for _ in watch.Watch().stream(
            resources.list_resource_slice, resource_version=since, timeout_seconds=30
        ):
            pytest.fail("the past is not gone")

    assert await rejection_status(walk) == 410
