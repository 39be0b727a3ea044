"""What is recorded of a prepared claim: enough to answer again, to write its files again, and to unprepare.

Stored as JSON. A newer version adds fields with defaults; an older one ignores them.
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
    """Which claim is meant: all that an unprepare is told."""

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
        consumes: what the device took of counter sets when it was recorded, with its compatibility groups.
        consumes_unknown: the driver did not offer the device then, so nobody knew.
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
        """The device's name in the whole cluster."""
        return DeviceId(driver, self.pool, self.device, self.share_id)

    def allocated(self, device: Device | None, configs: Iterable[Config]) -> AllocatedDevice:
        """The device as its driver sees it."""
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
    """What the driver answered for a device (`PreparedDevice`)."""

    edits: ContainerEdits = ContainerEdits()
    cdi_ids: list[str] = []
    metadata: dict[str, Attribute] | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # msgspec reads no Raw in a union with None
    conditions: list[Condition] = []
    network: NetworkData | None = None


class ClaimRecord(Value, frozen=True, kw_only=True):
    """One claim on this node.

    Attributes:
        uid, namespace, name: which claim.
        pod_claim: the name under which a pod's template made it; empty for claims that users made.
        devices: the devices of this driver, in the allocation's order.
        answers: the driver's answers, one a device in the same order; empty until prepared.
        metadata_updates: how often the metadata of a request was told anew after prepare, by request.
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
        """Which claim it is."""
        return ClaimRef(self.uid, self.namespace, self.name)

    @property
    def pools(self) -> list[str]:
        """The pools of the devices, sorted, each once."""
        return sorted({device.pool for device in self.devices})

    @property
    def allocation(self) -> list[RecordedDevice]:
        """The devices without what they consumed when they were recorded: equal while the allocation is."""
        return [msgspec.structs.replace(device, consumes=[], consumes_unknown=False) for device in self.devices]

    def holder(self, driver: str) -> HoldingClaim:
        """What the claim holds, for `exclusivity`."""
        return HoldingClaim(str(self.ref), [_hold(device, driver) for device in self.devices])


@dataclass(frozen=True, slots=True)
class PreparedClaimRecord:
    """A row of the prepared state.

    Attributes:
        record: the claim, its devices and what the driver answered.
        state: `preparing`, `prepared` or `unpreparing`.
        boot_id: the boot in which it got there.
        since: when it got there, seconds since the epoch.
    """

    record: ClaimRecord
    state: ClaimState
    boot_id: str
    since: float

    @property
    def uid(self) -> str:
        """The claim's UID."""
        return self.record.uid


def _encode_hook(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)


def encode_record(record: ClaimRecord) -> bytes:
    """The record as it is stored.

    Raises:
        InvalidObjectError: it holds what could not be read again (authors' code is not bound to its types). One
            such row would make the whole state unreadable, so it is never written.
    """
    data = _encoded(record, f"claim {record.ref}")
    try:
        decode_record(data)
    except InvalidObjectError as error:
        raise InvalidObjectError(f"claim {record.ref}", error.problems) from error
    return data


def as_recorded(answer: RecordedAnswer, subject: str) -> RecordedAnswer:
    """The answer as it will be read from the record.

    Raises:
        InvalidObjectError: a value is of another type than its field.
    """
    return decode(RecordedAnswer, _encoded(answer, subject), subject)


def _encoded(value: Value, subject: str) -> bytes:
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InvalidObjectError(subject, [Problem("", str(error))]) from error


@lru_cache(maxsize=1024)
def decode_record(data: bytes) -> ClaimRecord:
    """The record that was stored; frozen, so one text is decoded once.

    Raises:
        InvalidObjectError: the text is not a record.
    """
    return decode(ClaimRecord, data, "prepared claim")
