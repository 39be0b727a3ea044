"""What claims want of a fabric that hands out its devices by the controller (KEP-3063). Pure."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.configs import FabricClass, MemoryAmount
from dradriver_fabric_cxl.fabric import AttachmentIdentity
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.offer import make_labels

__all__ = ["WantedDevice", "check_parameters", "list_wanted", "name_pool"]

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class WantedDevice:
    """One device that a claim wants.

    Attributes:
        claim: UID of the claim.
        request: the request of the claim.
        slot: identifies the device among those of the claim: `REQUEST/NUMBER`. It is part of the tag, so that
            the device is found again after a crash.
        mebibytes: size of the memory; 0 for an accelerator.
    """

    claim: str
    request: str
    slot: str
    mebibytes: int

    def name_memory(self, domain: str) -> str:
        """Return the name of the device if it is memory of a domain; no other claim's memory has this name.

        Args:
            domain: ID of the memory domain.
        """
        digits = hashlib.sha256(f"{self.claim}\0{self.slot}".encode()).hexdigest()[:_DIGITS]
        key = ("memory", domain, digits)
        return make_labels([key])[key]

    def identify(self, pool: str, device: str) -> AttachmentIdentity:
        """Return the identity under which the fabric keeps the device.

        Args:
            pool: the pool of the controller's devices.
            device: name of the device.
        """
        return AttachmentIdentity(self.claim, pool, device, allocated_at="", share=self.slot)


def name_pool(pool: str) -> str:
    """Return the pool of the devices that the controller hands out.

    It differs from the pool that is published in slices, so that each attachment shows who has handed it out.

    Args:
        pool: name of the pool of slices.
    """
    return f"{DRIVER}/{pool}"


def list_wanted(claims: Iterable[dra.PendingClaim]) -> list[WantedDevice]:
    """Return the devices that claims want, in the order of their requests.

    Args:
        claims: the claims, with parameters that `check_parameters` has accepted.
    """
    return [
        WantedDevice(claim.uid, request.name, f"{request.name}/{number}", _find_size(request))
        for claim in claims
        for request in claim.requests
        for number in range(request.count)
    ]


def check_parameters(claim: str, amount: dra.Config | None, device_class: object) -> None:
    """Check the parameters of a claim.

    Args:
        claim: `namespace/name` of the claim.
        amount: the claim's `MemoryAmount`; None if it has none.
        device_class: the class's `FabricClass`; None if it has none.

    Raises:
        AllocationError: memory needs a size, and an accelerator must not have one.
    """
    kind = device_class.type if isinstance(device_class, FabricClass) else "memory"
    if kind == "memory" and amount is None:
        rule = f"must have a {MemoryAmount.kind} of {MemoryAmount.api_version}, because the class gives memory"
        raise dra.AllocationError(f"claim {claim}: parameters: {rule}")
    if kind == "accelerator" and amount is not None:
        rule = f"must not have a {MemoryAmount.kind}, because the class gives accelerators"
        raise dra.AllocationError(f"claim {claim}: parameters: {rule}")


def _find_size(request: dra.PendingRequest) -> int:
    parameters = request.claim_parameters
    return parameters.mebibytes if isinstance(parameters, MemoryAmount) else 0
