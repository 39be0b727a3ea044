"""Classic claims: the claims that a controller allocates."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dradriver.errors import InvalidObjectError
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import (
    ControlledClaim,
    find_allocating_controller,
    is_deallocation_requested,
    resolve,
)
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.parameters import AllocationTime, read_claim_parameters
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["ClassicClaim", "ClassicClaims", "ClassicState"]

ClassicState: TypeAlias = Literal["pending", "allocating", "allocated", "deallocating"]


@dataclass(frozen=True, slots=True)
class ClassicClaim:
    """A claim that a controller allocates.

    Attributes:
        claim: the claim.
        controller: the name of the controller. If a controller has begun to allocate the claim, its name, even
            if the class has changed since then.
        mode: when the claim is allocated.
        controlled: the claim with its requests; None if its classes do not exist any more.
        record: the controller's record of the allocation; None if there is none, or if it cannot be read.
    """

    claim: ResourceClaim
    controller: str
    mode: AllocationTime
    controlled: ControlledClaim | None = None
    record: ControllerAllocation | None = None

    @property
    def is_delayed(self) -> bool:
        """Whether the claim is allocated only when a pod needs it."""
        return self.mode == "WaitForFirstConsumer"

    @property
    def is_begun(self) -> bool:
        """Whether a controller has begun to allocate the claim and has not released it since then."""
        return bool(find_allocating_controller(self.claim))

    @property
    def is_deallocation_requested(self) -> bool:
        """Whether the scheduler asked the controller to deallocate the claim."""
        return is_deallocation_requested(self.claim) or (
            self.record is not None and self.record.status.deallocation_requested
        )

    def suits(self, node: str, labels: Mapping[str, str]) -> bool:
        """Return whether the classes of the claim accept a node (`suitableNodes`).

        Args:
            node: the node's name.
            labels: the node's labels.
        """
        return self.controlled is None or self.controlled.suits(node, labels)

    @property
    def state(self) -> ClassicState:
        """The state of the claim. While it is deleted, or its deallocation is requested: `deallocating`.

        A claim with the finalizer of a controller and without an allocation is `allocating`, also while the
        controller finishes a release: the objects do not show the difference.
        """
        if self.is_deallocation_requested:
            return "deallocating"
        if self.claim.metadata.deletion_timestamp is not None and (self.is_begun or self.claim.allocation):
            return "deallocating"
        if self.claim.allocation is not None:
            return "allocated"
        return "allocating" if self.is_begun else "pending"


class ClassicClaims:
    """Finds the classic claims of a cluster.

    Args:
        classes: all classes by name.
        records: the controllers' records of their allocations.
    """

    def __init__(
        self, classes: Mapping[str, DeviceClass], records: Iterable[ControllerAllocation] = ()
    ) -> None:
        self._classes = {name: each for name, each in classes.items() if _is_classic(each)}
        self._all_classes = classes
        self._records = {each.spec.claim_uid: each for each in records if each.spec.claim_uid}

    def find(self, claim: ResourceClaim) -> ClassicClaim | None:
        """Return how a controller allocates the claim; None if the claim is allocated from slices.

        Args:
            claim: the claim.

        Raises:
            InvalidObjectError: the claim or one of its classes breaks a rule of classic claims.
        """
        begun = find_allocating_controller(claim)
        record = self._records.get(claim.metadata.uid)
        controlled = resolve(claim, self._all_classes) if self._may_be_classic(claim) else None
        if controlled is not None:
            return ClassicClaim(claim, begun or controlled.controller, controlled.mode, controlled, record)
        if not begun:
            return None
        entries = read_claim_parameters(claim)
        mode = next(iter(entries.values())).allocation_mode if entries else "WaitForFirstConsumer"
        return ClassicClaim(claim, begun, mode, record=record)

    def find_valid(self, claim: ResourceClaim) -> ClassicClaim | None:
        """Return the same as `find`; None also for a claim that breaks a rule.

        Args:
            claim: the claim.
        """
        try:
            return self.find(claim)
        except InvalidObjectError:
            return None

    def find_error(self, claim: ResourceClaim) -> str:
        """Return the rule of classic claims that a claim or one of its classes breaks; empty if there is none.

        Args:
            claim: the claim.
        """
        try:
            self.find(claim)
        except InvalidObjectError as error:
            return str(error)
        return ""

    def _may_be_classic(self, claim: ResourceClaim) -> bool:
        """Return whether a class of the claim is classic, at a low cost: simulations have many claims."""
        return bool(self._classes) and any(
            each.device_class_name in self._classes
            for request in claim.spec.devices.requests
            for each in (request.exactly, *request.first_available)
            if each is not None
        )


def _is_classic(device_class: DeviceClass) -> bool:
    return any(each.opaque is not None and each.opaque.driver == GROUP for each in device_class.spec.config)
