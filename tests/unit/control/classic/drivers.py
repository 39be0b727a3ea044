"""A controller of classic claims in memory, as its vendor writes one, and a cluster with some."""

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import claims_of, consumer_of
from dradriver.control.classic.contexts import context_step
from dradriver.control.classic.values import AwaitedClaim, list_awaited
from dradriver.control.runtime.actions import NextAction, Step
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.controlled_claims import is_deallocation_requested
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.scheduling import ClaimSchedulingStatus, PodSchedulingContext, SchedulingStatus
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import (
    Allocation,
    ClaimStatus,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
)
from dradriver.testing import builders
from tests.unit.control.world import NOW, CrashError, World

__all__ = ["Driver", "bind_contexts", "classic_world", "is_allocated", "make_allocation"]


def make_allocation(
    claim: ResourceClaim,
    controller: str,
    node: str | None,
    *,
    devices: int = 1,
    shareable: bool = False,
) -> Allocation:
    """Return an allocation as a controller writes it.

    Args:
        claim: the claim.
        controller: the controller, which is also the name of the kubelet plugin.
        node: the only node that can use the claim. None: all nodes.
        devices: the number of devices, which no slice publishes.
        shareable: whether several pods may use the claim.
    """
    request = claim.spec.devices.requests[0].name
    results = [
        DeviceResult(
            request=request,
            driver=controller,
            pool=f"{controller}/pool",
            device=f"{claim.metadata.uid[:8]}-{i}",
        )
        for i in range(devices)
    ]
    return Allocation(
        devices=DeviceAllocation(
            results=results,
            config=split_handle(controller, claim.metadata.uid, b"handle", shareable=shareable),
        ),
        node_selector=None if node is None else NodeSelector.for_node(node),
        allocation_timestamp=NOW,
    )


@dataclass
class Driver:
    """A controller: `answer` and `allocate` are its reactions to the contexts of a world.

    Attributes:
        world: the cluster.
        name: the controller's name.
        unsuitable: the nodes on which it cannot allocate.
        devices: the number of devices of an allocation.
        shareable: whether several pods may use one of its claims.
        network: whether all nodes can use its claims.
    """

    world: World
    name: str
    unsuitable: set[str] = field(default_factory=set)
    devices: int = 1
    shareable: bool = False
    network: bool = False

    def pending(self, pod: Pod) -> list[tuple[str, ResourceClaim]]:
        """Return the pod's unallocated claims of this controller, each with its name in the pod."""
        found = []
        for wanted in pod.spec.resource_claims:
            claim = self.world.claims[f"default/{pod.claim_name(wanted)}"]
            controlled = self.world.snapshot().cluster.classic_classes.resolve(claim)
            if controlled is not None and controlled.controller == self.name and claim.allocation is None:
                found.append((wanted.name, claim))
        return found

    def answer(self, name: str = "pod-1", unsuitable: Collection[str] | None = None) -> None:
        """Answer about each pending claim of a pod, in one write."""
        pod = self.world.pod(name)
        nodes = sorted(self.unsuitable if unsuitable is None else unsuitable)
        context = self.world.contexts[pod.ref]
        names = {claim_name for claim_name, _ in self.pending(pod)}
        others = [each for each in context.status.resource_claims if each.name not in names]
        entries = [
            ClaimSchedulingStatus(name=each, controller_name=self.name, unsuitable_nodes=nodes)
            for each in sorted(names)
        ]
        status = SchedulingStatus(resource_claims=[*others, *entries])
        self.world.contexts[pod.ref] = replace(context, status=status)

    def allocate(self, name: str = "pod-1") -> bool:
        """Allocate the pending claims of a pod for the selected node, and reserve them in the same write.

        Returns:
            Whether something was allocated. If the node is unsuitable, the controller answers instead.
        """
        pod = self.world.pod(name)
        context = self.world.contexts.get(pod.ref)
        if context is None or not context.spec.selected_node or not context.is_for(pod.metadata.uid):
            return False
        node = context.spec.selected_node
        if node in self.unsuitable and context.spec.potential_nodes:
            self.answer(name)
            return False
        pending = self.pending(pod)
        for _, claim in pending:
            self.grant(claim.ref, node, pod)
        return bool(pending)

    def grant(self, ref: str, node: str | None, pod: Pod | None = None) -> None:
        """Write an allocation, with its finalizer and record."""
        claim = self.world.claims[ref]
        meta = claim.metadata
        spec = RecordedAllocation(
            claim_name=meta.name, claim_uid=meta.uid, controller_name=self.name, node=node or ""
        )
        self.world.records[meta.uid] = ControllerAllocation(
            metadata=ObjectMeta(name=meta.uid, namespace=meta.namespace), spec=spec
        )
        allocation = make_allocation(
            claim,
            self.name,
            None if self.network else node,
            devices=self.devices,
            shareable=self.shareable,
        )
        reserved = [*claim.status.reserved_for, *([consumer_of(pod)] if pod is not None else [])]
        self.world.claims[ref] = replace(
            claim,
            metadata=replace(meta, finalizers=[finalizer(self.name)]),
            status=ClaimStatus(allocation=allocation, reserved_for=reserved),
        )

    def deallocate(self) -> list[str]:
        """Deallocate the unused claims for which it is asked, and return their names."""
        done = []
        for ref, claim in self.world.claims.items():
            record = self.world.records.get(claim.metadata.uid)
            is_asked = is_deallocation_requested(claim) or (
                record is not None and record.status.deallocation_requested
            )
            if finalizer(self.name) in claim.metadata.finalizers and is_asked and not claim.status.reserved_for:
                meta = replace(claim.metadata, finalizers=[])
                self.world.claims[ref] = replace(claim, metadata=meta, status=ClaimStatus())
                self.world.records.pop(meta.uid, None)
                done.append(ref)
        return done


def classic_world(nodes: int = 3, *controllers: str) -> tuple[World, list[Driver]]:
    """Return a cluster with nodes, and a class and a driver for each controller.

    Each node has two devices of a slice, too, which the scheduler allocates for claims of `builders.CLASS`.
    """
    world = World()
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        world.add(builders.node(name))
        world.add(builders.slice_(*[builders.device(f"device-{i}") for i in range(2)], node_name=name))
    world.add(builders.device_class())
    drivers = []
    for controller in controllers or (builders.CONTROLLER,):
        world.add(builders.controller_class(controller, controller=controller))
        drivers.append(Driver(world, controller))
    return world, drivers


def bind_contexts(world: World) -> None:
    """Run the controller of contexts until nothing is left to do."""
    for _ in range(20):
        steps = [_context_step(world, ref) for ref in sorted({*world.pods, *world.contexts})]
        for step in steps:
            if step.action is not None:
                try:
                    world.apply(step.action)
                except CrashError:
                    world.crash()
        if not any(step.next is NextAction.CONTINUE for step in steps):
            return
    raise AssertionError("the controller of contexts does not end")


def _context_step(world: World, ref: str) -> Step:
    pod = world.pods.get(ref)
    awaited: tuple[AwaitedClaim, ...] = ()
    if pod is not None and pod.spec.node_name:
        classes = world.snapshot().cluster.classic_classes
        found = [classes.resolve(c) for c in claims_of(pod, world.claims) if c.allocation is None]
        awaited = list_awaited(pod, [each for each in found if each is not None and each.is_delayed])
    return context_step(pod, world.contexts.get(ref), awaited, world.deleted_pods)


def is_allocated(world: World, name: str) -> bool:
    """Return whether a claim is allocated."""
    return world.claims[f"default/{name}"].allocation is not None


def context_of(world: World, name: str = "pod-1") -> PodSchedulingContext:
    """Return the context of a pod."""
    return world.contexts[f"default/{name}"]
