"""A controller of classic claims that runs against an API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    PODS,
    SCHEDULING_CONTEXTS,
    ApiError,
    Cache,
    Client,
    PatchKind,
)
from dradriver.model.classic.controlled_claims import is_deallocation_requested
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.classic.drivers import make_allocation

__all__ = ["LiveDriver"]


class LiveDriver:
    """Reacts to contexts and claims: `async with LiveDriver(client, "a.example.com")`.

    Attributes:
        unsuitable: the nodes on which it cannot allocate.
        is_away: whether it reacts to nothing.
        rounds: the generation of each context that it has seen, by pod.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self.unsuitable: set[str] = set()
        self.is_away = False
        self.shareable = False
        self.rounds: dict[str, int] = {}
        self._client = client
        self._changed = asyncio.Event()
        self._contexts = Cache(client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._pods = Cache(client, PODS, Pod)
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._client.create(
            CLASSES, builders.controller_class(self.name, controller=self.name), into=dict
        )
        for cache in (self._contexts, self._claims, self._pods):
            cache.subscribe(lambda *_: self._changed.set())
            await self._stack.enter_async_context(cache)
            await cache.wait_synced()
        self._task = asyncio.create_task(self._run(), name=self.name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stack.aclose()

    def wake(self) -> None:
        """Look at all objects again."""
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.is_away:
                continue
            for claim in list(self._claims.items.values()):
                await self._try_deallocate(claim)
            for context in list(self._contexts.items.values()):
                pod = self._pods.items.get(context.ref)
                if pod is not None and context.is_for(pod.metadata.uid):
                    await self._serve(pod, context)

    async def _serve(self, pod: Pod, context: PodSchedulingContext) -> None:
        self.rounds[pod.ref] = context.metadata.generation
        pending = [each async for each in self._pending(pod)]
        selected = context.spec.selected_node
        if not pending:
            return
        if not selected or (selected in self.unsuitable and context.spec.potential_nodes):
            await self._answer(context, [name for name, _ in pending])
            return
        for _, claim in pending:
            await self.allocate(claim, selected, pod)

    async def _pending(self, pod: Pod) -> AsyncIterator[tuple[str, ResourceClaim]]:
        for wanted in pod.spec.resource_claims:
            claim = self._claims.items.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
            if claim is None or claim.allocation is not None or claim.metadata.deletion_timestamp is not None:
                continue
            if any(r.exactly and r.exactly.device_class_name == self.name for r in claim.spec.devices.requests):
                yield wanted.name, claim

    async def _answer(self, context: PodSchedulingContext, names: list[str]) -> None:
        entries = [
            {"name": name, "controllerName": self.name, "unsuitableNodes": sorted(self.unsuitable)}
            for name in names
        ]
        meta = context.metadata
        body = {
            "apiVersion": SCHEDULING_CONTEXTS.api_version,
            "kind": SCHEDULING_CONTEXTS.kind,
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "status": {"resourceClaims": entries},
        }
        try:
            await self._client.patch(
                *(SCHEDULING_CONTEXTS, meta.name, meta.namespace, body, PatchKind.APPLY),
                into=dict,
                subresource="status",
                field_manager=self.name,
                force=True,
            )
        except ApiError:
            self._changed.set()

    async def allocate(self, claim: ResourceClaim, node: str | None, pod: Pod | None = None) -> None:
        """Add the finalizer, and write the allocation with the reservation."""
        meta = claim.metadata
        allocation = make_allocation(claim, self.name, node, shareable=self.shareable)
        reserved = [*claim.status.reserved_for, *([consumer_of(pod)] if pod is not None else [])]
        lock = {"op": "add", "path": "/metadata/resourceVersion"}
        try:
            marked = await self._client.patch(
                *(CLAIMS, meta.name, meta.namespace),
                [
                    lock | {"value": meta.resource_version},
                    {"op": "add", "path": "/metadata/finalizers", "value": [finalizer(self.name)]},
                ],
                PatchKind.JSON,
                into=ResourceClaim,
            )
            written = await self._client.patch(
                *(CLAIMS, meta.name, meta.namespace),
                [
                    lock | {"value": marked.metadata.resource_version},
                    {
                        "op": "add",
                        "path": "/status",
                        "value": {"allocation": allocation, "reservedFor": reserved},
                    },
                ],
                PatchKind.JSON,
                into=ResourceClaim,
                subresource="status",
            )
            self._claims.apply_written(written)
        except ApiError:
            self._changed.set()

    async def _try_deallocate(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        is_asked = is_deallocation_requested(claim) or meta.deletion_timestamp is not None
        if finalizer(self.name) not in meta.finalizers or claim.status.reserved_for or not is_asked:
            return
        lock = {"op": "add", "path": "/metadata/resourceVersion"}
        try:
            freed = replace(claim)
            if claim.allocation is not None:
                freed = await self._client.patch(
                    *(CLAIMS, meta.name, meta.namespace),
                    [
                        lock | {"value": meta.resource_version},
                        {"op": "remove", "path": "/status/allocation"},
                    ],
                    PatchKind.JSON,
                    into=ResourceClaim,
                    subresource="status",
                )
            await self._client.patch(
                *(CLAIMS, meta.name, meta.namespace),
                [
                    lock | {"value": freed.metadata.resource_version},
                    {"op": "remove", "path": "/metadata/finalizers"},
                ],
                PatchKind.JSON,
                into=dict,
            )
        except ApiError:
            self._changed.set()
