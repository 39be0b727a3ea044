"""Look up claims in the API server, and extract their devices of this driver."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.driver.base import Driver
from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.configuration.config import Config, decode_config
from dradriver.driver.source_locations import find_definition
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube.errors import ApiError, NotFound
from dradriver.kube.resources import CLAIMS
from dradriver.model.classic.handles import JoinedHandle, is_handle, join_handle
from dradriver.model.encoding.codec import canonical, rfc3339
from dradriver.model.names import dns_label
from dradriver.model.resource.claim import POD_CLAIM_ANNOTATION, AllocationConfig, DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsBySet, groups_in_force
from dradriver.node.api import Api, Getter
from dradriver.node.claims.driver_results import check_listed_claims
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import ClaimError, InvalidConfigError
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.state.records import ClaimRecord, ClaimRef, RecordedDevice

__all__ = [
    "AllocatedClaim",
    "ClaimLookup",
    "NodeClaims",
    "claim_ref",
    "is_bound",
    "is_usable_on",
    "to_allocated_claim",
    "to_driver_claim",
]

_LOOKUPS: Final = 32


def claim_ref(claim: ResourceClaim) -> ClaimRef:
    """Return the reference of a claim."""
    return ClaimRef(claim.metadata.uid, claim.metadata.namespace, claim.metadata.name)


class ClaimLookup:
    """Looks up claims; the number of concurrent lookups is limited, because each may open a connection.

    Args:
        client: the API server.
    """

    def __init__(self, client: Getter) -> None:
        self._client = client
        self._free = asyncio.Semaphore(_LOOKUPS)

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim that has this name now.

        Raises:
            NotFound: no claim has this name.
            ApiError: the API server did not answer.
            InvalidObjectError: the answer is not a claim.
        """
        async with self._free:
            return await self._client.get(CLAIMS, ref.name, ref.namespace, into=ResourceClaim)

    async def get_by_uid(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim with the UID that the kubelet sent.

        Raises:
            ClaimError: the claim does not exist, or another claim has its name now.
            DraError: the API server did not answer, or the answer is not a claim.
        """
        try:
            claim = await self.get(ref)
        except NotFound:
            raise ClaimError(f"claim {ref} does not exist") from None
        except ApiError as error:
            raise DraError(f"claim {ref} cannot be looked up: {error}") from error
        if claim.metadata.uid != ref.uid:
            raise ClaimError(f"claim {ref} was replaced by another one with UID {claim.metadata.uid}")
        return claim


class NodeClaims:
    """Lists the claims with devices of one driver on one node, as the API server and the driver report them.

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

    async def is_still_allocated(self, ref: ClaimRef) -> bool:
        """Return whether the claim exists, and is allocated devices of this driver for this node.

        Raises:
            DraError: the API server did not answer.
        """
        try:
            claim = await self._lookup.get(ref)
        except NotFound:
            return False
        return claim.metadata.uid == ref.uid and self._is_ours(claim)

    async def list_claims(self) -> tuple[list[ResourceClaim], Mapping[str, DraError]]:
        """Return the claims with devices of this driver for this node, and the claims that cannot be read.

        Raises:
            DraError: the API server did not answer.
        """
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        for key, error in listing.unreadable.items():
            self._failures.report("collect", f"claim {key} cannot be read", error)
        return [claim for claim in listing.items if self._is_ours(claim)], listing.unreadable

    async def list_prepared_by_driver(self) -> set[str]:
        """Return the UIDs of the claims that the driver's hardware records as prepared.

        Raises:
            DraError: the driver's `prepared_claims()` failed.
        """
        method = self._driver.prepared_claims
        return check_listed_claims(self._driver.name, await self._calls.call(method), find_definition(method))

    def _is_ours(self, claim: ResourceClaim) -> bool:
        driver = self._driver.name
        return is_usable_on(claim, self._node) and any(result.driver == driver for result in claim.results)


def is_usable_on(claim: ResourceClaim, node: str) -> bool:
    """Return whether the node can use the claim's allocation; only the node's name is compared.

    Node labels are ignored, because they may have changed since the scheduling decision.
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
    """Return whether the claim's allocation names specific nodes."""
    selector = claim.allocation.node_selector if claim.allocation else None
    return selector is not None and any(term.match_fields for term in selector.node_selector_terms)


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim that is allocated for this node, with the devices of one driver only.

    Attributes:
        record: the record to write. It does not have the consumed counters of the devices yet.
        groups: for each device of the record, the compatibility groups in the allocation result, by counter
            set. None if the allocation result has no groups (KEP-5963).
        claim: the claim from the API server.
    """

    record: ClaimRecord
    groups: tuple[GroupsBySet | None, ...]
    claim: ResourceClaim


def to_allocated_claim(claim: ResourceClaim, driver: str, node: str) -> AllocatedClaim:
    """Extract the devices of one driver from an allocated claim.

    Args:
        claim: the claim from the API server.
        driver: the driver's name. Devices of other drivers are omitted.
        node: the node's name.

    Raises:
        ClaimError: the claim is not allocated, is allocated for another node, or has a handle of a controller
            that is incomplete or of another claim.
    """
    ref = claim_ref(claim)
    if claim.allocation is None:
        raise ClaimError(f"claim {ref} is not allocated (status.allocation is not set)")
    if not is_usable_on(claim, node):
        raise ClaimError(f"claim {ref} is not allocated for node {node} (status.allocation.nodeSelector)")
    configs = claim.allocation.devices.config
    recorded_groups = groups_in_force(claim.allocation)
    ours = [
        (result, groups)
        for result, groups in zip(claim.results, recorded_groups, strict=True)
        if result.driver == driver
    ]
    handles = [_join_handle(claim, result, configs) for result, _ in ours]
    data = list(dict.fromkeys(handle.data for handle in handles if handle is not None))
    return AllocatedClaim(
        ClaimRecord(
            uid=ref.uid,
            namespace=ref.namespace,
            name=ref.name,
            pod_claim=_read_pod_claim(claim),
            devices=[
                _record_device(claim, result, configs, handle, data)
                for (result, _), handle in zip(ours, handles, strict=True)
            ],
            allocated=rfc3339(moment) if (moment := claim.allocation.allocation_timestamp) else "",
            handles=data,
        ),
        tuple(groups for _, groups in ours),
        claim,
    )


def _read_pod_claim(claim: ResourceClaim) -> str:
    """Return the pod-claim name from a claim's annotation; empty if it is not a DNS label.

    Users can write the annotation, and the name becomes part of a path.
    """
    name = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return "" if dns_label(name) else name


def _join_handle(
    claim: ResourceClaim, result: DeviceResult, configs: Sequence[AllocationConfig]
) -> JoinedHandle | None:
    """Return the controller's handle for a device; None if no controller has allocated it."""
    covering = (config for config in configs if config.covers(result.request))
    try:
        return join_handle(covering, result.driver, claim.metadata.uid)
    except InvalidObjectError as error:
        raise ClaimError(f"claim {claim_ref(claim)}: request {result.request}: {error}") from None


def _record_device(
    claim: ResourceClaim,
    result: DeviceResult,
    configs: Sequence[AllocationConfig],
    handle: JoinedHandle | None,
    handles: Sequence[bytes],
) -> RecordedDevice:
    status = claim.device_status(result.id)
    data = status.data_object if status is not None else None
    return RecordedDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id or "",
        admin_access=result.admin_access is True,
        consumed_capacity=result.consumed_capacity,
        parameters=[
            bytes(config.opaque.parameters).decode()
            # The sort is stable: first the parameters of classes, then of the claim, each group in API order.
            for config in sorted(configs, key=lambda config: config.source != "FromClass")
            if config.opaque is not None
            and config.opaque.driver == result.driver
            and config.covers(result.request)
            and not is_handle(config, result.driver)
        ],
        # A device of a controller's allocation is in no slice, so it consumes no counters.
        consumes_unknown=handle is None,
        data="" if data is None else canonical(data).decode(),
        handle=None if handle is None else handles.index(handle.data),
        shareable=handle is not None and handle.shareable,
    )


def to_driver_claim(
    record: ClaimRecord, driver: Driver, inventory: DiscoveredDevices, *, strict: bool
) -> Claim:
    """Return the claim in the form that its driver receives.

    Args:
        record: the claim.
        driver: the driver. Its `configs` are the classes to decode the parameters with.
        inventory: finds the devices.
        strict: whether unknown fields are errors. True for users' input; False for records, which another
            version of the driver may have stored.

    Raises:
        InvalidConfigError: the driver does not accept the configuration. The message names the field.
    """

    def convert(device: RecordedDevice) -> AllocatedDevice:
        configs = _decode_configs(device, driver.configs, record.ref, strict=strict)
        found = inventory.device(device.pool, device.device)
        return device.to_allocated_device(found, configs, record.handle_of(device))

    return Claim(record.uid, record.namespace, record.name, tuple(map(convert, record.devices)))


def _decode_configs(
    device: RecordedDevice, known: Sequence[type[Config]], ref: ClaimRef, *, strict: bool
) -> list[Config]:
    subject = f"claim {ref}: opaque parameters for request {device.request}"
    try:
        return [decode_config(text.encode(), known, subject, strict=strict) for text in device.parameters]
    except InvalidObjectError as error:
        raise InvalidConfigError(error.subject, error.problems) from error.__cause__
