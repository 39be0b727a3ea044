"""ResourceClaim, its requests and its allocation (`resource.k8s.io/v1`)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import convert_to_tuples
from dradriver.model.names import base_request
from dradriver.model.quantity import Quantity

__all__ = [
    "CLAIM_FINALIZER",
    "DEVICE_DATA_LIMIT",
    "EXTENDED_CLAIM_ANNOTATION",
    "MAX_RESERVED_FOR",
    "MAX_RESULTS",
    "POD_CLAIM_ANNOTATION",
    "AllocatedDeviceStatus",
    "Allocation",
    "AllocationConfig",
    "CapacityRequirements",
    "CelSelector",
    "ClaimConfig",
    "ClaimSpec",
    "ClaimStatus",
    "ConsumerReference",
    "DerivedAttribute",
    "DeviceAllocation",
    "DeviceConstraint",
    "DeviceId",
    "DeviceRequest",
    "DeviceRequests",
    "DeviceResult",
    "DeviceSelector",
    "DeviceSubRequest",
    "DeviceToleration",
    "ExactDeviceRequest",
    "NetworkData",
    "OpaqueConfig",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
]

MAX_RESULTS: Final = 32
MAX_RESERVED_FOR: Final = 256
DEVICE_DATA_LIMIT: Final = 10 * 1024
"""Maximum size of `status.devices[].data`, in bytes (`AllocatedDeviceStatusDataMaxLength`)."""
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claims that a scheduler creates for extended resources of pods (KEP-5004).

The value of the annotation is `"true"`.
"""


class DeviceId(NamedTuple):
    """The name of a device in the cluster. `share_id` distinguishes the shares of one device."""

    driver: str
    pool: str
    device: str
    share_id: str = ""

    def __str__(self) -> str:
        share = f" (share {self.share_id})" if self.share_id else ""
        return f"{self.driver}/{self.pool}/{self.device}{share}"


class CelSelector(Value, frozen=True):
    """A CEL expression about a device."""

    expression: str


class DeviceSelector(Value, frozen=True):
    """One condition that a device must meet. A device must meet all selectors of a request."""

    cel: CelSelector | None = None


class DeviceToleration(Value, frozen=True, kw_only=True):
    """A request's toleration of device taints."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: Literal["", "None", "NoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Value, frozen=True):
    """The amounts that a request asks for, by capacity of the device (KEP-5075)."""

    requests: dict[str, Quantity] = {}


class DerivedAttribute(Value, frozen=True):
    """An attribute that a request computes for each device with CEL. Constraints compare it (KEP-6080)."""

    name: str
    expression: str


class DeviceSubRequest(Value, frozen=True, kw_only=True):
    """One alternative of a `firstAvailable` request (KEP-4816)."""

    name: str
    device_class_name: str
    selectors: list[DeviceSelector] = []
    allocation_mode: Literal["ExactCount", "All"] = "ExactCount"
    count: int = 1
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DerivedAttribute] = []


class ExactDeviceRequest(Value, frozen=True, kw_only=True):
    """A request for devices of one class."""

    device_class_name: str
    selectors: list[DeviceSelector] = []
    allocation_mode: Literal["ExactCount", "All"] = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DerivedAttribute] = []


class DeviceRequest(Value, frozen=True):
    """One request of a claim. Either `exactly` or `firstAvailable` is set."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] = []


class DeviceConstraint(Value, frozen=True, kw_only=True):
    """A rule about the devices of several requests. If `requests` is empty, it covers all requests."""

    requests: list[str] = []
    match_attribute: str | None = None
    distinct_attribute: str | None = None

    def covers(self, request: str) -> bool:
        """Return whether the rule covers this request. `gpu` also covers the subrequest `gpu/large`."""
        return not self.requests or request in self.requests or base_request(request) in self.requests


class OpaqueConfig(Value, frozen=True):
    """Parameters for one driver. Their bytes stay unchanged."""

    driver: str
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class ClaimConfig(Value, frozen=True, kw_only=True):
    """Configuration for some requests of a claim. If `requests` is empty, it applies to all requests."""

    requests: list[str] = []
    opaque: OpaqueConfig | None = None


class DeviceRequests(Value, frozen=True, kw_only=True):
    """The requests of a claim (`DeviceClaim`)."""

    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    config: list[ClaimConfig] = []


class ClaimSpec(Value, frozen=True):
    """The immutable specification of a claim."""

    devices: DeviceRequests = DeviceRequests()


class DeviceResult(Value, frozen=True, kw_only=True):
    """One allocated device of a claim (`DeviceRequestAllocationResult`)."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = {}
    skip_node_operations: list[str] = []
    compatibility_groups: dict[str, list[str]] = {}
    """The compatibility groups at the allocation, by counter set (KEP-5963). Kubernetes 1.37 drops them."""

    @property
    def id(self) -> DeviceId:
        """Return the name of the device in the cluster, including the share ID."""
        return DeviceId(self.driver, self.pool, self.device, self.share_id or "")


class AllocationConfig(Value, frozen=True, kw_only=True):
    """One configuration that applied at the allocation. Those of classes come before those of the claim."""

    source: Literal["FromClass", "FromClaim"]
    requests: list[str] = []
    opaque: OpaqueConfig | None = None

    def covers(self, request: str) -> bool:
        """Return whether the configuration covers this request."""
        return not self.requests or request in self.requests or base_request(request) in self.requests


class DeviceAllocation(Value, frozen=True, kw_only=True):
    """The devices of an allocation and their configuration (`DeviceAllocationResult`)."""

    results: list[DeviceResult] = []
    config: list[AllocationConfig] = []


class Allocation(Value, frozen=True, kw_only=True):
    """The allocated devices of a claim, and the nodes on which the claim can be used (`AllocationResult`)."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ConsumerReference(Value, frozen=True, kw_only=True):
    """A pod or other object that may use the claim now (`reservedFor`)."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class NetworkData(Value, frozen=True, kw_only=True):
    """Data about an allocated network interface. A driver reports it (`NetworkDeviceData`)."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ accepts any iterable.
        def __init__(
            self, *, interface_name: str = ..., ips: Iterable[str] = ..., hardware_address: str = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples("network data", self, ("ips",))


class AllocatedDeviceStatus(Value, frozen=True, kw_only=True):
    """The status of one allocated device. A driver reports it (`status.devices`)."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[Condition] = []
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # msgspec does not support Raw in a union with None
    network_data: NetworkData | None = None

    @property
    def id(self) -> DeviceId:
        """Return the name of the device in the cluster, including the share ID."""
        return DeviceId(self.driver, self.pool, self.device, self.share_id or "")

    @property
    def data_object(self) -> Mapping[str, object] | None:
        """Return the data as a JSON object; None if there is none, or if it cannot be decoded."""
        if self.data is msgspec.UNSET:
            return None
        try:
            value = msgspec.json.decode(self.data)
        except (msgspec.DecodeError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class ClaimStatus(Value, frozen=True, kw_only=True):
    """The allocation, reservations and device status of a claim."""

    allocation: Allocation | None = None
    reserved_for: list[ConsumerReference] = []
    devices: list[AllocatedDeviceStatus] = []


class ResourceClaim(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` ResourceClaim."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def allocation(self) -> Allocation | None:
        """Return `status.allocation`."""
        return self.status.allocation

    @property
    def results(self) -> list[DeviceResult]:
        """Return the allocated devices; empty while the claim is not allocated."""
        return self.status.allocation.devices.results if self.status.allocation else []

    @property
    def ref(self) -> str:
        """Return `namespace/name`, for messages."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def device_status(self, device: DeviceId) -> AllocatedDeviceStatus | None:
        """Return the status entry of an allocated device; None if nothing was reported."""
        return next((entry for entry in self.status.devices if entry.id == device), None)


class ResourceClaimTemplateSpec(Value, frozen=True, kw_only=True):
    """The metadata and specification of claims that are created from a template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` ResourceClaimTemplate."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
