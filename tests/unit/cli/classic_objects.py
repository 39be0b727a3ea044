"""Objects of classic DRA (KEP-3063) for commands."""

from collections.abc import Sequence

from msgspec.structs import replace

from dradriver.model.classic.allocation_records import (
    AllocationRequest,
    ControllerAllocation,
    RecordedAllocation,
)
from dradriver.model.classic.names import API_VERSION, DEALLOCATION_REQUESTED, finalizer
from dradriver.model.classic.parameters import AllocationTime
from dradriver.model.classic.scheduling import (
    ClaimSchedulingStatus,
    PodSchedulingContext,
    SchedulingSpec,
    SchedulingStatus,
)
from dradriver.model.core.meta import Condition, ObjectMeta, OwnerReference
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import AllocatedDeviceStatus, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.testing.builders import claim, controller_claim, controller_class, device_request

CONTROLLER = "fabric.example.com"
OTHER = "license.example.com"


def classic_class(controller: str = CONTROLLER, suitable_nodes: NodeSelector | None = None) -> DeviceClass:
    """Return a class with the controller's name, whose claims the controller allocates."""
    return controller_class(controller, controller=controller, suitable_nodes=suitable_nodes)


def classic_claim(
    name: str = "claim-1",
    controller: str = CONTROLLER,
    mode: AllocationTime | None = None,
    *,
    begun: bool = False,
) -> ResourceClaim:
    """Return a claim for a class of the controller.

    Args:
        name: the name.
        controller: the controller, which is also the name of the class.
        mode: `allocationMode`. None: the claim has no entry for its controller.
        begun: whether the controller has added its finalizer.
    """
    configs = [] if mode is None else [controller_claim(mode)]
    made = claim(device_request(controller), name=name, configs=configs)
    if begun:
        made = replace(made, metadata=replace(made.metadata, finalizers=[finalizer(controller)]))
    return made


def requested(made: ResourceClaim) -> ResourceClaim:
    """Return an allocated claim whose deallocation is requested."""
    (result, *_) = made.results
    condition = Condition(type=DEALLOCATION_REQUESTED, status="True", reason="Unschedulable", message="")
    entry = AllocatedDeviceStatus(
        driver=result.driver, pool=result.pool, device=result.device, conditions=[condition]
    )
    return replace(made, status=replace(made.status, devices=[entry]))


def context(
    pod: Pod,
    *answers: ClaimSchedulingStatus,
    potential: Sequence[str] = (),
    selected: str = "",
    generation: int = 1,
    uid: str | None = None,
) -> PodSchedulingContext:
    """Return the negotiation about a pod."""
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid if uid is None else uid
    )
    meta = ObjectMeta(
        name=pod.metadata.name, namespace="default", generation=generation, owner_references=[owner]
    )
    return PodSchedulingContext(
        api_version=API_VERSION,
        kind="PodSchedulingContext",
        metadata=meta,
        spec=SchedulingSpec(selected_node=selected, potential_nodes=list(potential)),
        status=SchedulingStatus(resource_claims=list(answers)),
    )


def answer(name: str, *unsuitable: str, controller: str = CONTROLLER) -> ClaimSchedulingStatus:
    """Return a controller's answer about a claim."""
    return ClaimSchedulingStatus(name=name, controller_name=controller, unsuitable_nodes=list(unsuitable))


def record(made: ResourceClaim, node: str = "", *, requested: bool = False) -> ControllerAllocation:
    """Return the controller's record of the allocation of a claim."""
    uid = made.metadata.uid
    return ControllerAllocation(
        api_version=API_VERSION,
        kind="ControllerAllocation",
        metadata=ObjectMeta(name=uid, namespace="default"),
        spec=RecordedAllocation(
            claim_name=made.metadata.name, claim_uid=uid, controller_name=CONTROLLER, node=node
        ),
        status=AllocationRequest(deallocation_requested=requested),
    )


def lease(name: str = CONTROLLER) -> dict[str, object]:
    """Return the Lease that a running controller holds."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default"},
    }


def nodes_with(label: str, value: str) -> NodeSelector:
    """Return a selector of the nodes with a label."""
    term = {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
    return from_builtins(NodeSelector, {"nodeSelectorTerms": [term]})
