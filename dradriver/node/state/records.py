"""The record of a prepared claim, with all data to answer the kubelet, write the files, and unprepare it.

Records are stored as JSON. A newer version of the SDK adds fields with defaults, and an older version ignores
these fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import msgspec

from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.configuration.config import Config
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.cdi import ContainerEdits
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId, NetworkData
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Attribute, Device
from dradriver.node.state.claim_states import ClaimState

__all__ = [
    "ClaimRecord",
    "ClaimRef",
    "CounterSets",
    "DeviceHold",
    "HoldingClaim",
    "PreparedClaimRecord",
    "RecordedAnswer",
    "RecordedDevice",
    "as_recorded",
    "decode_record",
    "encode_record",
]

CounterSets: TypeAlias = Mapping[tuple[str, str], CounterSet]
"""Counter sets by pool and name."""


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """A device that a claim holds or wants, as input of the conflict check.

    Attributes:
        id: the device, with the share ID.
        admin_access: whether the claim only monitors the device.
        consumes: what the device consumes from the pool's counter sets, with the effective compatibility
            groups. None if unknown, because the driver did not offer the device.
        consumed_capacity: the amounts of the device's capacities that a share uses (KEP-5075).
        shareable: whether a controller allocates the device to several claims (KEP-3063).
    """

    id: DeviceId
    admin_access: bool = False
    consumes: Sequence[CounterConsumption] | None = ()
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict)
    shareable: bool = False


@dataclass(frozen=True, slots=True)
class HoldingClaim:
    """A claim and its devices; `claim` is its name in messages."""

    claim: str
    holds: Sequence[DeviceHold]


class ClaimRef(Value, frozen=True):
    """Reference of a claim; the kubelet's unprepare request contains nothing else about a claim."""

    uid: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"


class RecordedDevice(Value, frozen=True, kw_only=True):
    """One device of the claim, as it was allocated.

    Attributes:
        request, pool, device, share_id, admin_access, consumed_capacity: as in the allocation result.
        parameters: the opaque parameters that apply to the device, as JSON texts: first those of the
            DeviceClass, then those of the claim.
        consumes: what the device consumed from counter sets when the claim was recorded, with compatibility
            groups.
        consumes_unknown: True if the driver did not offer the device when the claim was recorded, so `consumes`
            is unknown.
        data: the JSON object in the device's entry of `status.devices`, as text. Empty if there is none.
        handle: the index of the controller's handle in the `handles` of the claim. None if there is none.
        shareable: the flag of the handle: several claims may use the device (KEP-3063).
    """

    request: str
    pool: str
    device: str
    share_id: str = ""
    admin_access: bool = False
    consumed_capacity: dict[str, Quantity] = {}
    parameters: list[str] = []
    consumes: tuple[CounterConsumption, ...] = ()
    consumes_unknown: bool = False
    data: str = ""
    handle: int | None = None
    shareable: bool = False

    def id(self, driver: str) -> DeviceId:
        """Return the device's ID, which is unique in the cluster."""
        return DeviceId(driver, self.pool, self.device, self.share_id)

    def to_allocated_device(
        self, device: Device | None, configs: Iterable[Config], handle: bytes | None = None
    ) -> AllocatedDevice:
        """Return the device in the form that its driver receives."""
        return AllocatedDevice(
            request=self.request,
            pool=self.pool,
            name=self.device,
            share_id=self.share_id,
            admin_access=self.admin_access,
            consumed_capacity=self.consumed_capacity,
            configs=tuple(configs),
            device=device,
            data=msgspec.json.decode(self.data) if self.data else None,
            handle=handle,
        )


def _to_hold(device: RecordedDevice, driver: str) -> DeviceHold:
    consumes = None if device.consumes_unknown else device.consumes
    return DeviceHold(
        *(device.id(driver), device.admin_access, consumes, device.consumed_capacity),
        shareable=device.shareable,
    )


class RecordedAnswer(Value, frozen=True, kw_only=True):
    """The driver's answer for a device (`PreparedDevice`)."""

    edits: ContainerEdits = ContainerEdits()
    cdi_ids: list[str] = []
    metadata: dict[str, Attribute] | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # msgspec cannot decode a Raw in a union with None
    conditions: list[Condition] = []
    network: NetworkData | None = None


class ClaimRecord(Value, frozen=True, kw_only=True):
    """One claim on this node.

    Attributes:
        uid, namespace, name: identify the claim.
        pod_claim: the claim's name in the pod, if the claim was created from a template. Otherwise empty.
        devices: the devices of this driver, in the order of the allocation.
        answers: the driver's answers, one for each device, in the order of `devices`. Empty until the claim is
            prepared.
        metadata_updates: the number of metadata updates after prepare, by request.
        allocated: the time of the allocation (RFC 3339). Empty if it is unknown.
        handles: the data of the controller's handles for this driver (KEP-3063). It may contain secrets.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    pod_claim: str = ""
    devices: list[RecordedDevice] = []
    answers: list[RecordedAnswer] = []
    metadata_updates: dict[str, int] = {}
    allocated: str = ""
    handles: list[bytes] = []

    @property
    def ref(self) -> ClaimRef:
        """Return the reference of the claim."""
        return ClaimRef(self.uid, self.namespace, self.name)

    @property
    def pools(self) -> list[str]:
        """Return the names of the devices' pools, sorted and unique."""
        return sorted({device.pool for device in self.devices})

    @property
    def published_pools(self) -> list[str]:
        """Return the names of the pools that slices may have, sorted and unique.

        A device with a handle of a controller is in no slice.
        """
        return sorted({device.pool for device in self.devices if device.handle is None})

    @property
    def allocation(self) -> tuple[list[RecordedDevice], list[bytes]]:
        """Return the devices without consumption and data, and the handles, to compare two allocations."""
        devices = [
            msgspec.structs.replace(device, consumes=[], consumes_unknown=False, data="")
            for device in self.devices
        ]
        return devices, self.handles

    def handle_of(self, device: RecordedDevice) -> bytes | None:
        """Return the data of the controller's handle for a device of the claim; None if there is none."""
        return None if device.handle is None else self.handles[device.handle]

    def has_time_of(self, other: "ClaimRecord") -> bool:
        """Return whether the records can be of one allocation; an unknown time equals every time."""
        return not self.allocated or not other.allocated or self.allocated == other.allocated

    def has_data_of(self, other: "ClaimRecord") -> bool:
        """Return whether the devices can have been attached together; missing data equals all data.

        Args:
            other: a record with the same devices.
        """
        pairs = zip(self.devices, other.devices, strict=False)
        return all(not own.data or not new.data or own.data == new.data for own, new in pairs)

    def fill_data(self, newer: "ClaimRecord") -> "ClaimRecord":
        """Return the record with the data and the time that only the newer record has.

        Args:
            newer: a record of the same allocation.
        """
        pairs = zip(self.devices, newer.devices, strict=True)
        devices = [msgspec.structs.replace(old, data=old.data or new.data) for old, new in pairs]
        return msgspec.structs.replace(self, devices=devices, allocated=self.allocated or newer.allocated)

    def to_holding_claim(self, driver: str) -> HoldingClaim:
        """Return the devices that the claim holds, for `node.claims.conflicts`."""
        return HoldingClaim(str(self.ref), [_to_hold(device, driver) for device in self.devices])


@dataclass(frozen=True, slots=True)
class PreparedClaimRecord:
    """A row of the prepared state.

    Attributes:
        record: the claim, its devices and the driver's answers.
        state: `preparing`, `prepared` or `unpreparing`.
        boot_id: the boot in which the claim entered this state.
        since: the time at which the claim entered this state, in seconds since the epoch.
    """

    record: ClaimRecord
    state: ClaimState
    boot_id: str
    since: float

    @property
    def uid(self) -> str:
        """Return the claim's UID."""
        return self.record.uid


def _encode_hook(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)


def encode_record(record: ClaimRecord) -> bytes:
    """Encode the record for storage.

    Raises:
        InvalidObjectError: the record has values that could not be decoded again (authors' code may ignore type
            hints). One such row would make the whole state unreadable, so the record must not be stored.
    """
    data = _encode(record, f"claim {record.ref}")
    try:
        decode_record(data)
    except InvalidObjectError as error:
        raise InvalidObjectError(f"claim {record.ref}", error.problems) from error
    return data


def as_recorded(answer: RecordedAnswer, subject: str) -> RecordedAnswer:
    """Return the answer with the values that it will have when it is decoded from the record.

    Raises:
        InvalidObjectError: a value does not have its field's type.
    """
    return decode(RecordedAnswer, _encode(answer, subject), subject)


def _encode(value: Value, subject: str) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InvalidObjectError(subject, [Problem("", str(error))]) from error


@lru_cache(maxsize=1024)
def decode_record(data: bytes) -> ClaimRecord:
    """Decode a stored record; equal texts are decoded only once, because records are frozen.

    Raises:
        InvalidObjectError: the text is not a record.
    """
    return decode(ClaimRecord, data, "prepared claim")
