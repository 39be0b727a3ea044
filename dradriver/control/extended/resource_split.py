"""Divide a pod's extended resources between a node's device plugins and its devices."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.requests import Requests, build_requests
from dradriver.model.core.workload import Node, Pod
from dradriver.model.quantity import NANO
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = [
    "ResourceSplit",
    "Unservable",
    "allocatable_amount",
    "find_excess",
    "find_fraction",
    "split_resources",
]

_MAX_REQUESTS = 32
"""The maximum number of requests of a claim (`DeviceRequestsMaxSize`)."""


class Unservable(Exception):  # noqa: N818 - a finding
    """No claim can request the devices that the pod needs; the message is the reason."""


@dataclass(frozen=True, slots=True)
class ResourceSplit:
    """The sources of a pod's extended resources on a node.

    Attributes:
        insufficient: the resources for which the node's device plugins have too little left, and the resources
            that neither a device plugin nor devices serve.
        requests: the requests for devices. Empty if device plugins serve all resources.
    """

    insufficient: tuple[str, ...]
    requests: Requests


def split_resources(
    pod: Pod, amounts: Mapping[str, int], node: Node, in_use: Mapping[str, int], classes: ClassesByResource
) -> ResourceSplit:
    """Divide the amounts that a pod requests between the node's device plugins and its devices.

    If the node advertises a resource, its device plugin serves the resource, even if too little is left. Any
    other resource is requested from devices if a class serves the resource.

    Args:
        pod: a pod whose limits are also requests (`complete_requests`).
        amounts: the amounts of the pod, from `requested_amounts`.
        node: the node with `status.allocatable`.
        in_use: the amounts that the pods on the node request, by resource name.
        classes: the device classes by the extended resources that they serve.

    Returns:
        The resources that are insufficient, and the requests for devices.

    Raises:
        Unservable: the pod needs more devices or requests than a claim can have, or a fraction of a device.

    Source: `NodeResourcesFit` and `DynamicResources` of Kubernetes 1.37.
    """
    insufficient: list[str] = []
    served: dict[str, str] = {}
    for name, amount in amounts.items():
        advertised = allocatable_amount(node, name)
        class_name = classes.class_name(name)
        if advertised == 0 and class_name is not None:
            served[name] = class_name
        elif amount > advertised - in_use.get(name, 0):
            insufficient.append(name)
    if problem := find_fraction(pod, served):
        raise Unservable(problem)
    requests = build_requests(pod, served) if served else Requests()
    if problem := find_excess(requests):
        raise Unservable(problem)
    return ResourceSplit(tuple(insufficient), requests)


def allocatable_amount(node: Node, name: str) -> int:
    """Return how much of a resource the node's device plugins offer, rounded up; 0 if none offers it.

    Args:
        node: the node with `status.allocatable`.
        name: an extended resource name.
    """
    quantity = node.status.allocatable.get(name)
    return -(-quantity.nano // NANO) if quantity is not None else 0


def find_fraction(pod: Pod, served: Collection[str]) -> str | None:
    """Return the error of a container that requests a fraction of a device; None if there is none.

    The API server allows a fraction for implicit names.
    """
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for name, quantity in container.resources.requests.items():
            if name in served and quantity.nano % NANO:
                return f"container {container.name}: {name}: {quantity}: must be a whole number of devices"
    return None


def find_excess(requests: Requests) -> str | None:
    """Return an error if the requests exceed a limit of a claim; None if they do not."""
    if requests.devices > MAX_RESULTS:
        return f"extended resources: {requests.devices} devices: a claim must have at most {MAX_RESULTS}"
    if len(requests.requests) > _MAX_REQUESTS:
        return (
            f"extended resources: {len(requests.requests)} requests: a claim must have at most {_MAX_REQUESTS}"
        )
    return None
