"""What a controller writes to the API server, one write at a time (KEP-3063)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dradriver.kube import CLAIMS, CONTROLLER_ALLOCATIONS, Client, PatchKind
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import API_VERSION, DEALLOCATION_REQUESTED, finalizer
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import builtins, rfc3339
from dradriver.model.resource.claim import DeviceResult, ResourceClaim

__all__ = ["CONTROLLER", "ControllerWrites"]

Json = dict[str, Any]
CONTROLLER: Final = "controller.example.com"


class ControllerWrites:
    """The writes of a controller in one namespace.

    Args:
        client: the API server.
        namespace: the namespace of the claims.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def get(self, name: str) -> ResourceClaim:
        """Return a claim."""
        return await self._client.get(CLAIMS, name, self._namespace, into=ResourceClaim)

    async def begin(self, name: str, node: str = "") -> None:
        """Add the finalizer to a claim, and record its allocation."""
        claim = await self.get(name)
        body: Json = {"metadata": {"finalizers": [finalizer(CONTROLLER)]}}
        await self._patch(claim, body)
        spec = {"claimName": name, "claimUID": claim.metadata.uid, "controllerName": CONTROLLER, "node": node}
        record = {
            "apiVersion": API_VERSION,
            "kind": CONTROLLER_ALLOCATIONS.kind,
            "metadata": {"name": claim.metadata.uid},
            "spec": spec,
        }
        await self._client.create(CONTROLLER_ALLOCATIONS, record, self._namespace, into=dict)

    async def allocate(
        self,
        name: str,
        results: Sequence[DeviceResult],
        handles: Mapping[str, bytes],
        *,
        node: str = "",
        pod: Json | None = None,
    ) -> ResourceClaim:
        """Allocate a claim: finalizer, record, and one write of the status.

        Args:
            name: the claim.
            results: the devices.
            handles: the data for kubelet plugins, by driver.
            node: the only node that can use the claim; empty: all nodes.
            pod: the pod that is reserved in the same write.
        """
        await self.begin(name, node)
        claim = await self.get(name)
        parts = [
            part for driver, data in handles.items() for part in split_handle(driver, claim.metadata.uid, data)
        ]
        allocation: Json = {
            "devices": {"results": builtins(results), "config": builtins(parts)},
            "allocationTimestamp": rfc3339(datetime.now(UTC)),
        }
        if node:
            allocation["nodeSelector"] = builtins(NodeSelector.for_node(node))
        status: Json = {"allocation": allocation}
        if pod is not None:
            meta = pod["metadata"]
            status["reservedFor"] = [{"resource": "pods", "name": meta["name"], "uid": meta["uid"]}]
        await self._patch(claim, {"status": status}, "status")
        return await self.get(name)

    async def request_deallocation(self, name: str) -> None:
        """Set the condition on the claim's first device, as the scheduler does."""
        claim = await self.get(name)
        first = claim.results[0]
        condition = {
            "type": DEALLOCATION_REQUESTED,
            "status": "True",
            "reason": "Unavailable",
            "message": "no node fits the pod",
            "lastTransitionTime": rfc3339(datetime.now(UTC)),
        }
        entry = {"driver": first.driver, "pool": first.pool, "device": first.device, "conditions": [condition]}
        body = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": name, "namespace": self._namespace},
            "status": {"devices": [entry]},
        }
        await self._client.patch(
            CLAIMS, name, self._namespace, body, PatchKind.APPLY,
            into=dict, subresource="status", field_manager="scheduler", force=True,
        )  # fmt: skip

    async def clear_allocation(self, name: str) -> ResourceClaim:
        """Clear the allocation in one write, and return the claim as it is then."""
        await self._patch(await self.get(name), {"status": {"allocation": None}}, "status")
        return await self.get(name)

    async def end(self, name: str) -> None:
        """Delete the record, and remove the finalizer."""
        claim = await self.get(name)
        await self._client.delete(CONTROLLER_ALLOCATIONS, claim.metadata.uid, self._namespace)
        await self._patch(claim, {"metadata": {"finalizers": None}})

    async def _patch(self, claim: ResourceClaim, body: Json, subresource: str = "") -> None:
        meta = {**body.get("metadata", {}), "resourceVersion": claim.metadata.resource_version}
        await self._client.patch(
            CLAIMS, claim.metadata.name, self._namespace, {**body, "metadata": meta}, PatchKind.MERGE,
            into=dict, subresource=subresource,
        )  # fmt: skip
