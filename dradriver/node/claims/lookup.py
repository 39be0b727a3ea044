"""Look up claims in the API server, and extract the part that concerns the driver of this node."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.driver.base import Driver
from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.code_places import defined_at
from dradriver.driver.config import Config, decode_config
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube.errors import ApiError, NotFound
from dradriver.kube.resources import CLAIMS
from dradriver.model.names import dns_label
from dradriver.model.resource.claim import POD_CLAIM_ANNOTATION, AllocationConfig, DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsBySet, groups_in_force
from dradriver.node.api import Api, Getter
from dradriver.node.claims.driver_results import listed_claims
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import ClaimError, InvalidConfigError
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.state.records import ClaimRecord, ClaimRef, RecordedDevice

__all__ = [
    "AllocatedClaim",
    "ClaimLookup",
    "NodeClaims",
    "allocated_claim",
    "claim_ref",
    "driver_claim",
    "is_bound",
    "runs_on",
]

_LOOKUPS: Final = 32


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Return the reference of a claim."""
    return ClaimRef(claim.metadata.uid, claim.metadata.namespace, claim.metadata.name)


class ClaimLookup:
    """Looks claims up, a bounded number at once, because each lookup may use its own connection.

    Args:
        client: the API server.
    """

    def __init__(self, client: Getter) -> None:
        self._client = client
        self._free = asyncio.Semaphore(_LOOKUPS)

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim that has this name now.

        Raises:
            NotFound: there is none.
            ApiError: the API server did not answer.
            InvalidObjectError: the answer is not a claim.
        """
        async with self._free:
            return await self._client.get(CLAIMS, ref.name, ref.namespace, into=ResourceClaim)

    async def meant(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim with the UID that the kubelet sent.

        Raises:
            ClaimError: it does not exist, or another claim has its name now.
            DraError: the API server did not answer, or the answer is not a claim.
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


class NodeClaims:
    """The claims with devices of one driver on one node, from the API server and from the driver.

    Args:
        client: the API server.
        calls: the driver.
        node: the node's name.
        failures: reports claims that cannot be read.
    """

    def __init__(self, client: Api, calls: DriverCalls, node: str, failures: BackgroundFailures) -> None:
        self._client = client
        self._lookup = ClaimLookup(client)
        self._calls = calls
        self._driver = calls.driver
        self._node = node
        self._failures = failures

    async def still_here(self, ref: ClaimRef) -> bool:
        """Return whether the API server has the claim, allocated for this node and this driver.

        Raises:
            DraError: the API server did not answer.
        """
        try:
            claim = await self._lookup.get(ref)
        except NotFound:
            return False
        return claim.metadata.uid == ref.uid and self._is_ours(claim)

    async def listed(self) -> tuple[list[ResourceClaim], Mapping[str, DraError]]:
        """Return the claims with devices of this driver that can be used here, and those that cannot be read.

        Raises:
            DraError: the API server did not answer.
        """
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        for key, error in listing.unreadable.items():
            self._failures.report("collect", f"claim {key} can't be read", error)
        return [claim for claim in listing.items if self._is_ours(claim)], listing.unreadable

    async def known_to_driver(self) -> set[str]:
        """Return the UIDs of the claims that the driver's hardware records as prepared.

        Raises:
            DraError: the driver's `prepared_claims()` failed.
        """
        method = self._driver.prepared_claims
        return listed_claims(self._driver.name, await self._calls.call(method), defined_at(method))

    def _is_ours(self, claim: ResourceClaim) -> bool:
        return any(result.driver == self._driver.name for result in claim.results) and runs_on(
            claim, self._node
        )


def runs_on(claim: ResourceClaim, node: str) -> bool:
    """Return whether the claim's allocation can be used on the node, judged by the node's name only.

    Labels are ignored, because they may have changed since the scheduling decision.
    """
    selector = claim.allocation.node_selector if claim.allocation else None
    if selector is None:
        return True
    fields = {"metadata.name": node}
    return any(
        all(requirement.matches(fields) for requirement in term.match_fields)
        for term in selector.node_selector_terms
    )


def is_bound(claim: ResourceClaim) -> bool:
    """Return whether the claim's allocation names the nodes that can use it."""
    selector = claim.allocation.node_selector if claim.allocation else None
    return selector is not None and any(term.match_fields for term in selector.node_selector_terms)


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim that is allocated for this node, reduced to one driver.

    Attributes:
        record: the record to write. The consumed counters of its devices are not known yet.
        groups: for each device of the record, the compatibility groups that the claim records, by counter set.
            None for a claim without such a record (KEP-5963).
    """

    record: ClaimRecord
    groups: tuple[GroupsBySet | None, ...]


def allocated_claim(claim: ResourceClaim, driver: str, node: str) -> AllocatedClaim:
    """Reduce an allocated claim to one driver.

    Args:
        claim: the claim from the API server.
        driver: the driver's name. Devices of other drivers are omitted.
        node: the node's name.

    Raises:
        ClaimError: the claim is not allocated, or is allocated for another node.
    """
    ref = claim_ref(claim)
    if claim.allocation is None:
        raise ClaimError(f"claim {ref} is not allocated (status.allocation is not set)")
    if not runs_on(claim, node):
        raise ClaimError(f"claim {ref} is not allocated for node {node} (status.allocation.nodeSelector)")
    configs = claim.allocation.devices.config
    recorded_groups = groups_in_force(claim.allocation)
    ours = [
        (result, groups)
        for result, groups in zip(claim.results, recorded_groups, strict=True)
        if result.driver == driver
    ]
    return AllocatedClaim(
        ClaimRecord(
            uid=ref.uid,
            namespace=ref.namespace,
            name=ref.name,
            pod_claim=_pod_claim(claim),
            devices=[_device(result, configs) for result, _ in ours],
        ),
        tuple(groups for _, groups in ours),
    )


def _pod_claim(claim: ResourceClaim) -> str:
    """Return the pod-claim name from a claim's annotation; it names a path, and users may write any value."""
    name = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return "" if dns_label(name) else name


def _device(result: DeviceResult, configs: Sequence[AllocationConfig]) -> RecordedDevice:
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
        consumes_unknown=True,
    )


def driver_claim(record: ClaimRecord, driver: Driver, inventory: DiscoveredDevices, *, strict: bool) -> Claim:
    """Return the claim in the form that its driver receives.

    Args:
        record: the claim.
        driver: the driver. Its `configs` are the known classes of configuration.
        inventory: finds the devices.
        strict: True: unknown fields are errors, for users' input. False: for data that another version has
            stored.

    Raises:
        InvalidConfigError: the driver does not accept the configuration. The message names the field.
    """

    def allocated(device: RecordedDevice) -> AllocatedDevice:
        configs = _decode_configs(device, driver.configs, record.ref, strict=strict)
        return device.allocated(inventory.device(device.pool, device.device), configs)

    return Claim(record.uid, record.namespace, record.name, tuple(map(allocated, record.devices)))


def _decode_configs(
    device: RecordedDevice, known: Sequence[type[Config]], ref: ClaimRef, *, strict: bool
) -> list[Config]:
    subject = f"claim {ref}: opaque parameters for request {device.request}"
    try:
        return [decode_config(text.encode(), known, subject, strict=strict) for text in device.parameters]
    except InvalidObjectError as error:
        raise InvalidConfigError(error.subject, error.problems) from error.__cause__
