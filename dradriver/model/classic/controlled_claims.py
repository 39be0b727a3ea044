"""Decide which controller allocates a claim, and when."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, finalizer
from dradriver.model.classic.parameters import (
    AllocationTime,
    ControllerClaim,
    ControllerClass,
    read_claim_parameters,
    read_class_parameters,
)
from dradriver.model.names import base_request
from dradriver.model.resource.claim import DeviceRequest, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = [
    "ControlledClaim",
    "ControlledRequest",
    "find_allocating_controller",
    "is_deallocation_requested",
    "list_class_names",
    "resolve",
]

_FINALIZER_SUFFIX: Final = finalizer("")
_NO_ALTERNATIVES: Final = Problem("firstAvailable", "must not be set for a class of a controller")


@dataclass(frozen=True, slots=True)
class ControlledRequest:
    """One request of a classic claim, with what the controller must know.

    Attributes:
        name: the request's name.
        device_class: the name of its class.
        count: the number of devices.
        class_parameters: the controller's entry of the class.
        claim_parameters: the entry of the claim for this request; None if the claim has none.
    """

    name: str
    device_class: str
    count: int
    class_parameters: ControllerClass
    claim_parameters: ControllerClaim | None


@dataclass(frozen=True, slots=True)
class ControlledClaim:
    """A claim that a controller allocates.

    Attributes:
        claim: the claim.
        controller: the controller's name.
        mode: when it is allocated.
        requests: the requests, in the order of the claim.
    """

    claim: ResourceClaim
    controller: str
    mode: AllocationTime
    requests: tuple[ControlledRequest, ...] = field(compare=False)

    @property
    def is_delayed(self) -> bool:
        """Return whether the claim is allocated only when a pod needs it."""
        return self.mode == "WaitForFirstConsumer"

    def suits(self, node: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node selectors of the classes accept a node (`suitableNodes`).

        Args:
            node: the node's name.
            labels: the node's labels.
        """
        selectors = (request.class_parameters.suitable_nodes for request in self.requests)
        return all(selector is None or selector.matches(node, labels) for selector in selectors)


def resolve(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ControlledClaim | None:
    """Return how a claim is allocated by a controller; None if it is allocated from slices.

    A class that does not exist is not a class of a controller.

    Args:
        claim: the claim.
        classes: all classes by name.

    Raises:
        InvalidObjectError: a class or the claim is wrong; its requests have different controllers; some of its
            requests have a controller and others have none; or a request has selectors, tolerations
            or alternatives, which a controller does not evaluate.
    """
    found: dict[str, ControllerClass] = {}
    for name in list_class_names(claim):
        device_class = classes.get(name)
        if device_class is not None and (entry := read_class_parameters(device_class)) is not None:
            found[name] = entry
    if not found:
        return None
    parameters = read_claim_parameters(claim)
    requests, problems = [], []
    for index, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{index}]"
        exactly, problem = request.exactly, _find_problem(request, found)
        if exactly is None or problem is not None:
            problems.append((problem or _NO_ALTERNATIVES).under(path))
            continue
        name = exactly.device_class_name
        given = _parameters_of(request.name, parameters)
        requests.append(ControlledRequest(request.name, name, exactly.count, found[name], given))
    controllers = sorted({entry.controller_name for entry in found.values()})
    if len(controllers) > 1:
        rule = f"classes of one claim must have one controller, not {' and '.join(controllers)}"
        problems.append(Problem("spec.devices.requests", rule))
    if claim.spec.devices.constraints:
        problems.append(
            Problem("spec.devices.constraints", "must be empty: a controller does not evaluate them")
        )
    if problems:
        raise InvalidObjectError(f"ResourceClaim {claim.ref}", problems)
    mode = next(iter(parameters.values())).allocation_mode if parameters else "WaitForFirstConsumer"
    return ControlledClaim(claim, controllers[0], mode, tuple(requests))


def list_class_names(claim: ResourceClaim) -> Iterator[str]:
    """Yield the name of the class of each request and alternative of a claim, in order.

    Args:
        claim: the claim.
    """
    for request in claim.spec.devices.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None:
                yield each.device_class_name


def _find_problem(request: DeviceRequest, found: Mapping[str, ControllerClass]) -> Problem | None:
    """Return the rule that a request of a classic claim breaks."""
    exactly = request.exactly
    if exactly is None:
        return _NO_ALTERNATIVES
    if exactly.device_class_name not in found:
        rule = "must be a class of the controller, because another request of the claim has one"
        return Problem("exactly.deviceClassName", rule)
    unused = {
        "selectors": exactly.selectors,
        "tolerations": exactly.tolerations,
        "capacity": exactly.capacity,
        "derivedAttributes": exactly.derived_attributes,
        "adminAccess": exactly.admin_access,
    }
    for name, value in unused.items():
        if value:
            return Problem(f"exactly.{name}", "must not be set: a controller does not evaluate it")
    if exactly.allocation_mode != "ExactCount":
        return Problem("exactly.allocationMode", "must be ExactCount for a class of a controller")
    return None


def _parameters_of(
    request: str, parameters: Mapping[tuple[str, ...], ControllerClaim]
) -> ControllerClaim | None:
    """Return the entry for a request: an entry that names it wins over an entry for all requests."""
    named = (entry for requests, entry in parameters.items() if base_request(request) in requests)
    return next(named, parameters.get(()))


def find_allocating_controller(claim: ResourceClaim) -> str:
    """Return the controller that has begun to allocate the claim; empty if there is none.

    Source: `status.controllerName` of KEP-3063. It does not depend on classes, which may be gone.
    """
    names = (
        each.removesuffix(_FINALIZER_SUFFIX)
        for each in claim.metadata.finalizers
        if each.endswith(_FINALIZER_SUFFIX)
    )
    return next(names, "")


def is_deallocation_requested(claim: ResourceClaim) -> bool:
    """Return whether the scheduler asked to deallocate the claim (KEP-3063, `status.deallocationRequested`)."""
    return any(
        condition.type == DEALLOCATION_REQUESTED and condition.status == "True"
        for device in claim.status.devices
        for condition in device.conditions
    )
