"""Build objects for tests in one line, with defaults for the other fields.

The defaults fit together. A claim requests one device of the class `CLASS`, which selects all devices of the
driver `DRIVER`. The driver's slices are on the node `NODE`, in a pool with the node's name.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dradriver.driver import Config
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import API_VERSION, GROUP
from dradriver.model.classic.parameters import NEVER, AllocationTime, ControllerClaim, ControllerClass
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import (
    Container,
    ContainerResources,
    Node,
    Pod,
    PodClaim,
    PodSpec,
    ResourceClaimUse,
)
from dradriver.model.encoding.codec import builtins, canonical
from dradriver.model.quantity import QuantityLike
from dradriver.model.resource.claim import (
    Allocation,
    AllocationConfig,
    CelSelector,
    ClaimConfig,
    ClaimSpec,
    ClaimStatus,
    DeviceAllocation,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequests,
    DeviceResult,
    DeviceSelector,
    ExactDeviceRequest,
    OpaqueConfig,
    ResourceClaim,
)
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import AttributeLike, Device
from dradriver.model.resource.deviceclass import ClassConfig, DeviceClass, DeviceClassSpec
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec

__all__ = [
    "CLASS",
    "CONTROLLED_CLASS",
    "CONTROLLER",
    "DRIVER",
    "NODE",
    "allocated",
    "claim",
    "controller_claim",
    "controller_class",
    "device",
    "device_class",
    "device_request",
    "node",
    "opaque",
    "pod",
    "slice_",
]

DRIVER: Final = "driver.example.com"
CLASS: Final = DRIVER
CONTROLLER: Final = "controller.example.com"
CONTROLLED_CLASS: Final = CONTROLLER
NODE: Final = "node-1"
_DRA: Final = "resource.k8s.io/v1"


def device(
    name: str = "device-0",
    attributes: Mapping[str, AttributeLike] | None = None,
    capacity: Mapping[str, QuantityLike] | None = None,
) -> Device:
    """Return a device."""
    return Device(name, attributes or {}, capacity or {})


def slice_(
    *devices: Device,
    driver: str = DRIVER,
    node_name: str = NODE,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    counter_sets: Iterable[CounterSet] = (),
    name: str = "",
) -> ResourceSlice:
    """Return a ResourceSlice of a pool of one node; the default of `pool` is the node's name."""
    pool = pool or node_name
    return ResourceSlice(
        api_version=_DRA,
        kind="ResourceSlice",
        metadata=ObjectMeta(name=name or f"{pool}-{driver}"),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=PoolReference(name=pool, generation=generation, resource_slice_count=count),
            node_name=node_name,
            devices=list(devices),
            shared_counters=list(counter_sets),
        ),
    )


def device_class(name: str = CLASS, *selectors: str) -> DeviceClass:
    """Return a DeviceClass; without selectors, it selects all devices of the driver with the class's name."""
    expressions = selectors or (f'device.driver == "{name}"',)
    spec = DeviceClassSpec(selectors=[DeviceSelector(CelSelector(expression)) for expression in expressions])
    return DeviceClass(api_version=_DRA, kind="DeviceClass", metadata=ObjectMeta(name=name), spec=spec)


def controller_class(
    name: str = CONTROLLED_CLASS,
    *,
    controller: str = CONTROLLER,
    suitable_nodes: NodeSelector | None = None,
    parameters: Mapping[str, object] | None = None,
) -> DeviceClass:
    """Return a class whose claims a controller allocates (KEP-3063).

    Args:
        name: the name of the class.
        controller: the controller's name.
        suitable_nodes: the nodes on which the resource may be available. None: all nodes.
        parameters: parameters of the class for the controller.
    """
    entry = ControllerClass(
        controller_name=controller,
        suitable_nodes=suitable_nodes,
        parameters=msgspec.Raw(canonical(parameters)),
    )
    made = device_class(name, NEVER)
    spec = msgspec.structs.replace(made.spec, config=[ClassConfig(_classic(entry))])
    return msgspec.structs.replace(made, spec=spec)


def controller_claim(
    mode: AllocationTime = "WaitForFirstConsumer", parameters: Mapping[str, object] | None = None
) -> OpaqueConfig:
    """Return the parameters of a claim for its controller, as one of the `configs` of `claim()`.

    Args:
        mode: when the claim is allocated.
        parameters: parameters of the claim for the controller.
    """
    return _classic(ControllerClaim(allocation_mode=mode, parameters=msgspec.Raw(canonical(parameters))))


def _classic(entry: ControllerClass | ControllerClaim) -> OpaqueConfig:
    fields = {"apiVersion": API_VERSION, "kind": type(entry).__name__} | builtins(entry)
    return OpaqueConfig(GROUP, msgspec.Raw(canonical(fields)))


def device_request(
    class_name: str = CLASS, *selectors: str, name: str = "device", count: int = 1, all_devices: bool = False
) -> DeviceRequest:
    """Return a request for `count` or all devices of a class; the devices must satisfy the CEL selectors."""
    exactly = ExactDeviceRequest(
        device_class_name=class_name,
        selectors=[DeviceSelector(CelSelector(expression)) for expression in selectors],
        allocation_mode="All" if all_devices else "ExactCount",
        count=1 if all_devices else count,
    )
    return DeviceRequest(name, exactly)


def opaque(driver: str, config: Config) -> OpaqueConfig:
    """Return a configuration as users write it: with `apiVersion` and `kind`, as canonical JSON."""
    fields = {"apiVersion": config.api_version, "kind": config.kind} | builtins(config)
    return OpaqueConfig(driver, msgspec.Raw(canonical(fields)))


def claim(
    *requests: DeviceRequest,
    name: str = "claim-1",
    namespace: str = "default",
    constraints: Iterable[DeviceConstraint] = (),
    configs: Iterable[OpaqueConfig] = (),
) -> ResourceClaim:
    """Return an unallocated ResourceClaim with a new UID; by default it requests one device of `CLASS`."""
    devices = DeviceRequests(
        requests=list(requests or (device_request(),)),
        constraints=list(constraints),
        config=[ClaimConfig(opaque=config) for config in configs],
    )
    return ResourceClaim(
        api_version=_DRA,
        kind="ResourceClaim",
        metadata=ObjectMeta(name=name, namespace=namespace, uid=str(uuid.uuid4())),
        spec=ClaimSpec(devices),
    )


def allocated(
    wanted: ResourceClaim,
    *results: DeviceResult | str,
    driver: str = DRIVER,
    node_name: str = NODE,
    handles: Mapping[str, bytes] | None = None,
    shareable: bool = False,
) -> ResourceClaim:
    """Return the claim with an allocation, which is not checked.

    Args:
        wanted: the claim.
        results: the allocated devices. A string is the name of a device.
        driver: the driver of the devices that are given as strings.
        node_name: the node for which the claim is allocated. It is also the pool of devices that are given as
            strings.
        handles: the data that a `ControllerDriver` gives to kubelet plugins, by driver.
        shareable: whether several claims may use these devices of a controller.
    """
    request = wanted.spec.devices.requests[0].name
    listed = [
        DeviceResult(request=request, driver=driver, pool=node_name, device=result)
        if isinstance(result, str)
        else result
        for result in results
    ]
    config = [
        AllocationConfig(source="FromClaim", requests=each.requests, opaque=each.opaque)
        for each in wanted.spec.devices.config
    ]
    config += [
        part
        for name, data in (handles or {}).items()
        for part in split_handle(name, wanted.metadata.uid, data, shareable=shareable)
    ]
    allocation = Allocation(
        devices=DeviceAllocation(results=listed, config=config),
        node_selector=NodeSelector.for_node(node_name),
    )
    return msgspec.structs.replace(wanted, status=ClaimStatus(allocation=allocation))


def pod(
    *claims: str,
    name: str = "pod-1",
    namespace: str = "default",
    templates: Sequence[str] = (),
    node_name: str = "",
    image: str = "busybox:1.36",
    command: Sequence[str] = ("sleep", "3600"),
) -> Pod:
    """Return a pod with one container that uses existing claims and claims from templates, by name."""
    used = [PodClaim(name=f"claim-{i}", resource_claim_name=each) for i, each in enumerate(claims)]
    used += [
        PodClaim(name=f"template-{i}", resource_claim_template_name=each) for i, each in enumerate(templates)
    ]
    container = Container(
        name="main",
        image=image,
        command=list(command),
        resources=ContainerResources(claims=[ResourceClaimUse(each.name) for each in used]),
    )
    return Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(name=name, namespace=namespace, uid=str(uuid.uuid4())),
        spec=PodSpec(containers=[container], resource_claims=used, node_name=node_name),
    )


def node(name: str = NODE, **labels: str) -> Node:
    """Return a node."""
    return Node(api_version="v1", kind="Node", metadata=ObjectMeta(name=name, labels=labels))
