"""A control plane with controllers of this SDK for the tests of KEP-3063.

There is no kubelet: a pod ends when a test deletes it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import dradriver as dra
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, PODS, TEMPLATES, PatchKind
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Affinity, Pod
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.caches import until_current
from tests.unit.classic.shelf import PLUGIN, Shelf, ShelfDriver, ShelfLab, class_of, laboratory
from tests.unit.classic.shelf import claim_of as claim_of_slots

__all__ = ["OTHER", "OTHER_CLASS", "ClassicPlane", "OtherDriver", "classic_plane"]

OTHER = "other.example.com"
OTHER_CLASS = "other-slots"


class OtherDriver(ShelfDriver):
    """A second controller.

    Attributes:
        is_optimistic: whether it calls no node unsuitable before its first allocation has failed.
    """

    name = OTHER

    def __init__(self, shelf: Shelf, *, is_optimistic: bool = False) -> None:
        super().__init__(shelf)
        self.is_optimistic = is_optimistic

    async def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        found = await super().allocate(claims, node)
        self.is_optimistic &= all(not isinstance(each, dra.AllocationError) for each in found.values())
        return found

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Any]:
        return {} if self.is_optimistic else super().unsuitable_nodes(pod, claims, nodes)

    def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
        devices = [dra.ControllerDevice("slot", PLUGIN, f"{OTHER}/{node}", f"slot-{claim.uid[:8]}")]
        return dra.ControllerAllocationResult(devices)


class ClassicPlane:
    """A laboratory with a scheduler.

    Attributes:
        lab: the API server and its objects.
        controllers: the control plane.
        shelf, other_shelf: the hardware of the two controllers.
    """

    def __init__(self, lab: ShelfLab, controllers: Controllers, stack: AsyncExitStack) -> None:
        self.lab = lab
        self.controllers = controllers
        self.shelf, self.other_shelf = Shelf(), Shelf()
        self._stack = stack

    async def start_driver(self, driver: dra.ControllerDriver | None = None) -> None:
        """Run a controller until the end of the test; by default the one of `shelf`."""
        await self._stack.enter_async_context(self.lab.driver(driver or ShelfDriver(self.shelf)))

    async def claim(self, name: str = "claim-1", **settings: Any) -> ResourceClaim:
        """Create a claim; the settings are those of `claim_of`."""
        return await self.lab.create_claim(name, **settings)

    async def template(self, name: str = "template", **settings: Any) -> None:
        """Create a template of such a claim."""
        body = claim_of_slots(name, **settings)
        template = {"metadata": body["metadata"], "spec": {"spec": body["spec"]}}
        await self.lab.client.create(TEMPLATES, template, "default", into=dict)

    async def pod(
        self,
        *claims: str,
        name: str = "pod-1",
        node: str = "",
        only_on: str = "",
        templates: Sequence[str] = (),
    ) -> Pod:
        """Create a pod.

        Args:
            claims: names of its claims.
            name: its name.
            node: `spec.nodeName`, for a pod that no scheduler has bound.
            only_on: the only node that the other constraints of the pod allow.
            templates: names of templates of its claims.
        """
        made = builders.pod(*claims, name=name, node_name=node, templates=templates)
        if only_on:
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [only_on]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            made = replace(
                made, spec=replace(made.spec, affinity=from_builtins(Affinity, {"nodeAffinity": required}))
            )
        stored = await self.lab.client.create(PODS, made, "default", into=Pod)
        self.lab.pods.apply_written(stored)
        return stored

    async def end(self, name: str = "pod-1") -> None:
        """Delete a pod at once, as after its containers have ended."""
        await self.lab.client.delete(PODS, name, "default", grace_seconds=0)

    async def bound(self, name: str = "pod-1") -> str:
        """Wait until the scheduler has bound the pod, and no claim is seen late; return the node."""
        node = await self.lab.until(lambda: self._node(name))
        await until_current(self.lab.client, self.lab.claims)
        return node

    def _node(self, name: str) -> str:
        pod = self.lab.pods.items.get(f"default/{name}")
        return pod.spec.node_name if pod is not None else ""

    async def refused(self, text: str, name: str = "pod-1") -> None:
        """Wait until the pod's condition contains a text."""

        def is_refused() -> bool:
            pod = self.lab.pods.items.get(f"default/{name}")
            return pod is not None and any(text in each.message for each in pod.status.conditions)

        await self.lab.until(is_refused)

    async def context(
        self, done: Callable[[PodSchedulingContext], object] = lambda _: True, name: str = "pod-1"
    ) -> PodSchedulingContext:
        """Wait until the pod has a context that satisfies a condition."""

        def found() -> PodSchedulingContext | None:
            each = self.lab.contexts.items.get(f"default/{name}")
            return each if each is not None and done(each) else None

        return await self.lab.until(found)

    async def until_released(self, claim: ResourceClaim) -> None:
        """Wait until nothing of a claim's allocation is left, in the hardware and in the API server."""
        uid = claim.metadata.uid

        def is_released() -> bool:
            stored = next((c for c in self.lab.claims.items.values() if c.metadata.uid == uid), None)
            is_clean = stored is None or (stored.allocation is None and self.lab.is_clean(stored))
            return is_clean and uid not in self.shelf.held and not self.lab.record(claim)

        await self.lab.until(is_released)

    async def delete_claim(self, name: str = "claim-1") -> None:
        """Delete a claim, as a user does."""
        await self.lab.client.delete(CLAIMS, name, "default")

    async def delete_class(self, name: str) -> None:
        """Delete a class, as an administrator does."""
        await self.lab.client.delete(CLASSES, name)

    async def patch_status(self, name: str, status: Mapping[str, object]) -> None:
        """Change the status of a claim, as another client does."""
        await self.lab.client.patch(
            *(CLAIMS, name, "default", {"status": status}, PatchKind.MERGE), into=dict, subresource="status"
        )


@asynccontextmanager
async def classic_plane(folder: Path, **settings: Any) -> AsyncIterator[ClassicPlane]:
    """Run a control plane with the nodes `node-1` and `node-2` and the classes of both controllers."""
    async with AsyncExitStack() as stack:
        lab = await stack.enter_async_context(laboratory(folder))
        await lab.client.create(CLASSES, class_of(OTHER_CLASS, OTHER), into=dict)
        chosen = {"pod_backoff": (0.05, 0.2), **settings}
        controllers = await stack.enter_async_context(Controllers(lab.client, SchedulerSettings(**chosen)))
        yield ClassicPlane(lab, controllers, stack)
