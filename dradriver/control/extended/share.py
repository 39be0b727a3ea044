"""Which of a pod's extended resources a node's device plugins serve, and which its devices have to."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dradriver.control.extended.classes import ClassesByResource
from dradriver.control.extended.requests import Requests, requests_of
from dradriver.model.core.workload import Node, Pod
from dradriver.model.quantity import NANO
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["MAX_REQUESTS", "Share", "Unservable", "allocatable", "in_parts", "share_of", "too_many"]

MAX_REQUESTS = 32
"""The maximum number of requests of a claim (`DeviceRequestsMaxSize`)."""


class Unservable(Exception):  # noqa: N818 - a finding
    """No claim can request the devices, on any node. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Share:
    """How a node serves a pod's extended resources.

    Attributes:
        insufficient: resources of which the node's device plugins have too little left, and resources that
            nothing serves there.
        requests: the requests for devices; empty where device plugins serve everything.
    """

    insufficient: tuple[str, ...]
    requests: Requests


def share_of(
    pod: Pod, amounts: Mapping[str, int], node: Node, taken: Mapping[str, int], classes: ClassesByResource
) -> Share:
    """Divide the amounts that a pod asks for between the node's device plugins and its devices.

    A resource that the node advertises belongs to its device plugin, even if too little of it is left. Any
    other resource is requested from devices if a class serves it (`NodeResourcesFit` and `DynamicResources` of
    Kubernetes 1.37).

    Args:
        pod: the pod.
        amounts: its amounts, from `amounts_of`.
        node: the node.
        taken: the amounts of the pods on the node.
        classes: all classes.

    Raises:
        Unservable: no claim can hold that many devices or requests, or the pod asks for a part of a device.
    """
    insufficient: list[str] = []
    served: dict[str, str] = {}
    for name, amount in amounts.items():
        advertised = allocatable(node, name)
        class_name = classes.class_name(name)
        if advertised == 0 and class_name is not None:
            served[name] = class_name
        elif amount > advertised - taken.get(name, 0):
            insufficient.append(name)
    if problem := in_parts(pod, served):
        raise Unservable(problem)
    requests = requests_of(pod, served) if served else Requests()
    if problem := too_many(requests):
        raise Unservable(problem)
    return Share(tuple(insufficient), requests)


def allocatable(node: Node, name: str) -> int:
    """Return how much of a resource the node's device plugins offer."""
    quantity = node.status.allocatable.get(name)
    return -(-quantity.nano // NANO) if quantity is not None else 0


def in_parts(pod: Pod, served: Collection[str]) -> str | None:
    """Return which container asks for a part of a device. The API server allows that for implicit names."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for name, quantity in container.resources.requests.items():
            if name in served and quantity.nano % NANO:
                return f"container {container.name} asks for {quantity} {name}, but devices are whole"
    return None


def too_many(requests: Requests) -> str | None:
    """Return why the requests do not fit into a claim, on any node; None if they do."""
    if requests.devices > MAX_RESULTS:
        return f"extended resources need {requests.devices} devices, a claim holds at most {MAX_RESULTS}"
    if len(requests.requests) > MAX_REQUESTS:
        return f"extended resources make {len(requests.requests)} requests, a claim has at most {MAX_REQUESTS}"
    return None
