"""Claims as the API server has them: looking one up, and what must hold before it is prepared."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from dradriver.driver.config import Config, decode_config
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube.errors import ApiError, NotFound
from dradriver.kube.resources import CLAIMS, Resource
from dradriver.model.names import dns_label
from dradriver.model.resource.claim import POD_CLAIM_ANNOTATION, AllocationConfig, DeviceResult, ResourceClaim
from dradriver.node.devices.inventory import Inventory
from dradriver.node.errors import ClaimError, InvalidConfigError
from dradriver.node.state.records import ClaimRecord, ClaimRef, RecordedDevice

__all__ = ["ClaimLookup", "Getter", "claim_ref", "decoded", "recorded", "runs_on"]

T = TypeVar("T")

_LOOKUPS: Final = 32


class Getter(Protocol):
    """The part of the Kubernetes client that looks one object up."""

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        """One object; raises `NotFound` or another `ApiError`."""
        ...


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Which claim it is."""
    return ClaimRef(claim.metadata.uid, claim.metadata.namespace, claim.metadata.name)


class ClaimLookup:
    """Looks claims up, a bounded number at once: each lookup may take a connection of its own.

    Args:
        client: the API server.
    """

    def __init__(self, client: Getter) -> None:
        self._client = client
        self._free = asyncio.Semaphore(_LOOKUPS)

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """The claim that has this name now.

        Raises:
            NotFound: there is none.
            ApiError: the API server did not answer.
            InvalidObjectError: it did not answer with a claim.
        """
        async with self._free:
            return await self._client.get(CLAIMS, ref.name, ref.namespace, into=ResourceClaim)

    async def meant(self, ref: ClaimRef) -> ResourceClaim:
        """The claim that the kubelet means.

        Raises:
            ClaimError: it does not exist, or another claim has its name now.
            DraError: the API server did not answer, or not with a claim.
        """
        try:
            claim = await self.get(ref)
        except NotFound:
            raise ClaimError(f"claim {ref} does not exist (any more)") from None
        except ApiError as error:
            raise DraError(f"claim {ref} can't be looked up: {error}") from error
        if claim.metadata.uid != ref.uid:
            raise ClaimError(f"claim {ref} was replaced by one of the same name with UID {claim.metadata.uid}")
        return claim


def runs_on(claim: ResourceClaim, node: str) -> bool:
    """Whether the claim's allocation can be used on the node, as far as its name tells.

    Labels are not looked at: they may have changed since the scheduler did.
    """
    selector = claim.allocation.node_selector if claim.allocation else None
    if selector is None:
        return True
    fields = {"metadata.name": node}
    return any(
        all(requirement.matches(fields) for requirement in term.match_fields)
        for term in selector.node_selector_terms
    )


def recorded(claim: ResourceClaim, driver: str, node: str, inventory: Inventory) -> ClaimRecord:
    """What is to be recorded of an allocated claim: the driver's own devices of it.

    Raises:
        ClaimError: not allocated, or for another node.
    """
    ref = claim_ref(claim)
    if claim.allocation is None:
        raise ClaimError(f"claim {ref} is not allocated (status.allocation is not set)")
    if not runs_on(claim, node):
        raise ClaimError(f"claim {ref} is not allocated for node {node} (status.allocation.nodeSelector)")
    configs = claim.allocation.devices.config
    return ClaimRecord(
        uid=ref.uid,
        namespace=ref.namespace,
        name=ref.name,
        pod_claim=_pod_claim(claim),
        devices=[_device(result, configs, inventory) for result in claim.results if result.driver == driver],
    )


def _pod_claim(claim: ResourceClaim) -> str:
    """The annotation of claims made from templates; it names a path, and users may write anything there."""
    name = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return "" if dns_label(name) else name


def _device(result: DeviceResult, configs: Sequence[AllocationConfig], inventory: Inventory) -> RecordedDevice:
    device = inventory.device(result.pool, result.device)
    return RecordedDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id or "",
        admin_access=result.admin_access is True,
        consumed_capacity=result.consumed_capacity,
        parameters=[
            bytes(config.opaque.parameters).decode()
            # A stable sort: classes first, then the claim, each in the order of the API.
            for config in sorted(configs, key=lambda config: config.source != "FromClass")
            if config.opaque is not None
            and config.opaque.driver == result.driver
            and config.covers(result.request)
        ],
        consumes=device.consumes_counters if device else (),
        consumes_unknown=device is None,
    )


def decoded(
    device: RecordedDevice, known: Sequence[type[Config]], ref: ClaimRef, *, strict: bool
) -> list[Config]:
    """The device's opaque configuration in the author's classes.

    Args:
        device: the device with its parameters.
        known: the classes that the driver declares.
        ref: the claim, for messages.
        strict: unknown fields are errors: for what users sent, not for what was stored by another version.

    Raises:
        InvalidConfigError: the configuration is not one that the driver knows; the message names the field.
    """
    subject = f"claim {ref}: opaque parameters for request {device.request}"
    try:
        return [decode_config(text.encode(), known, subject, strict=strict) for text in device.parameters]
    except InvalidObjectError as error:
        raise InvalidConfigError(error.subject, error.problems) from error.__cause__
