"""The record of a prepared claim: enough to answer again, to write its files again, and to unprepare.

Records are stored as JSON. A newer version adds fields with defaults; an older version ignores them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from dradriver.driver.claim import AllocatedDevice
from dradriver.driver.config import Config
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.cdi import ContainerEdits
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId, NetworkData
from dradriver.model.resource.counters import CounterConsumption
from dradriver.model.resource.device import Attribute, Device
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.device_holds import DeviceHold, HoldingClaim

__all__ = [
    "ClaimRecord",
    "ClaimRef",
    "PreparedClaimRecord",
    "RecordedAnswer",
    "RecordedDevice",
    "as_recorded",
    "decode_record",
    "encode_record",
]


class ClaimRef(Value, frozen=True):
    """Reference of a claim: the only input of an unprepare."""

    uid: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} (UID {self.uid})"


class RecordedDevice(Value, frozen=True, kw_only=True):
    """One device of the claim, as it was allocated.

    Attributes:
        request, pool, device, share_id, admin_access, consumed_capacity: as in the allocation result.
        parameters: the opaque parameters that apply, classes first, as JSON texts.
        consumes: the device's consumption of counter sets when it was recorded, with its compatibility groups.
        consumes_unknown: the driver did not offer the device at that time, so its consumption is unknown.
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

    def id(self, driver: str) -> DeviceId:
        """Return the device's ID, which is unique in the cluster."""
        return DeviceId(driver, self.pool, self.device, self.share_id)

    def allocated(self, device: Device | None, configs: Iterable[Config]) -> AllocatedDevice:
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
        )


def _hold(device: RecordedDevice, driver: str) -> DeviceHold:
    consumes = None if device.consumes_unknown else device.consumes
    return DeviceHold(device.id(driver), device.admin_access, consumes, device.consumed_capacity)


class RecordedAnswer(Value, frozen=True, kw_only=True):
    """The driver's answer for a device (`PreparedDevice`)."""

    edits: ContainerEdits = ContainerEdits()
    cdi_ids: list[str] = []
    metadata: dict[str, Attribute] | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # msgspec reads no Raw in a union with None
    conditions: list[Condition] = []
    network: NetworkData | None = None


class ClaimRecord(Value, frozen=True, kw_only=True):
    """One claim on this node.

    Attributes:
        uid, namespace, name: identify the claim.
        pod_claim: the claim's name in the pod, if it was created from a template. Empty for claims that users
            created.
        devices: the devices of this driver, in the order of the allocation.
        answers: the driver's answers, one for each device in the same order. Empty until prepared.
        metadata_updates: the number of metadata updates after prepare, by request.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    pod_claim: str = ""
    devices: list[RecordedDevice] = []
    answers: list[RecordedAnswer] = []
    metadata_updates: dict[str, int] = {}

    @property
    def ref(self) -> ClaimRef:
        """Return the reference of the claim."""
        return ClaimRef(self.uid, self.namespace, self.name)

    @property
    def pools(self) -> list[str]:
        """Return the names of the devices' pools, sorted and unique."""
        return sorted({device.pool for device in self.devices})

    @property
    def allocation(self) -> list[RecordedDevice]:
        """Return the devices without their recorded consumption: equal as long as the allocation is equal."""
        return [msgspec.structs.replace(device, consumes=[], consumes_unknown=False) for device in self.devices]

    def holder(self, driver: str) -> HoldingClaim:
        """Return the devices that the claim holds, for `node.claims.conflicts`."""
        return HoldingClaim(str(self.ref), [_hold(device, driver) for device in self.devices])


@dataclass(frozen=True, slots=True)
class PreparedClaimRecord:
    """A row of the prepared state.

    Attributes:
        record: the claim, its devices and the driver's answers.
        state: `preparing`, `prepared` or `unpreparing`.
        boot_id: the boot in which the claim entered this state.
        since: when the claim entered this state, seconds since the epoch.
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
        InvalidObjectError: it has values that could not be decoded again (authors' code may ignore type hints).
            One such row would make the whole state unreadable, so it is never written.
    """
    data = _encoded(record, f"claim {record.ref}")
    try:
        decode_record(data)
    except InvalidObjectError as error:
        raise InvalidObjectError(f"claim {record.ref}", error.problems) from error
    return data


def as_recorded(answer: RecordedAnswer, subject: str) -> RecordedAnswer:
    """Return the answer as it will be decoded from the record.

    Raises:
        InvalidObjectError: a value does not have its field's type.
    """
    return decode(RecordedAnswer, _encoded(answer, subject), subject)


def _encoded(value: Value, subject: str) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InvalidObjectError(subject, [Problem("", str(error))]) from error


@lru_cache(maxsize=1024)
def decode_record(data: bytes) -> ClaimRecord:
    """Decode a stored record; records are frozen, so equal texts are decoded once.

    Raises:
        InvalidObjectError: the text is not a record.
    """
    return decode(ClaimRecord, data, "prepared claim")
