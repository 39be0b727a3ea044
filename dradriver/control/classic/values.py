"""Classic claims, their classes, and whether a pod may reserve them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dradriver.control.claims.pod_claims import is_reserved_for
from dradriver.errors import InvalidObjectError
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import (
    ControlledClaim,
    find_allocating_controller,
    is_deallocation_requested,
    list_class_names,
    resolve,
)
from dradriver.model.classic.handles import ResourceHandle, is_handle
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.parameters import read_claim_parameters
from dradriver.model.classic.scheduling import ClaimSchedulingStatus, PodSchedulingContext
from dradriver.model.core.workload import Node, Pod
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = [
    "MUST_BE_REALLOCATED",
    "AwaitedClaim",
    "ClassicClasses",
    "ClassicObjects",
    "explain_unreservable",
    "find_answer",
    "is_controlled",
    "is_delayed",
    "is_shareable",
    "list_awaited",
    "must_be_deallocated",
]

MUST_BE_REALLOCATED: Final = "resourceclaim must be reallocated"
"""kube-scheduler's message for a claim that its controller must deallocate first."""


@dataclass(frozen=True, slots=True)
class AwaitedClaim:
    """A claim that a controller must allocate before its pod can run.

    Attributes:
        ref: `namespace/name` of the claim.
        uid: the UID of the claim.
        controller: the controller's name.
        pod_claims: the names of the claim in the pod's `spec.resourceClaims`. Usually there is one.
    """

    ref: str
    uid: str
    controller: str
    pod_claims: tuple[str, ...]

    def __str__(self) -> str:
        return f"driver {self.controller} for resourceclaim {self.ref}"


@dataclass(frozen=True, slots=True)
class ClassicObjects:
    """The objects of classic DRA that a decision about a pod reads.

    Attributes:
        context: the object that has the pod's name. It may belong to an earlier pod of this name.
        is_served: whether the API server serves `PodSchedulingContext`.
        records: the controllers' records of the pod's claims, by the claim's UID.
        nodes: the nodes by name. Only the wait for allocations reads them.
    """

    context: PodSchedulingContext | None = None
    is_served: bool = False
    records: Mapping[str, ControllerAllocation] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def context_of(self, pod: Pod) -> PodSchedulingContext | None:
        """Return the context of this pod; None if it has none, or if it belongs to another pod of this name.

        Args:
            pod: the pod.
        """
        context = self.context
        return context if context is not None and context.is_for(pod.metadata.uid) else None


class ClassicClasses:
    """The device classes of controllers, and the claims that request them. It is falsy if there is no class.

    The result about a claim is kept until a class of a controller changes, because the spec of a claim is
    immutable.
    """

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._known: dict[str, ControlledClaim | InvalidObjectError | None] = {}

    def __bool__(self) -> bool:
        return bool(self._classes)

    def put(self, device_class: DeviceClass) -> None:
        """Add or replace a device class; a class without an entry for a controller is not kept.

        Args:
            device_class: the class.
        """
        name = device_class.metadata.name
        if any(each.opaque is not None and each.opaque.driver == GROUP for each in device_class.spec.config):
            self._classes[name] = device_class
            self._known.clear()
        else:
            self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a device class; a no-op if it is unknown.

        Args:
            name: the name of the class.
        """
        if self._classes.pop(name, None) is not None:
            self._known.clear()

    def forget(self, claim: ResourceClaim) -> None:
        """Forget the result about a claim, because the claim is gone.

        Args:
            claim: the claim.
        """
        self._known.pop(claim.metadata.uid, None)

    def resolve(self, claim: ResourceClaim) -> ControlledClaim | None:
        """Return how a claim is allocated by a controller; None if no request names a class of a controller.

        Args:
            claim: the claim.

        Raises:
            InvalidObjectError: a class or the claim is wrong.
        """
        if not self._classes or self._classes.keys().isdisjoint(list_class_names(claim)):
            return None
        uid = claim.metadata.uid
        if uid not in self._known:
            self._known[uid] = self._evaluate(claim)
        known = self._known[uid]
        if isinstance(known, InvalidObjectError):
            raise known
        return None if known is None else replace(known, claim=claim)

    def _evaluate(self, claim: ResourceClaim) -> ControlledClaim | InvalidObjectError | None:
        try:
            return resolve(claim, self._classes)
        except InvalidObjectError as error:
            return error


def is_controlled(claim: ResourceClaim) -> bool:
    """Return whether a controller has allocated the claim, or has begun to; its classes may be gone.

    Only this controller deallocates such a claim.

    Args:
        claim: the claim.
    """
    return bool(claim.metadata.finalizers) and bool(find_allocating_controller(claim))


def is_delayed(claim: ResourceClaim) -> bool:
    """Return whether a classic claim is allocated only when a pod needs it; the class is not read."""
    try:
        entries = read_claim_parameters(claim)
    except InvalidObjectError:
        return False
    return all(entry.allocation_mode == "WaitForFirstConsumer" for entry in entries.values())


def is_shareable(claim: ResourceClaim) -> bool:
    """Return whether several pods may use an allocated claim: its controller wrote so in each handle."""
    configs = claim.allocation.devices.config if claim.allocation is not None else ()
    handles = [
        decode(ResourceHandle, bytes(each.opaque.parameters), f"handle of ResourceClaim {claim.ref}")
        for each in configs
        if each.opaque is not None and is_handle(each, each.opaque.driver)
    ]
    return bool(handles) and all(handle.shareable for handle in handles)


def must_be_deallocated(claim: ResourceClaim, record: ControllerAllocation | None) -> bool:
    """Return whether the scheduler asked to deallocate an allocated claim, in its status or in the record.

    Args:
        claim: the claim.
        record: the controller's record of the allocation. None: there is none.
    """
    return is_deallocation_requested(claim) or (record is not None and record.status.deallocation_requested)


def explain_unreservable(
    claim: ResourceClaim, pod: Pod, record: ControllerAllocation | None = None
) -> str | None:
    """Return why a pod must not reserve an allocated claim of a controller; None if it may.

    The result is None for a claim of the scheduler, and for a pod that has reserved the claim, unless the claim
    must be deallocated.

    Args:
        claim: the claim.
        pod: the pod.
        record: the controller's record of the allocation. None: there is none.

    Source: KEP-3063: "While DeallocationRequested is set, no new consumers may be added to ReservedFor."
    """
    if not is_controlled(claim):
        return None
    if must_be_deallocated(claim, record):
        return f"{MUST_BE_REALLOCATED} ({claim.ref} by driver {find_allocating_controller(claim)})"
    if is_reserved_for(claim, pod) or not claim.status.reserved_for:
        return None
    try:
        is_free = is_shareable(claim)
    except InvalidObjectError as error:
        return str(error)
    return None if is_free else f"resourceclaim in use ({claim.ref} is not shareable)"


def list_awaited(pod: Pod, claims: Sequence[ControlledClaim]) -> tuple[AwaitedClaim, ...]:
    """Return the claims for which the controllers wait for the selected node of a pod.

    Args:
        pod: the pod.
        claims: the unallocated claims of the pod that are not allocated immediately.
    """
    awaited = []
    for each in claims:
        meta = each.claim.metadata
        names = [wanted.name for wanted in pod.spec.resource_claims if pod.claim_name(wanted) == meta.name]
        awaited.append(AwaitedClaim(each.claim.ref, meta.uid, each.controller, tuple(names)))
    return tuple(awaited)


def find_answer(context: PodSchedulingContext | None, awaited: AwaitedClaim) -> ClaimSchedulingStatus | None:
    """Return a controller's answer about its claim; None if there is none."""
    if context is None:
        return None
    answers = (context.answer(name, awaited.controller) for name in awaited.pod_claims)
    return next((answer for answer in answers if answer is not None), None)
