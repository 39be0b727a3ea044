"""From the amounts that containers ask for to requests of a claim, and the request of each container.

The rules are those of Kubernetes 1.37 (`createRequestsAndMappings`), because users and the kubelet see the
result:

- A request for each container and resource is named `container-I-request-M`. I counts init containers first. M
  is the position among *all* resources that the container requests, in the order of their names.
- Init containers that end before the others start use the devices of later containers, and of sidecars that
  start after them. Missing devices are requested once: these containers run one after the other, so the largest
  such request serves all of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from dradriver.control.extended.names import is_extended
from dradriver.model.core.workload import Container, Pod, RequestMapping
from dradriver.model.quantity import NANO, Quantity
from dradriver.model.resource.claim import DeviceRequest, ExactDeviceRequest

__all__ = ["Requests", "amounts_of", "completed", "requests_of"]

_NONE: Final = Quantity("0")


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a claim, and the containers that use them.

    Attributes:
        requests: by name.
        mappings: as `status.extendedResourceClaimStatus` has them.
    """

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[RequestMapping, ...] = ()

    @property
    def devices(self) -> int:
        """The number of requested devices."""
        return sum(_count(request) for request in self.requests)


@dataclass(slots=True)
class _OneResource:
    """The requests and mappings of one resource while they are collected."""

    resource: str
    class_name: str
    long_lived: dict[int, DeviceRequest] = field(default_factory=dict)
    short_lived: list[DeviceRequest] = field(default_factory=list)
    mappings: list[tuple[str, str]] = field(default_factory=list)

    def add(self, index: int, container: Container) -> None:
        """Add a container that keeps its devices as long as the pod lives."""
        if amount := _whole(container, self.resource):
            request = self.long_lived[index] = self._request(index, container, amount)
            self.mappings.append((container.name, request.name))

    def add_short_lived(self, index: int, container: Container) -> None:
        """Add an init container that ends before later ones start."""
        missing = _whole(container, self.resource)
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

    def done(self) -> Requests:
        """Return the requests and mappings.

        Keeps only the largest of the short-lived requests, and the first of equal ones.
        """
        largest = max(self.short_lived, key=_count, default=None)
        kept = [*self.long_lived.values(), *([largest] if largest else [])]
        stands_for = {request.name: largest.name for request in self.short_lived if largest}
        mappings = [
            RequestMapping(
                container_name=container,
                resource_name=self.resource,
                request_name=stands_for.get(request, request),
            )
            for container, request in self.mappings
        ]
        return Requests(tuple(kept), tuple(mappings))


def requests_of(pod: Pod, served: Mapping[str, str]) -> Requests:
    """Return the requests for the resources of a pod that devices serve.

    Args:
        pod: the pod.
        served: the names of these resources, with the class of each.
    """
    init, regular = pod.spec.init_containers, pod.spec.containers
    short_lived = [(i, container) for i, container in enumerate(init) if not is_sidecar(container)]
    long_lived = [(i, container) for i, container in enumerate(init) if is_sidecar(container)]
    long_lived += [(len(init) + i, container) for i, container in enumerate(regular)]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(served):
        one = _OneResource(resource, served[resource])
        for index, container in long_lived:
            one.add(index, container)
        for index, container in short_lived:
            one.add_short_lived(index, container)
        found = one.done()
        requests += found.requests
        mappings += found.mappings
    return Requests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def amounts_of(pod: Pod) -> Mapping[str, int]:
    """Return how much of each extended resource a pod takes at the same time, without amounts of zero.

    Regular containers and sidecars run together. An init container runs beside only those sidecars that come
    before it. Ephemeral containers ask for nothing. Source: `PodRequests` of component-helpers.
    """
    together = _sum(pod.spec.containers)
    sidecars: dict[str, int] = {}
    at_start: dict[str, int] = {}
    for container in pod.spec.init_containers:
        own = _sum([container])
        if is_sidecar(container):
            together, sidecars = _added(together, own), _added(sidecars, own)
            own = {}
        for name, amount in _added(sidecars, own).items():
            at_start[name] = max(at_start.get(name, 0), amount)
    return {
        name: amount
        for name in sorted({*together, *at_start})
        if (amount := max(together.get(name, 0), at_start.get(name, 0))) > 0
    }


def completed(pod: Pod) -> Pod:
    """Return the pod as the API server completes it: a limit without a request becomes a request too."""
    spec = pod.spec
    init, regular = ([_completed(each) for each in part] for part in (spec.init_containers, spec.containers))
    return replace(pod, spec=replace(spec, init_containers=init, containers=regular))


def _completed(container: Container) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    return replace(container, resources=replace(resources, requests=requests))


def is_sidecar(container: Container) -> bool:
    """Return whether an init container continues to run beside the others."""
    return container.restart_policy == "Always"


def class_backed(container: Container, names: Collection[str]) -> Sequence[str]:
    """Return the resources that a container asks for and that are among `names`."""
    return [name for name in sorted(container.resources.requests) if name in names and _whole(container, name)]


def _sum(containers: Iterable[Container]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        total = _added(total, dict(_extended(container)))
    return total


def _extended(container: Container) -> Iterator[tuple[str, int]]:
    for name, quantity in container.resources.requests.items():
        if is_extended(name):
            yield name, -(-quantity.nano // NANO)


def _added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _whole(container: Container, resource: str) -> int:
    """Return how many devices a container asks for. A fraction counts as none; no API server accepts one."""
    quantity = container.resources.requests.get(resource, _NONE)
    return quantity.nano // NANO if quantity.nano % NANO == 0 else 0


def _count(request: DeviceRequest) -> int:
    return request.exactly.count or 0 if request.exactly else 0
