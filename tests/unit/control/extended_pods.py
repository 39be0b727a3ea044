"""Pods with extended resources, nodes with device plugins, and classes that serve both."""

from datetime import datetime
from typing import Final, TypedDict, Unpack

from msgspec.structs import replace

from dradriver.model.core.workload import Container, ContainerResources, Node, NodeStatus, Pod
from dradriver.model.quantity import Quantity
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.testing import builders
from tests.unit.control.world import NOW

GPU: Final = "example.com/gpu"
NIC: Final = "example.com/nic"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{builders.CLASS}"


class Amounts(TypedDict, total=False):
    """The requests of a container; `gpu`, `nic` and `implicit` are extended resources."""

    gpu: int
    nic: int
    implicit: int
    cpu: int
    memory: int


def container(name: str = "main", *, sidecar: bool = False, **amounts: Unpack[Amounts]) -> Container:
    """Return a container with these requests."""
    names = {"gpu": GPU, "nic": NIC, "implicit": IMPLICIT}
    requests = {names.get(key, key): Quantity(n) for key, n in amounts.items() if isinstance(n, int)}
    resources = ContainerResources(requests=requests, limits=requests)
    policy = "Always" if sidecar else ""
    return Container(name=name, image="busybox", resources=resources, restart_policy=policy)


def pod(name: str = "pod-1", *, init: tuple[Container, ...] = (), **amounts: Unpack[Amounts]) -> Pod:
    """Return a pod with one container with these requests, and with init containers."""
    made = builders.pod(name=name)
    spec = replace(made.spec, containers=[container(**amounts)], init_containers=list(init))
    return replace(made, spec=spec)


def plugin_node(name: str, amount: int, resource: str = GPU) -> Node:
    """Return a node with a device plugin for an extended resource."""
    amounts = {resource: Quantity(amount)}
    return replace(builders.node(name), status=NodeStatus(capacity=amounts, allocatable=amounts))


def gpu_class(
    name: str = builders.CLASS, resource: str | None = GPU, created: datetime | None = NOW
) -> DeviceClass:
    """Return a class of the driver's devices that serves an extended resource."""
    made = builders.device_class(name, f'device.driver == "{builders.DRIVER}"')
    return replace(
        made,
        metadata=replace(made.metadata, creation_timestamp=created),
        spec=replace(made.spec, extended_resource_name=resource),
    )
