"""`NodeScratch`: one object a node, through which the controller and the node agree on who has scratch space.

The object is named after the node, and the node owns it. Each part has one writer:

| part | writer | content |
|---|---|---|
| `spec.claims` | the controller | the claims that shall have space on the node: the controller's own record |
| `status.gibibytes` | the node | the size of the disk |
| `status.claims` | the node | its answer for each claim: the folder that it has reserved, or why it refuses |

Users may read the objects: `kubectl get nodescratches --namespace scratch`.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from kubernetes.aio import client, config, watch

GROUP: Final = "scratch.example.com"
_KIND: Final = (GROUP, "v1", os.environ.get("SCRATCH_NAMESPACE", "scratch"), "nodescratches")
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


class _Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class AssignedClaim(_Fields, frozen=True):
    """A claim that shall have space on the node."""

    uid: str
    gibibytes: int


class AnsweredClaim(_Fields, frozen=True):
    """The node's answer for a claim: either a folder, or the reason why the node refuses."""

    uid: str
    path: str = ""
    refused: str = ""


class ScratchSpec(_Fields, frozen=True):
    claims: tuple[AssignedClaim, ...] = ()


class ScratchStatus(_Fields, frozen=True):
    gibibytes: int = 0
    claims: tuple[AnsweredClaim, ...] = ()


class ScratchMeta(_Fields, frozen=True):
    name: str
    resource_version: str = ""


class NodeScratch(_Fields, frozen=True):
    """The scratch space of one node."""

    metadata: ScratchMeta
    spec: ScratchSpec = ScratchSpec()
    status: ScratchStatus = ScratchStatus()

    @property
    def assigned(self) -> Mapping[str, AssignedClaim]:
        return {each.uid: each for each in self.spec.claims}

    @property
    def answers(self) -> Mapping[str, AnsweredClaim]:
        return {each.uid: each for each in self.status.claims}

    @property
    def free(self) -> int:
        """The gibibytes that no claim is assigned, whether the node has answered yet or not."""
        return self.status.gibibytes - sum(each.gibibytes for each in self.spec.claims)


class ScratchObjects:
    """The objects of all nodes.

    Args:
        api: the client of the API server.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._api = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)

    async def list(self) -> dict[str, NodeScratch]:
        """Return the objects by node."""
        found = await self._api.list_namespaced_custom_object(*_KIND)
        objects = [msgspec.convert(each, NodeScratch) for each in found["items"]]
        return {each.metadata.name: each for each in objects}

    async def read(self, node: str) -> NodeScratch | None:
        """Return the object of a node; None if the node has none."""
        try:
            return msgspec.convert(await self._api.get_namespaced_custom_object(*_KIND, node), NodeScratch)
        except client.ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def create(self, node: str) -> NodeScratch:
        """Create the object of a node. It is deleted together with the Node."""
        owner = await self._core.read_node(node)
        reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.metadata.uid}
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "NodeScratch",
            "metadata": {"name": node, "ownerReferences": [reference]},
            "spec": {"claims": []},
        }
        return msgspec.convert(await self._api.create_namespaced_custom_object(*_KIND, body), NodeScratch)

    async def assign(self, node: str, change: Callable[[NodeScratch], ScratchSpec]) -> None:
        """Write `spec` of a node's object; a no-op if the node has none.

        Args:
            node: the node.
            change: returns the new `spec`. It is called again if the object was changed meanwhile.
        """
        while (scratch := await self.read(node)) is not None:
            spec = change(scratch)
            if spec == scratch.spec:
                return
            version = scratch.metadata.resource_version
            body: dict[str, Any] = {
                "metadata": {"resourceVersion": version},
                "spec": {"claims": msgspec.to_builtins(spec.claims)},
            }
            try:
                await self._api.patch_namespaced_custom_object(*_KIND, node, body)
            except client.ApiException as error:
                if error.status != _CONFLICT:
                    raise
            else:
                return

    async def answer(self, node: str, status: ScratchStatus) -> None:
        """Write `status` of a node's object; only the node itself may."""
        body = {"status": {"gibibytes": status.gibibytes, "claims": msgspec.to_builtins(status.claims)}}
        await self._api.patch_namespaced_custom_object_status(*_KIND, node, body)

    async def changes(self, node: str) -> AsyncGenerator[NodeScratch | None, None]:
        """Yield the object of a node now, and again after each change; None if the node has none.

        Close the generator (`contextlib.aclosing`), so that the watch ends.
        """
        while True:
            yield await self.read(node)
            async with watch.Watch() as stream:
                # Without a version, the API server begins with the object as it is. So no change is missed.
                changed = stream.stream(
                    self._api.list_namespaced_custom_object,
                    *_KIND,
                    field_selector=f"metadata.name={node}",
                    timeout_seconds=60,
                )
                async for _ in changed:
                    yield await self.read(node)


@asynccontextmanager
async def connect_scratch(kubeconfig: str = "") -> AsyncIterator[ScratchObjects]:
    """Connect to the API server.

    Args:
        kubeconfig: path of a kubeconfig; empty: `$KUBECONFIG`, otherwise the account of the pod.
    """
    settings = client.Configuration()
    if path := kubeconfig or os.environ.get("KUBECONFIG", ""):
        await config.load_kube_config(path, client_configuration=settings)
    else:
        config.load_incluster_config(client_configuration=settings)
    async with client.ApiClient(settings) as api:
        yield ScratchObjects(api)
