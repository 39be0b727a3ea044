"""Convert the amounts that containers request to requests of a claim, and map them to the containers.

The rules are those of Kubernetes 1.37 (`createRequestsAndMappings`), because users and the kubelet read the
result:

- The request for a container and a resource is named `container-I-request-M`. I is the index of the container;
  init containers are counted first. M is the index of the resource among *all* resources that the container
  requests, sorted by name.
- An init container that is not a sidecar ends before later containers start. So it uses the devices of later
  containers and later sidecars. If it needs more devices, they are requested in addition. These init containers
  run one after the other, so the largest of their requests serves all of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from dradriver.model.core.workload import Container, Pod, RequestMapping
from dradriver.model.extended_names import is_extended
from dradriver.model.quantity import NANO, Quantity
from dradriver.model.resource.claim import DeviceRequest, ExactDeviceRequest

__all__ = ["Requests", "build_requests", "complete_requests", "requested_amounts"]

_NONE: Final = Quantity("0")


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a claim, and the containers that use them.

    Attributes:
        requests: the requests of the claim, sorted by name.
        mappings: the request of each container, in the form of `status.extendedResourceClaimStatus`.
    """

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[RequestMapping, ...] = ()

    @property
    def devices(self) -> int:
        """The number of requested devices."""
        return sum(_count(request) for request in self.requests)


@dataclass(slots=True)
class _ResourceRequests:
    """Collects the requests and mappings of one resource."""

    resource: str
    class_name: str
    long_lived: dict[int, DeviceRequest] = field(default_factory=dict)
    short_lived: list[DeviceRequest] = field(default_factory=list)
    mappings: list[tuple[str, str]] = field(default_factory=list)

    def add(self, index: int, container: Container) -> None:
        """Add a regular container or a sidecar, which keeps its devices as long as the pod runs."""
        if amount := _device_count(container, self.resource):
            request = self.long_lived[index] = self._request(index, container, amount)
            self.mappings.append((container.name, request.name))

    def add_short_lived(self, index: int, container: Container) -> None:
        """Add an init container that ends before later containers start."""
        missing = _device_count(container, self.resource)
        for later in sorted(self.long_lived):
            if later >= index and missing > 0:
                self.mappings.append((container.name, self.long_lived[later].name))
                missing -= _count(self.long_lived[later])
        if missing > 0:
            request = self._request(index, container, missing)
            self.short_lived.append(request)
            self.mappings.append((container.name, request.name))

    def _request(self, index: int, container: Container, count: int) -> DeviceRequest:
        position = sorted(container.resources.requests).index(self.resource)
        exactly = ExactDeviceRequest(
            device_class_name=self.class_name, allocation_mode="ExactCount", count=count
        )
        return DeviceRequest(f"container-{index}-request-{position}", exactly)

    def build(self) -> Requests:
        """Return the requests and mappings.

        Of the short-lived requests, only the largest is kept. If several are equally large, the first is kept.
        """
        largest = max(self.short_lived, key=_count, default=None)
        kept = [*self.long_lived.values(), *([largest] if largest else [])]
        replaced_by = {request.name: largest.name for request in self.short_lived if largest}
        mappings = [
            RequestMapping(
                container_name=container,
                resource_name=self.resource,
                request_name=replaced_by.get(request, request),
            )
            for container, request in self.mappings
        ]
        return Requests(tuple(kept), tuple(mappings))


def build_requests(pod: Pod, served: Mapping[str, str]) -> Requests:
    """Return the requests for the resources of a pod that devices serve.

    Args:
        pod: the pod.
        served: the resources that devices serve, each with the name of its class.
    """
    init, regular = pod.spec.init_containers, pod.spec.containers
    short_lived = [(i, container) for i, container in enumerate(init) if not is_sidecar(container)]
    long_lived = [(i, container) for i, container in enumerate(init) if is_sidecar(container)]
    long_lived += [(len(init) + i, container) for i, container in enumerate(regular)]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(served):
        one = _ResourceRequests(resource, served[resource])
        for index, container in long_lived:
            one.add(index, container)
        for index, container in short_lived:
            one.add_short_lived(index, container)
        built = one.build()
        requests += built.requests
        mappings += built.mappings
    return Requests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def requested_amounts(pod: Pod) -> Mapping[str, int]:
    """Return how much of each extended resource a pod needs at the same time, without amounts of zero.

    Regular containers and sidecars run together. An init container runs together with the sidecars before it.
    Ephemeral containers request no resources.

    Args:
        pod: a pod that the API server has completed, or the result of `complete_requests`.

    Returns:
        Positive amounts by resource name. A fraction is rounded up.

    Source: `PodRequests` of component-helpers.
    """
    together = _sum_amounts(pod.spec.containers)
    sidecars: dict[str, int] = {}
    at_start: dict[str, int] = {}
    for container in pod.spec.init_containers:
        own = _sum_amounts([container])
        if is_sidecar(container):
            together, sidecars = _add_amounts(together, own), _add_amounts(sidecars, own)
            own = {}
        for name, amount in _add_amounts(sidecars, own).items():
            at_start[name] = max(at_start.get(name, 0), amount)
    return {
        name: amount
        for name in sorted({*together, *at_start})
        if (amount := max(together.get(name, 0), at_start.get(name, 0))) > 0
    }


def complete_requests(pod: Pod) -> Pod:
    """Return the pod as the API server completes it: a limit without a request is also a request.

    Args:
        pod: a pod as a user writes it.
    """
    spec = pod.spec
    init, regular = (
        [_complete_container(each) for each in part] for part in (spec.init_containers, spec.containers)
    )
    return replace(pod, spec=replace(spec, init_containers=init, containers=regular))


def _complete_container(container: Container) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    return replace(container, resources=replace(resources, requests=requests))


def is_sidecar(container: Container) -> bool:
    """Return whether an init container continues to run while later containers run."""
    return container.restart_policy == "Always"


def class_backed_resources(container: Container, names: Collection[str]) -> Sequence[str]:
    """Return the resources that a container requests and that are among `names`, sorted."""
    return [
        name
        for name in sorted(container.resources.requests)
        if name in names and _device_count(container, name)
    ]


def _sum_amounts(containers: Iterable[Container]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        total = _add_amounts(total, dict(_extended_amounts(container)))
    return total


def _extended_amounts(container: Container) -> Iterator[tuple[str, int]]:
    for name, quantity in container.resources.requests.items():
        if is_extended(name):
            yield name, -(-quantity.nano // NANO)


def _add_amounts(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _device_count(container: Container, resource: str) -> int:
    """Return how many devices a container requests; 0 for a fraction, because claims request whole devices."""
    quantity = container.resources.requests.get(resource, _NONE)
    return quantity.nano // NANO if quantity.nano % NANO == 0 else 0


def _count(request: DeviceRequest) -> int:
    return request.exactly.count or 0 if request.exactly else 0
