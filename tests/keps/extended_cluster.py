"""Nodes with device plugins, nodes with DRA devices, and pods that request an extended resource."""

from typing import Any, Final

import yaml

from dradriver.kube import CLAIMS, NODES, PODS, SLICES, NotFound, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import EXTENDED_CLAIM_ANNOTATION, ResourceClaim
from tests.keps.conftest import ControlPlane

EXPLICIT: Final = "example.com/gpu"
CLASS: Final = "gpu.example.com"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{CLASS}"
DRIVER: Final = "gpu.example.com"


class ExtendedCluster:
    """A control plane in which pods request `resource`.

    Attributes:
        plane: the control plane.
        resource: the explicit name that the class carries, or the implicit one of a class that carries none.
    """

    def __init__(self, plane: ControlPlane, resource: str) -> None:
        self.plane = plane
        self.resource = resource

    async def device_class(self, name: str = CLASS, resource: str | None = None) -> dict[str, Any]:
        """Apply the class; return it as it was stored."""
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
        named = resource if resource is not None else self.resource
        if named and named != IMPLICIT:
            spec["extendedResourceName"] = named
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
        (stored,) = await self.plane.apply(yaml.safe_dump({**body, "spec": spec}))
        return stored

    async def plugin_node(self, name: str, amount: int) -> None:
        """Create or change a node on which a device plugin advertises the resource."""
        await self.plane.apply(f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}")
        amounts = {self.resource: str(amount)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.plane.client.patch(NODES, name, "", status, PatchKind.MERGE, into=dict, subresource="status")
        await self.plane.until_known()

    async def dra_node(self, name: str, devices: int) -> None:
        """Create a node with devices of a DRA driver."""
        await self.plane.apply(f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}}}")
        spec = {
            "driver": DRIVER,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": name,
            "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
        }
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
        await self.plane.apply(yaml.safe_dump({**body, "spec": spec}))

    async def remove_driver(self, name: str) -> None:
        """Remove the DRA driver of a node with its slice; wait until the scheduler knows."""
        await self.plane.client.delete(SLICES, name)
        await self.plane.until_known()

    async def pod(self, name: str, count: int = 1, resource: str = "") -> None:
        """Create a pod with the extended resource."""
        limits = {resource or self.resource: str(count)}
        container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        await self.plane.apply(yaml.safe_dump({**body, "spec": {"containers": [container]}}))

    async def bound(self, name: str) -> Pod:
        """Wait until the pod has a node."""
        ref = f"default/{name}"
        await self.plane.until(lambda pods, _: ref in pods and bool(pods[ref].spec.node_name))
        return await self.plane.client.get(PODS, name, "default", into=Pod)

    async def create_bound_pod(self, name: str, count: int = 1) -> Pod:
        """Create a pod and wait until it has a node."""
        await self.pod(name, count)
        return await self.bound(name)

    async def special_claim(self, pod: Pod) -> ResourceClaim:
        """Return the claim that the pod's status names, after checks of allocation, owner and annotation."""
        status = pod.status.extended_resource_claim_status
        assert status is not None
        claim = await self.plane.client.get(CLAIMS, status.resource_claim_name, "default", into=ResourceClaim)
        assert claim.metadata.annotations[EXTENDED_CLAIM_ANNOTATION] == "true"
        assert claim.metadata.controller is not None
        assert claim.metadata.controller.uid == pod.metadata.uid
        assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]
        return claim

    async def special_claims(self) -> list[str]:
        """Return the names of all special claims."""
        items = (await self.plane.client.list(CLAIMS, into=ResourceClaim)).items
        marked = (c for c in items if EXTENDED_CLAIM_ANNOTATION in c.metadata.annotations)
        return sorted(claim.metadata.name for claim in marked)

    async def delete(self, *pods: str) -> None:
        """Delete pods and wait until their claims are gone."""
        refs = {f"default/{name}" for name in pods}
        known = [await self.plane.client.get(PODS, name, "default", into=Pod) for name in pods]
        uids = {pod.metadata.uid for pod in known}
        for name in pods:
            await self.plane.client.delete(PODS, name, "default", grace_seconds=0)
        await self.plane.until(
            lambda seen, claims: (
                not refs & seen.keys()
                and not any(
                    c.metadata.controller and c.metadata.controller.uid in uids for c in claims.values()
                )
            )
        )

    async def gone(self, claim: str) -> bool:
        try:
            await self.plane.client.get(CLAIMS, claim, "default", into=ResourceClaim)
        except NotFound:
            return True
        return False
